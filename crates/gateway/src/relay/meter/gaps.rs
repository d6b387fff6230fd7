//! Gaps in an answer, also those between the attempts that wrote it.

use super::Meter;
use signalbox_types::{Gaps, Moment, Outcome, gaps::STUTTER};

impl Meter {
    /// Replaces the meter of an attempt that broke off and takes over what it measured at the client.
    pub(crate) fn take_over(&mut self, mut before: Self) {
        self.committed = std::mem::take(&mut before.committed);
        self.handed = before.handed.take();
        self.overhead = before.overhead;
        self.gaps = self.gaps.and(before.gaps);
        // The reader waits from the last token of one to the first of the other.
        let first = self.tokens.map_or_else(|| self.clock.now(), |(first, _)| first);
        if let Some((_, last)) = before.tokens {
            self.gaps.add(first.seconds_since(last));
        }
        before.over = true;
    }

    /// The gaps of an answer that ended at `now`: with the silence before its end, where a reader noticed it and did not
    /// get the rest.
    pub(super) fn gaps_until(&self, outcome: Outcome, now: Moment) -> Gaps {
        let mut gaps = self.gaps;
        let silence = self.tokens.map_or(0.0, |(_, last)| now.seconds_since(last));
        if outcome != Outcome::Complete && silence > STUTTER {
            gaps.add(silence);
        }
        gaps
    }
}
