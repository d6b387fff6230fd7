//! The choice of a backend in one pool, noted with every candidate as it looked.

use crate::{
    gateway::{
        line::{Attempted, Weighed},
        stages::Call,
    },
    policy::Target,
    schedule::{Choice, choose},
    types::{Candidate, Moment},
};

/// A backend that was chosen.
pub(super) struct Placed {
    /// Place of the pool in the policy.
    pub(super) pool: usize,
    /// Place of the backend in the pool.
    pub(super) backend: usize,
    pub(super) reason: &'static str,
}

/// Chooses among the backends that `target` allows and that were not tried yet.
pub(super) fn place(call: &Call, target: &Target, tried: &[usize], now: Moment) -> Option<Placed> {
    let pool = &call.serving.snapshot.pools[target.pool];
    let members: Vec<usize> = pool.members(target).filter(|member| !tried.contains(member)).collect();
    let candidates: Vec<Candidate> =
        members.iter().map(|&member| pool.backends[member].candidate(call.body.prompt_bytes, now)).collect();
    let choice = choose(pool.spec.balance, &candidates, pool.draw(target, fastrand::f64()))?;
    let backend = members[choice.index];
    let reason = choice.reason.label();
    call.record.note(|line| {
        let name = |member: usize| pool.backends[member].name().clone();
        line.attempts.push(Attempted {
            pool: pool.spec.name.clone(),
            backend: name(backend),
            upstream_model: pool.backends[backend].spec.model.clone(),
            reason,
            candidates: weighed(&members, &candidates, &choice, name),
            outcome: None,
        });
    });
    Some(Placed { pool: target.pool, backend, reason })
}

fn weighed(
    members: &[usize],
    candidates: &[Candidate],
    choice: &Choice,
    name: impl Fn(usize) -> crate::types::Name,
) -> Vec<Weighed> {
    let all = members.iter().zip(candidates).zip(&choice.costs);
    all.map(|((&member, candidate), &cost)| Weighed {
        backend: name(member),
        cost,
        in_flight: candidate.in_flight,
        foreign: candidate.foreign,
        queued_tokens: candidate.queued_tokens,
        uncached_tokens: candidate.uncached_tokens,
        avoided: candidate.avoided,
    })
    .collect()
}
