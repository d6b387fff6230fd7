//! Room on a pool's engines for one more request.

/// Load of an engine as one more request would find it.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// The gateway's requests there.
    pub in_flight: u32,
    /// Estimated requests of other clients.
    pub foreign: u32,
    /// Operator's limit on concurrent requests.
    pub limit: Option<u32>,
}

impl Occupancy {
    /// True if one more request may be added.
    ///
    /// An engine without requests of ours always has room: the external load is an estimate that may be wrong for long.
    /// An unknown value is no reason to wait.
    pub fn has_room(&self) -> bool {
        let present = self.in_flight.saturating_add(self.foreign);
        self.in_flight == 0 || self.limit.is_none_or(|limit| present < limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_engine_has_none_and_one_with_nothing_of_ours_always_has() {
        let engine = Occupancy { in_flight: 3, foreign: 1, limit: Some(4) };
        assert!(!engine.has_room());
        assert!(Occupancy { foreign: 0, ..engine }.has_room());
        assert!(Occupancy { limit: None, ..engine }.has_room());
        assert!(Occupancy { in_flight: 0, foreign: 99, ..engine }.has_room());
        assert!(!Occupancy { foreign: u32::MAX, ..engine }.has_room());
    }
}
