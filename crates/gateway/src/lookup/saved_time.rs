//! Estimates the time that a cache hit would save.

use std::cell::RefCell;

use crate::stages::Routed;
use signalbox_fleet::{PlacementQuery, Scratch};

/// Answers that a pool must have given before its predictions count.
const SEEN: u64 = 16;

thread_local! {
    /// Scratch memory for pool forecasts, one per worker.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Predicted seconds from dispatch to the last token at the pool of the route's first target. `None` if the pool has
/// given too few answers, or if its backends all failed recently.
pub(super) fn seconds(routed: &Routed) -> Option<f64> {
    let target = routed.route.targets.first()?;
    let pool = &routed.call.serving.snapshot.pools[target.pool];
    pool.learned.predictor.ttft_accuracy().filter(|seen| seen.observations >= SEEN)?;
    let outputs = pool.learned.outputs.of(target, &routed.route.name);
    let ask = PlacementQuery {
        target,
        tried: &[],
        prompt: routed.blocks.prompt(),
        session: routed.session,
        room_only: false,
        outputs: &outputs,
        max_tokens: routed.call.body.max_tokens,
        whole: !routed.call.body.stream,
        bounded: false,
        ttft_limit: None,
        tpot_limit: None,
    };
    let (_, forecast) =
        SCRATCH.with_borrow_mut(|scratch| pool.peek(&ask, routed.call.record.clock().now(), scratch))?;
    Some(forecast).filter(|forecast| !forecast.avoided).map(|forecast| forecast.e2e)
}
