//! Backends of a large pool by the holder of their prefixes, for its [shortlists](super::Pool::place).

use std::collections::HashMap;

use signalbox_schedule::prefix::HolderId;
use signalbox_types::Strategy;

/// Largest pool whose backends are all weighed.
pub(super) const MOST_WEIGHED: usize = 64;

/// Indices of backends in their pool. Two share a holder where they reach one engine and model by two ways.
#[derive(Debug)]
pub(super) struct ByHolder(HashMap<HolderId, Vec<usize>>);

impl ByHolder {
    /// `None` for a pool that needs no shortlist: a small one, or one whose strategy takes turns or draws for itself.
    pub(super) fn of(balance: Strategy, holders: impl ExactSizeIterator<Item = HolderId>) -> Option<Self> {
        let weighs = matches!(balance, Strategy::LeastCost | Strategy::LeastRequest | Strategy::PeakEwma);
        (weighs && holders.len() > MOST_WEIGHED).then(|| {
            let mut all: HashMap<_, Vec<_>> = HashMap::with_capacity(holders.len());
            for (holder, backend) in holders.zip(0..) {
                all.entry(holder).or_default().push(backend);
            }
            Self(all)
        })
    }

    pub(super) fn has(&self, holder: HolderId) -> bool {
        self.0.contains_key(&holder)
    }

    /// The backends with this holder.
    pub(super) fn backends(&self, holder: HolderId) -> &[usize] {
        self.0.get(&holder).map_or(&[], Vec::as_slice)
    }
}
