//! Hold-back: buffers the first tokens of a stream briefly. If the stream breaks off among them, another backend starts
//! it again and the client does not notice.

use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::attempt::Job;
use crate::{
    placement::PlacementRequest,
    relay::{Answer, Committed, Events, Held, Meter, cut},
};
use signalbox_types::{Fault, fault::STALLED};

/// Longest time that tokens are held back, counted from the first one, while the stream goes on. It keeps a slow stream
/// from looking even slower.
const MAX_HOLD_BACK: Duration = Duration::from_secs(1);
/// Silence among the first tokens after which a stream counts as stalled.
const STALL: Duration = Duration::from_secs(5);

/// Waits until the number of tokens that the route holds back has arrived, the answer is complete, or time is up.
///
/// # Errors
/// The fault that broke the answer off before that. The client has received nothing, so another backend may still
/// answer.
pub(super) async fn steady(job: &Job, asked: &PlacementRequest, committed: &mut Committed) -> Result<(), Fault> {
    let Some(tokens) = asked.route.hold_back.filter(|_| job.streams() && job.call.is_repeatable()) else {
        return Ok(());
    };
    let Committed { answer: Answer::Events { events, .. }, meter, .. } = committed else { return Ok(()) };
    let clock = asked.state.clock;
    let began = clock.now();
    let stall = asked.has_sound(began).then(|| STALL.min(asked.route.timeouts.idle));
    let held = hold(events, meter, tokens, stall).await;
    job.call.record.wait(clock.now().since(began));
    held
}

/// Holds events back until there are enough or time is up.
///
/// A stream that is silent when time is up has nothing more to pass on. It is held until its next event, or until it
/// has been silent for `stall` and another backend takes over.
async fn hold(events: &mut Events, meter: &mut Meter, tokens: u64, stall: Option<Duration>) -> Result<(), Fault> {
    let until = Instant::now() + MAX_HOLD_BACK;
    while meter.received() < tokens && !is_complete(events) {
        let deadline = stall.map_or(until, |stall| Instant::now() + stall);
        match timeout_at(deadline, events.hold(|_, seen| meter.read(seen))).await {
            Ok(Held::One) if Instant::now() < until => {}
            Ok(Held::One | Held::Full) => return Ok(()),
            Ok(Held::End) => return Err(cut("before its end")),
            Ok(Held::Broken(fault)) => return Err(fault),
            Err(_) => return stall.map_or(Ok(()), |stall| Err(stalled(stall))),
        }
    }
    Ok(())
}

fn stalled(silent: Duration) -> Fault {
    let message = format!("the backend's stream stopped for {} s among its first tokens", silent.as_secs_f64());
    Fault::upstream(StatusCode::GATEWAY_TIMEOUT, STALLED, message)
}

/// True if every choice that was begun has ended, so that a later failure loses nothing.
fn is_complete(events: &Events) -> bool {
    let (mut said, mut open) = (false, 0);
    for (_, seen) in events.held() {
        if seen.done {
            return true;
        }
        said |= seen.finished;
        open = (open | seen.choices) & !seen.finished_choices;
    }
    said && open == 0
}
