//! Hold-back: the first tokens of a stream are kept for a moment, so that one that breaks off among them is begun anew and nobody sees it.

use std::time::Duration;

use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::job::Job;
use crate::{
    gateway::{
        placement::PlacementRequest,
        relay::{Answer, Committed, Events, Held, Meter, cut},
    },
    types::{Fault, fault::STALLED},
};

/// Longest that the tokens of a stream are kept, from the first one on, while it goes on: a slow stream is not made to look slower still.
const LONGEST: Duration = Duration::from_secs(1);
/// A stream that is silent for so long among its first tokens has stalled.
const STALL: Duration = Duration::from_secs(5);

/// The answer, once as many tokens of it have come as its route holds back, or it is complete, or time is up.
///
/// # Errors
/// What broke the answer off before that; nothing of it has gone to the client, so that another backend may still answer.
pub(super) async fn steady(job: &Job, asked: &PlacementRequest, mut committed: Committed) -> Result<Committed, Fault> {
    let Some(tokens) = asked.route.hold_back.filter(|_| job.streams() && job.call.is_repeatable()) else {
        return Ok(committed);
    };
    let Committed { answer: Answer::Events { events, .. }, meter, .. } = &mut committed else { return Ok(committed) };
    let clock = asked.state.clock;
    let began = clock.now();
    let stall = asked.has_sound(began).then(|| STALL.min(asked.route.timeouts.idle));
    let held = hold(events, meter, tokens, stall).await;
    job.call.record.wait(clock.now().since(began));
    let Err(fault) = held else { return Ok(committed) };
    let Committed { answer, meter, .. } = committed;
    // Its engine is let go before its place is.
    drop(answer);
    meter.fail(&fault);
    Err(fault)
}

/// Holds events back, until there are enough or time is up. A stream that is silent when time is up has nothing more to pass on: it is
/// held on until it speaks, or until it has been silent for `stall` and another backend takes over.
async fn hold(events: &mut Events, meter: &mut Meter, tokens: u64, stall: Option<Duration>) -> Result<(), Fault> {
    let until = Instant::now() + LONGEST;
    while meter.received() < tokens && !is_complete(events) {
        let patience = stall.map_or(until, |stall| Instant::now() + stall);
        match timeout_at(patience, events.hold(|_, seen| meter.read(seen))).await {
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

/// Whether every choice that was begun has an end, so that nothing that breaks now takes anything away.
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
