//! What a hit would save: the time that an engine would take for the answer.

use std::cell::RefCell;

use crate::{
    fleet::{PlacementQuery, Scratch},
    gateway::stages::Routed,
};

/// Answers that a pool must have been seen to give before predictions of it count.
const SEEN: u64 = 16;

thread_local! {
    /// Working memory of looks into pools, one a worker.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// The seconds from dispatch to the last token that the pool which the request goes to first would take. `None` where that is not known:
/// of a pool that has answered little, and of one whose backends all failed lately.
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
        ttft_limit: None,
        tpot_limit: None,
    };
    let (_, outlook) = SCRATCH.with_borrow_mut(|scratch| pool.peek(&ask, routed.call.record.clock().now(), scratch))?;
    Some(outlook).filter(|outlook| !outlook.avoided).map(|outlook| outlook.e2e)
}
