//! Speculative decoding: tokens that an engine drafts and the share that its model accepts, over the last minute.

use signalbox_measure::{Rate, RateSpan};
use signalbox_types::{Drafted, Drafting, Moment};

/// Drafted tokens a second below which no ratio is reported.
const LEAST_TOKENS_PER_SECOND: f64 = 2.0;

/// Counters of drafts as the engine reports them.
#[derive(Debug, Default)]
pub(super) struct SpeculativeDecoding {
    count: Rate,
    tokens: Rate,
    accepted: Rate,
}

impl SpeculativeDecoding {
    /// Adds the drafts between two readings.
    pub(super) fn record(&self, drafted: Drafted, now: Moment) {
        let Drafted { drafts, tokens, accepted } = drafted;
        self.count.record(drafts.unwrap_or(0.0) as u64, now);
        self.tokens.record(tokens as u64, now);
        self.accepted.record(accepted as u64, now);
    }

    /// Acceptance over the last minute; `None` where the engine drafted too few tokens.
    pub(super) fn recent(&self, now: Moment) -> Option<Drafting> {
        let [count, tokens, accepted] =
            [&self.count, &self.tokens, &self.accepted].map(|rate| rate.per_second(RateSpan::Minute, now));
        let length = (count > 0.0).then(|| accepted / count);
        (tokens >= LEAST_TOKENS_PER_SECOND).then(|| Drafting { ratio: accepted / tokens, length })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn drafts_are_judged_by_the_last_minute() {
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        let drafts = SpeculativeDecoding::default();
        assert_eq!(drafts.recent(at(0)), None);
        drafts.record(Drafted { drafts: Some(10.0), tokens: 40.0, accepted: 4.0 }, at(1));
        drafts.record(Drafted { drafts: Some(10.0), tokens: 40.0, accepted: 4.0 }, at(2));
        let drafting = drafts.recent(at(3)).unwrap();
        assert!((drafting.ratio - 0.1).abs() < 1e-9 && (drafting.length.unwrap() - 0.4).abs() < 1e-9, "{drafting:?}");
        assert!(drafting.is_poor());
        assert!(!Drafting { ratio: 0.3, length: Some(1.2) }.is_poor(), "long drafts have low shares");
        assert!(!Drafting { ratio: 0.3, length: None }.is_poor(), "nobody knows how long they are");
        assert_eq!(drafts.recent(at(50)), None, "too few by now");
    }
}
