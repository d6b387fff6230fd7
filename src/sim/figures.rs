//! The figures of one play, and what is asked of it.

use std::time::Duration;

use super::{
    Profile,
    outcome::{End, Outcome},
    traffic::Request,
};

/// What is asked of a request that an engine answers; `None` for the usual.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Slo {
    /// The time to its first token. Usually 1 s, or 2.5 times what the engine takes when idle, whichever is longer.
    pub ttft: Option<Duration>,
    /// The mean time between its tokens. Usually 50 ms.
    pub tpot: Option<Duration>,
}

impl Slo {
    /// What is asked of the time between tokens where nothing else is said.
    pub const TPOT: Duration = Duration::from_millis(50);

    /// The time to the first token that is asked of an engine for a prompt of `prompt_tokens`.
    pub fn ttft(&self, profile: &Profile, prompt_tokens: u32) -> Duration {
        let usual = || profile.idle_ttft(prompt_tokens).mul_f64(2.5).max(Duration::from_secs(1));
        self.ttft.unwrap_or_else(usual)
    }

    /// Whether an answer of that engine is whole and was in time.
    pub fn kept(&self, profile: &Profile, outcome: &Outcome) -> bool {
        outcome.end == End::Answered
            && outcome.ttft.is_some_and(|ttft| ttft <= self.ttft(profile, outcome.prompt_tokens))
            && outcome.tpot().is_none_or(|tpot| tpot <= self.tpot.unwrap_or(Self::TPOT))
    }
}

/// The figures of one play.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Mean time of a decision, in microseconds of the wall's clock.
    pub decision: f64,
    /// Requests that count.
    pub requests: usize,
    /// Share of them within the SLO, 0 to 1.
    pub attainment: f64,
    /// Time to first token of each, in seconds, shortest first; infinite where refused or unanswered.
    pub ttfts: Vec<f64>,
    /// p50 and p90 of the mean time between tokens, in seconds.
    pub tpot: [f64; 2],
    /// Share of prompt tokens found in prefix caches.
    pub hits: f64,
    /// Share refused.
    pub refused: f64,
    /// Share that broke off, or had no answer at the end.
    pub unanswered: f64,
    /// Share that each engine answered.
    pub shares: Vec<f64>,
}

impl Figures {
    /// The time to first token that this share of the requests keeps to, in seconds.
    pub fn ttft(&self, share: f64) -> f64 {
        at(&self.ttfts, share)
    }

    /// Share that the busiest engine answered.
    pub fn busiest(&self) -> f64 {
        self.shares.iter().copied().fold(0.0, f64::max)
    }
}

/// The figures over all requests whose clients stay. Those that will leave are load and nothing else, even where they were
/// answered in time: otherwise a slow policy would lose its worst cases. `engines` are in the order of the simulation's.
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
    let tokens: u64 = counted.iter().map(|outcome| u64::from(outcome.prompt_tokens)).sum();
    let cached: u64 = counted.iter().map(|outcome| u64::from(outcome.cached_tokens)).sum();
    Figures {
        decision: 0.0,
        requests: counted.len(),
        attainment: share(&kept),
        tpot: [at(&tpots, 0.5), at(&tpots, 0.9)],
        hits: cached as f64 / tokens.max(1) as f64,
        refused: share(&|outcome| outcome.end == End::Refused),
        unanswered: share(&|outcome| matches!(outcome.end, End::Cut | End::Open)),
        shares: (0..engines.len()).map(|engine| share(&|outcome| outcome.engine == Some(engine))).collect(),
        ttfts,
    }
}

/// The quantile of what is sorted; not a number where there is nothing.
fn at(sorted: &[f64], share: f64) -> f64 {
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
