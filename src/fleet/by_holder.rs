//! Backends of a large pool by the holder of their prefixes, for its [shortlists](super::Pool::place).

use std::collections::HashMap;

use crate::{schedule::prefix::HolderId, types::Strategy};

/// Largest pool whose backends are all weighed.
pub(super) const MOST_WEIGHED: usize = 64;

/// Indices of backends in their pool.
#[derive(Debug)]
pub(super) struct ByHolder(HashMap<HolderId, usize>);

impl ByHolder {
    /// `None` for a pool that needs no shortlist: a small one, or one whose strategy takes turns or draws for itself.
    pub(super) fn of(balance: Strategy, holders: impl ExactSizeIterator<Item = HolderId>) -> Option<Self> {
        let weighs = matches!(balance, Strategy::LeastCost | Strategy::LeastRequest | Strategy::PeakEwma);
        (weighs && holders.len() > MOST_WEIGHED).then(|| Self(holders.zip(0..).collect()))
    }

    /// The backend with this holder.
    pub(super) fn backend(&self, holder: HolderId) -> Option<usize> {
        self.0.get(&holder).copied()
    }
}
