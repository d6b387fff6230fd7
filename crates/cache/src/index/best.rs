//! Selection of the best few of many without sorting the rest.

/// Keeps the `keep` smallest ranks, in time that hardly depends on `keep`.
///
/// Collects twice as many, then drops the worse half; later ranks must be better than the worst of the rest.
#[derive(Debug)]
pub(super) struct Best {
    keep: usize,
    /// Rank in the upper and slot in the lower bits: ordered by rank, then by slot.
    kept: Vec<u64>,
    /// Only ranks below this may be among the best.
    bar: u32,
}

impl Best {
    /// Creates a selection of `keep` slots.
    pub(super) fn new(keep: usize) -> Self {
        Self { keep, kept: Vec::with_capacity(2 * keep), bar: u32::MAX }
    }

    /// Offers a slot with its rank.
    #[inline]
    pub(super) fn offer(&mut self, rank: u32, slot: usize) {
        if rank < self.bar {
            self.take(rank, slot);
        }
    }

    fn take(&mut self, rank: u32, slot: usize) {
        if self.keep == 0 {
            return;
        }
        self.kept.push(u64::from(rank) << 32 | slot as u64);
        if self.kept.len() == 2 * self.keep {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let (_, worst, _) = self.kept.select_nth_unstable(self.keep - 1);
        self.bar = (*worst >> 32) as u32;
        self.kept.truncate(self.keep);
    }

    /// Slots of the best, in no order.
    pub(super) fn slots(mut self) -> impl Iterator<Item = usize> {
        if self.kept.len() > self.keep {
            self.halve();
        }
        self.kept.into_iter().map(|kept| (kept & u64::from(u32::MAX)) as usize)
    }
}

/// Rank of a similarity: smaller for a larger similarity. Never the maximum, since no rank would be worse.
#[inline]
pub(super) fn rank(similarity: f32) -> u32 {
    let bits = similarity.to_bits();
    // Order-preserving map of floats to integers: negative ones have all bits inverted, the others only the sign.
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    !ascending
}
