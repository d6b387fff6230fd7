//! Metrics of one play, and the SLO that it is measured by.

use std::time::Duration;

use super::{
    Profile,
    outcome::{End, Outcome},
    traffic::Request,
};

/// Service level objective of an engine's answers; `None` for the default.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Slo {
    /// Limit on TTFT. Default: 1 s, or 2.5 times the idle TTFT if that is longer.
    pub ttft: Option<Duration>,
    /// Limit on the mean time between tokens. Default: 50 ms.
    pub tpot: Option<Duration>,
}

impl Slo {
    /// Default limit on the time between tokens.
    pub const TPOT: Duration = Duration::from_millis(50);

    /// Limit on TTFT of `engine` for a prompt of `prompt_tokens`.
    pub fn ttft(&self, profile: &Profile, prompt_tokens: u32) -> Duration {
        let usual = || profile.idle_ttft(prompt_tokens).mul_f64(2.5).max(Duration::from_secs(1));
        self.ttft.unwrap_or_else(usual)
    }

    /// True if the answer is complete and kept both limits.
    pub fn kept(&self, profile: &Profile, outcome: &Outcome) -> bool {
        outcome.end == End::Answered
            && outcome.ttft.is_some_and(|ttft| ttft <= self.ttft(profile, outcome.prompt_tokens))
            && outcome.tpot().is_none_or(|tpot| tpot <= self.tpot.unwrap_or(Self::TPOT))
    }
}

/// Metrics of one play.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Mean time of a decision, in microseconds of wall time.
    pub decision: f64,
    /// Number of requests that count.
    pub requests: usize,
    /// Share of them within the SLO, 0 to 1.
    pub attainment: f64,
    /// TTFT of each in seconds, in ascending order; infinite if refused or unanswered.
    pub ttfts: Vec<f64>,
    /// p99 of the TTFT over its limit; infinite if that request was refused or unanswered.
    pub over_limit: f64,
    /// p50 and p90 of the mean time between tokens, in seconds.
    pub tpot: [f64; 2],
    /// Share of prompt tokens found in prefix caches.
    pub hits: f64,
    /// Share refused.
    pub refused: f64,
    /// Share that was cut or unanswered.
    pub unanswered: f64,
    /// Share answered by each engine.
    pub shares: Vec<f64>,
}

impl Figures {
    /// Quantile of TTFT, in seconds.
    pub fn ttft(&self, share: f64) -> f64 {
        at(&self.ttfts, share)
    }

    /// Share answered by the busiest engine.
    pub fn busiest(&self) -> f64 {
        self.shares.iter().copied().fold(0.0, f64::max)
    }
}

/// Metrics over all requests whose clients stay. Those of clients that leave are only load, even if answered in time: otherwise a slow
/// policy would lose its worst cases. `engines` are in the order of the simulation.
pub fn figures(requests: &[Request], outcomes: &[Outcome], engines: &[(Profile, Slo)]) -> Figures {
    let stays = requests.iter().map(|request| request.leaves.is_none());
    let counted: Vec<&Outcome> =
        outcomes.iter().zip(stays).filter_map(|(outcome, stays)| stays.then_some(outcome)).collect();
    let count = counted.len().max(1) as f64;
    let share = |is: &dyn Fn(&Outcome) -> bool| counted.iter().filter(|outcome| is(outcome)).count() as f64 / count;
    let kept = |outcome: &Outcome| {
        let engine = outcome.engine.and_then(|engine| engines.get(engine));
        engine.is_some_and(|(profile, slo)| slo.kept(profile, outcome))
    };
    let mut ttfts: Vec<f64> =
        counted.iter().map(|outcome| outcome.ttft.map_or(f64::INFINITY, |ttft| ttft.as_secs_f64())).collect();
    ttfts.sort_by(f64::total_cmp);
    let mut tpots: Vec<f64> = counted.iter().filter_map(|outcome| Some(outcome.tpot()?.as_secs_f64())).collect();
    tpots.sort_by(f64::total_cmp);
    // A request without an answer has no engine.
    let over = |outcome: &&Outcome| {
        let (engine, ttft) = (outcome.engine.and_then(|engine| engines.get(engine)), outcome.ttft);
        let (Some((profile, slo)), Some(ttft)) = (engine, ttft) else { return f64::INFINITY };
        ttft.as_secs_f64() / slo.ttft(profile, outcome.prompt_tokens).as_secs_f64().max(f64::MIN_POSITIVE)
    };
    let mut over: Vec<f64> = counted.iter().map(over).collect();
    over.sort_by(f64::total_cmp);
    let tokens: u64 = counted.iter().map(|outcome| u64::from(outcome.prompt_tokens)).sum();
    let cached: u64 = counted.iter().map(|outcome| u64::from(outcome.cached_tokens)).sum();
    Figures {
        decision: 0.0,
        requests: counted.len(),
        attainment: share(&kept),
        over_limit: at(&over, 0.99),
        tpot: [at(&tpots, 0.5), at(&tpots, 0.9)],
        hits: cached as f64 / tokens.max(1) as f64,
        refused: share(&|outcome| outcome.end == End::Refused),
        unanswered: share(&|outcome| matches!(outcome.end, End::Cut | End::Open)),
        shares: (0..engines.len()).map(|engine| share(&|outcome| outcome.engine == Some(engine))).collect(),
        ttfts,
    }
}

/// Quantile of a sorted list; NaN if it is empty.
fn at(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
