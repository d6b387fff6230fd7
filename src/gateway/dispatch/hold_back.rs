//! Hold-back: the first tokens of a stream are kept for a moment, so that one that breaks off among them is begun anew and nobody sees it.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::job::Job;
use crate::{
    gateway::{
        asked::Asked,
        relay::{Answer, Committed, Events, Held, Meter, cut},
    },
    types::Fault,
};

/// Longest that tokens are kept, from the first one on: whoever streams slowly is not made to look slower still.
const LONGEST: Duration = Duration::from_secs(1);

/// The answer, once as many tokens of it have come as its route holds back, or it is complete, or time is up.
///
/// # Errors
/// What broke the answer off before that; nothing of it has gone to the client, so that another backend may still answer.
pub(super) async fn steady(job: &Job, asked: &Asked, mut committed: Committed) -> Result<Committed, Fault> {
    let Some(tokens) = asked.route.hold_back.filter(|_| job.streams() && job.call.is_repeatable()) else {
        return Ok(committed);
    };
    let Committed { answer: Answer::Events { events, .. }, meter, .. } = &mut committed else { return Ok(committed) };
    let clock = asked.desk.clock;
    let began = clock.now();
    let held = timeout_at(Instant::now() + LONGEST, hold(events, meter, tokens)).await;
    job.call.record.wait(clock.now().since(began));
    let Ok(Err(fault)) = held else { return Ok(committed) };
    let Committed { answer, meter, .. } = committed;
    // Its engine is let go before its place is.
    drop(answer);
    meter.fail(&fault);
    Err(fault)
}

async fn hold(events: &mut Events, meter: &mut Meter, tokens: u64) -> Result<(), Fault> {
    while meter.tokens_with("") < tokens && !is_complete(events) {
        match events.hold(|_, seen| meter.read(seen)).await {
            Held::One => {}
            Held::Full => return Ok(()),
            Held::End => return Err(cut("before its end")),
            Held::Broken(fault) => return Err(fault),
        }
    }
    Ok(())
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
