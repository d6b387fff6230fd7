//! The figures of one play, and what is asked of it.

use std::time::Duration;

use signalbox::sim::{
    Profile,
    outcome::{End, Outcome},
    traffic::Request,
};

/// What is asked of a request's first token: 1 s, or 2.5 times what an idle engine takes.
pub(crate) fn ttft_limit(profile: &Profile, prompt_tokens: u32) -> Duration {
    profile.idle_ttft(prompt_tokens).mul_f64(2.5).max(Duration::from_secs(1))
}

/// What is asked of the time between tokens.
pub(crate) const TPOT_LIMIT: Duration = Duration::from_millis(50);

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Mean time of a decision, in microseconds.
    pub(crate) decision: f64,
    /// Share of requests within both limits, 0 to 1.
    pub(crate) attainment: f64,
    /// Time to first token over all that were offered, in seconds: p50, p90, p99; infinite where refused or unanswered.
    pub(crate) ttft: [f64; 3],
    /// p90 of the mean time between tokens, in seconds.
    pub(crate) tpot: f64,
    /// Share of prompt tokens found in prefix caches.
    pub(crate) hits: f64,
    /// Share refused.
    pub(crate) refused: f64,
    /// Share that the busiest engine answered.
    pub(crate) most: f64,
}

/// The figures over all requests whose clients stay. Those that will leave are load and nothing else, even where they were
/// answered in time: otherwise a slow policy would lose its worst cases.
pub(crate) fn figures(requests: &[Request], outcomes: &[Outcome], profile: &Profile, engines: usize) -> Figures {
    let stays = requests.iter().map(|request| request.leaves.is_none());
    let counted: Vec<&Outcome> =
        outcomes.iter().zip(stays).filter_map(|(outcome, stays)| stays.then_some(outcome)).collect();
    let count = counted.len().max(1) as f64;
    let kept = counted.iter().filter(|outcome| {
        outcome.end == End::Answered
            && outcome.ttft.is_some_and(|ttft| ttft <= ttft_limit(profile, outcome.prompt_tokens))
            && outcome.tpot().is_none_or(|tpot| tpot <= TPOT_LIMIT)
    });
    let mut ttfts: Vec<f64> =
        counted.iter().map(|outcome| outcome.ttft.map_or(f64::INFINITY, |ttft| ttft.as_secs_f64())).collect();
    ttfts.sort_by(f64::total_cmp);
    let mut tpots: Vec<f64> = counted.iter().filter_map(|outcome| Some(outcome.tpot()?.as_secs_f64())).collect();
    tpots.sort_by(f64::total_cmp);
    let at =
        |sorted: &[f64], share: f64| sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    let tokens: u64 = counted.iter().map(|outcome| u64::from(outcome.prompt_tokens)).sum();
    let cached: u64 = counted.iter().map(|outcome| u64::from(outcome.cached_tokens)).sum();
    let refused = counted.iter().filter(|outcome| outcome.end == End::Refused).count();
    let mut shares = vec![0; engines];
    counted.iter().filter_map(|outcome| outcome.engine).for_each(|engine| shares[engine] += 1);
    Figures {
        decision: 0.0,
        attainment: kept.count() as f64 / count,
        ttft: [at(&ttfts, 0.5), at(&ttfts, 0.9), at(&ttfts, 0.99)],
        tpot: at(&tpots, 0.9),
        hits: cached as f64 / tokens.max(1) as f64,
        refused: refused as f64 / count,
        most: f64::from(shares.iter().copied().max().unwrap_or(0)) / count,
    }
}
