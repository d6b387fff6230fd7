//! Runs a scenario with a policy.

use signalbox::{
    fleet::Registry,
    sim::{
        cluster::{self, Scheduler},
        outcome::Outcome,
        timed::Timed,
    },
};

use crate::{
    peers::Bus,
    policies::{Fleet, Policy},
    scenario::Play,
};

/// Figures of one play.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Requests within their limits, %.
    pub(crate) attainment: f64,
    /// 99th percentile of TTFT over its limit.
    pub(crate) tail: f64,
    /// The longest TTFT over its limit.
    pub(crate) longest: f64,
    /// Mean of TTFT over its limit, each counted as at most 10.
    pub(crate) lateness: f64,
    /// Requests whose first token was late, %; the others out of their limits had late tokens.
    pub(crate) late: f64,
    /// Prompt tokens found in prefix caches, %.
    pub(crate) hits: f64,
    /// Microseconds of wall time per arrival.
    pub(crate) decision: f64,
}

/// Plays a scenario with a policy.
pub(crate) fn play(play: &Play, policy: &Policy) -> Figures {
    let shared = Registry::default();
    let bus = Bus::default();
    let fleet = |gateway| Fleet { play, shared: &shared, bus: &bus, gateway, seed: play.setting.seed | gateway as u64 };
    let mut gateways: Vec<Timed> =
        (0..play.gateways).map(|gateway| Timed::new((policy.make)(&fleet(gateway)))).collect();
    let mut schedulers: Vec<&mut dyn Scheduler> =
        gateways.iter_mut().map(|gateway| gateway as &mut dyn Scheduler).collect();
    let outcomes = cluster::run(&play.setting, &play.requests, &mut schedulers);
    Figures { decision: Timed::mean(&gateways), ..figures(play, &outcomes) }
}

/// Only clients that stay are counted: those that leave are load, even if answered in time.
fn figures(play: &Play, outcomes: &[Outcome]) -> Figures {
    let counts = |request: &signalbox::sim::traffic::Request| request.at >= play.warm && request.leaves.is_none();
    let counted: Vec<&Outcome> = play
        .requests
        .iter()
        .zip(outcomes)
        .filter_map(|(request, outcome)| counts(request).then_some(outcome))
        .collect();
    let count = counted.len().max(1) as f64;
    let kept = counted.iter().filter(|outcome| play.limits.kept(&play.profile, outcome)).count() as f64;
    let mut late: Vec<f64> = counted.iter().map(|outcome| play.limits.lateness(&play.profile, outcome)).collect();
    late.sort_by(f64::total_cmp);
    let tail = late.get((count * 0.99) as usize).or(late.last()).copied().unwrap_or(f64::NAN);
    let tokens: f64 = counted.iter().map(|outcome| f64::from(outcome.prompt_tokens)).sum();
    let cached: f64 = counted.iter().map(|outcome| f64::from(outcome.cached_tokens)).sum();
    Figures {
        attainment: 100.0 * kept / count,
        tail,
        longest: late.last().copied().unwrap_or(f64::NAN),
        lateness: late.iter().map(|late| late.min(10.0)).sum::<f64>() / count,
        late: 100.0 * late.iter().filter(|late| **late > 1.0).count() as f64 / count,
        hits: 100.0 * cached / tokens.max(1.0),
        decision: 0.0,
    }
}
