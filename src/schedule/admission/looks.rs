//! How far a queue is looked through for those who can go now.

/// Most requests of one queue that are looked at in vain before those behind them have to wait for the next time. Only a queue of
/// many routes has so many that differ.
const MOST_IN_VAIN: usize = 16;
/// The same of those that are kept for an engine with enough to do: a burst of prompts that begin alike wants to go to the same one. Those
/// behind them that are not kept are looked at all the same, as many again.
const MOST_KEPT: usize = 32;
/// Beyond half of them it is enough once so many candidates were weighed: the one who gives up a place waits for all these decisions, and one
/// among 64 engines takes ten microseconds.
const MOST_WEIGHED: usize = 1024;

/// One look through a queue, in its order.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Looks {
    in_vain: usize,
    kept: usize,
    weighed: usize,
}

impl Looks {
    /// Whether those who are left wait for the next time.
    pub(super) fn are_over(&self) -> bool {
        self.in_vain >= MOST_IN_VAIN || self.were_enough(2)
    }

    /// Whether one that is `kept` is passed over: there were enough of them.
    pub(super) fn pass_over(&self, kept: bool) -> bool {
        kept && self.were_enough(1)
    }

    fn were_enough(&self, times: usize) -> bool {
        let weighed = self.weighed >= times * MOST_WEIGHED;
        self.kept >= times * if weighed { MOST_KEPT / 2 } else { MOST_KEPT }
    }

    /// There is no room for one.
    pub(super) fn in_vain(&mut self) {
        self.in_vain += 1;
    }

    /// The engine that one should go to, of so many that were `weighed`, has enough to do.
    pub(super) fn kept(&mut self, weighed: usize) {
        self.kept += 1;
        self.weighed += weighed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are looked at among `candidates` that are kept, and how many that are not.
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
