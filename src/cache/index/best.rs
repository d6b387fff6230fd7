//! The best few of many, without sorting the others.

/// Keeps the `keep` smallest ranks that it is offered, in time that hardly depends on how many it keeps.
///
/// Twice as many are gathered, then the worse half is let go, and what is no better than the worst of the rest is not taken any more.
#[derive(Debug)]
pub(super) struct Best {
    keep: usize,
    /// Rank above, slot below: in order of rank, and of slots where ranks are equal.
    kept: Vec<u64>,
    /// What is not better than this is not among the best.
    bar: u32,
}

impl Best {
    /// For so many.
    pub(super) fn new(keep: usize) -> Self {
        Self { keep, kept: Vec::with_capacity(2 * keep), bar: u32::MAX }
    }

    /// Takes a slot if its rank may be among the best.
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

    /// The slots of the best, in no order.
    pub(super) fn slots(mut self) -> impl Iterator<Item = usize> {
        if self.kept.len() > self.keep {
            self.halve();
        }
        self.kept.into_iter().map(|kept| (kept & u64::from(u32::MAX)) as usize)
    }
}

/// A rank that is the smaller the larger a similarity is. Never the largest, which nothing would be better than.
#[inline]
pub(super) fn rank(similarity: f32) -> u32 {
    let bits = similarity.to_bits();
    // Floats in order, as whole numbers: those below zero have all bits turned, the others only their sign.
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    !ascending
}
