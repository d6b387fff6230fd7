//! Useful work of a pool's engines: tokens by their use, and the recent share of good ones.

use prometheus_client::metrics::counter::Counter;

use signalbox_measure::{Rate, RateSpan};
use signalbox_types::Moment;

/// Use of an engine's work.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// Delivered, and all objectives were met.
    Good,
    /// Delivered, but missed an objective.
    Late,
    /// Delivered to nobody.
    Wasted,
    /// Of an answer that failed through its engine.
    Failed,
}

impl Use {
    /// All uses.
    pub(super) const ALL: [Self; 4] = [Self::Good, Self::Late, Self::Wasted, Self::Failed];

    /// Label for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Late => "late",
            Self::Wasted => "wasted",
            Self::Failed => "failed",
        }
    }
}

/// Work of a pool's engines.
#[derive(Debug)]
pub(super) struct Work {
    /// Tokens of prompts and of answers, each by [`Use`].
    tokens: [[Counter; Use::ALL.len()]; 2],
    all: Rate,
    good: Rate,
}

impl Work {
    pub(super) fn new() -> Self {
        Self { tokens: Default::default(), all: Rate::new(), good: Rate::new() }
    }

    pub(super) fn record(&self, prompt: u64, completion: u64, of: Use, now: Moment) {
        let both = prompt.saturating_add(completion);
        if both == 0 {
            return;
        }
        for (kind, tokens) in self.tokens.iter().zip([prompt, completion]) {
            kind[of as usize].inc_by(tokens);
        }
        self.all.record(both, now);
        if of == Use::Good {
            self.good.record(both, now);
        }
    }

    /// Counters by kind and use; none before anything was counted, then all, since shares of them are computed.
    pub(super) fn counters(&self) -> impl Iterator<Item = (&'static str, Use, Counter)> {
        let is_used = self.tokens.iter().flatten().any(|counter| counter.get() > 0);
        let kinds = ["prompt", "completion"].into_iter().zip(&self.tokens).filter(move |_| is_used);
        kinds.flat_map(|(kind, counters)| {
            Use::ALL.into_iter().zip(counters).map(move |(of, counter)| (kind, of, counter.clone()))
        })
    }

    /// Good tokens and all tokens since the start.
    pub(super) fn totals(&self) -> (u64, u64) {
        let of = |of: Use| self.tokens.iter().map(|kind| kind[of as usize].get()).sum::<u64>();
        (of(Use::Good), Use::ALL.into_iter().map(of).sum())
    }

    /// Share of the last minute's tokens that was good; `None` without any.
    pub(super) fn goodput(&self, now: Moment) -> Option<f64> {
        // Good tokens are counted last, so they are read first: never more than all.
        let [good, all] = [&self.good, &self.all].map(|rate| rate.total(RateSpan::Minute, now));
        (all > 0).then(|| (good as f64 / all as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn goodput_is_the_share_of_the_last_minute() {
        let (work, start) = (Work::new(), Moment::default().plus(Duration::from_secs(100)));
        assert_eq!((work.goodput(start), work.counters().count()), (None, 0));
        work.record(60, 20, Use::Good, start);
        work.record(0, 0, Use::Late, start);
        let later = start.plus(Duration::from_secs(30));
        work.record(15, 5, Use::Wasted, later);
        assert_eq!(work.goodput(later), Some(0.8));
        assert_eq!(work.goodput(start.plus(Duration::from_secs(70))), Some(0.0), "what was good is long ago");
        assert_eq!(work.goodput(start.plus(Duration::from_secs(200))), None);
        let counts: Vec<_> = work.counters().map(|(kind, of, it)| (kind, of.label(), it.get())).collect();
        assert_eq!(counts[..3], [("prompt", "good", 60), ("prompt", "late", 0), ("prompt", "wasted", 15)]);
        assert_eq!(counts[3], ("prompt", "failed", 0));
        assert_eq!(counts[4..7], [("completion", "good", 20), ("completion", "late", 0), ("completion", "wasted", 5)]);
    }
}
