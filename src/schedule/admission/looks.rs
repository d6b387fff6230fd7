//! Limits of one scan through a queue for requests that can be admitted now.

/// Most requests of one queue that are tried without success in one scan. Only a queue of many routes has so many
/// different ones.
const MOST_IN_VAIN: usize = 16;
/// Most requests that are held back for a busy engine in one scan: a burst of prompts with a common beginning wants the
/// same engine. Requests behind them that are not held are tried too, up to as many again.
const MOST_KEPT: usize = 32;
/// Most candidates weighed in one scan once half of that bound is reached. The request that releases a place waits for
/// all these decisions, and one among 64 engines takes ten microseconds.
const MOST_WEIGHED: usize = 1024;

/// State of one scan through a queue, in its order.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Looks {
    in_vain: usize,
    kept: usize,
    weighed: usize,
}

impl Looks {
    /// True if the scan ends here.
    pub(super) fn are_over(&self) -> bool {
        self.in_vain >= MOST_IN_VAIN || self.were_enough(2)
    }

    /// True if a `kept` request is skipped because there were enough of them.
    pub(super) fn pass_over(&self, kept: bool) -> bool {
        kept && self.were_enough(1)
    }

    fn were_enough(&self, times: usize) -> bool {
        let weighed = self.weighed >= times * MOST_WEIGHED;
        self.kept >= times * if weighed { MOST_KEPT / 2 } else { MOST_KEPT }
    }

    /// Counts a request without room.
    pub(super) fn in_vain(&mut self) {
        self.in_vain += 1;
    }

    /// Counts a request whose engine has enough work; `weighed` candidates were compared for it.
    pub(super) fn kept(&mut self, weighed: usize) {
        self.kept += 1;
        self.weighed += weighed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of held and of other requests that a scan with `candidates` tries.
    fn looks(candidates: usize) -> (usize, usize) {
        let (mut looks, mut seen) = (Looks::default(), (0, 0));
        while !looks.are_over() {
            *(if looks.pass_over(true) { &mut seen.1 } else { &mut seen.0 }) += 1;
            looks.kept(candidates);
        }
        seen
    }

    #[test]
    fn where_engines_are_many_fewer_are_looked_at_and_kept_ones_hide_none_that_are_not() {
        assert_eq!(looks(8), (32, 32));
        assert_eq!(looks(64), (16, 16));
        assert_eq!(looks(48), (22, 21));
        assert_eq!(looks(5_000), (16, 16));
    }

    #[test]
    fn those_without_room_are_looked_at_up_to_a_bound() {
        let mut looks = Looks::default();
        let mut seen = 0;
        while !looks.are_over() {
            looks.in_vain();
            seen += 1;
        }
        assert_eq!(seen, 16);
    }
}
