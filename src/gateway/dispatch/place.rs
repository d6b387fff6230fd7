//! The choice of a backend in one pool, noted with every candidate as it looked.

use std::cell::RefCell;

use crate::{
    fleet::{Ask, Forecast, Placement, Pool, Scratch},
    gateway::{
        line::{Attempted, Weighed},
        stages::Call,
    },
    policy::Target,
    prompt::Blocks,
    types::Moment,
};

thread_local! {
    /// A decision's working memory, one a worker.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// A backend that was chosen.
pub(super) struct Placed {
    /// Place of the pool in the policy.
    pub(super) pool: usize,
    /// Place of the backend in the pool.
    pub(super) backend: usize,
    pub(super) reason: &'static str,
    pub(super) forecast: Forecast,
}

/// Chooses among the backends that `target` allows and that were not tried yet.
pub(super) fn place(call: &Call, blocks: &Blocks, target: &Target, tried: &[usize], now: Moment) -> Option<Placed> {
    let pool = &call.serving.snapshot.pools[target.pool];
    let ask = Ask {
        target,
        tried,
        prompt: blocks.prompt(),
        max_tokens: call.body.max_tokens,
        whole: !call.body.stream,
        ttft_limit: None,
        tpot_limit: None,
    };
    let (placement, candidates) = SCRATCH.with_borrow_mut(|scratch| {
        let placement = pool.place(&ask, now, fastrand::f64(), scratch)?;
        Some((placement, weighed(pool, scratch)))
    })?;
    let Placement { backend, choice, forecast } = placement;
    let reason = choice.reason.label();
    call.record.note(|line| {
        line.attempts.push(Attempted {
            pool: pool.spec.name.clone(),
            backend: pool.backends[backend].name().clone(),
            upstream_model: pool.backends[backend].spec.model.clone(),
            reason,
            candidates,
            outcome: None,
        });
    });
    Some(Placed { pool: target.pool, backend, reason, forecast })
}

fn weighed(pool: &Pool, scratch: &Scratch) -> Vec<Weighed> {
    let all = scratch.members.iter().zip(&scratch.candidates).zip(&scratch.costs);
    all.map(|((&member, candidate), &cost)| Weighed {
        backend: pool.backends[member].name().clone(),
        cost,
        in_flight: candidate.in_flight,
        foreign: candidate.foreign,
        queued_tokens: candidate.queued_tokens,
        uncached_tokens: candidate.uncached_tokens,
        avoided: candidate.avoided,
    })
    .collect()
}
