//! The choice of the traces that are recorded.

/// Chooses traces by their id, so that all processes of a trace choose alike.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) struct Sampler {
    /// Share of traces that are recorded.
    pub(super) share: f64,
    /// True if the decision of the caller counts.
    pub(super) follows_parent: bool,
}

/// Records all traces but those whose caller does not.
impl Default for Sampler {
    fn default() -> Self {
        Self { share: 1.0, follows_parent: true }
    }
}

impl Sampler {
    /// True if the trace is recorded; `parent` is the decision of the caller.
    pub(super) fn samples(self, trace: u128, parent: Option<bool>) -> bool {
        /// Bits of an id that are compared: of those that the specification takes for random, as many as a number of this
        /// size keeps without rounding.
        const BITS: u32 = 53;
        let own = || ((trace & ((1 << BITS) - 1)) as f64) < self.share * (1_u64 << BITS) as f64;
        parent.filter(|_| self.follows_parent).unwrap_or_else(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_traces_is_recorded_unless_the_caller_decides() {
        let quarter = Sampler { share: 0.25, follows_parent: true };
        let mut random = fastrand::Rng::with_seed(7);
        let recorded = (0..10_000).filter(|_| quarter.samples(random.u128(..), None)).count();
        assert!((2_300..2_700).contains(&recorded), "{recorded}");
        assert!(quarter.samples(u128::MAX, Some(true)) && !quarter.samples(1, Some(false)));
        let alone = Sampler { follows_parent: false, ..quarter };
        assert!(!alone.samples(u128::MAX, Some(true)) && alone.samples(1, Some(false)));
        for trace in [1, 1 << 52, u128::MAX] {
            assert!(Sampler::default().samples(trace, None));
            assert!(!Sampler { share: 0.0, ..quarter }.samples(trace, None));
        }
    }
}
