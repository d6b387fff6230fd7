//! Room on a pool's engines for one more request, without harm to streams under way.

/// Load of an engine as one more request would find it.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// The gateway's requests there.
    pub in_flight: u32,
    /// Estimated requests of other clients.
    pub foreign: u32,
    /// Operator's limit on concurrent requests.
    pub limit: Option<u32>,
    /// Predicted seconds per token for the requests there after adding one; `None` where unknown.
    pub tpot: Option<f64>,
}

impl Occupancy {
    /// True if one more request may be added with at most `tpot_limit` seconds per token for those there.
    ///
    /// An engine without requests of ours always has room: there is no stream of ours to protect, the external load is
    /// an estimate that may be wrong for long, and a prediction that is never tried is never corrected. An unknown
    /// value is no reason to wait.
    pub fn has_room(&self, tpot_limit: Option<f64>) -> bool {
        if self.in_flight == 0 {
            return true;
        }
        let present = self.in_flight.saturating_add(self.foreign);
        let below = self.limit.is_none_or(|limit| present < limit);
        let fast = self.tpot.zip(tpot_limit).is_none_or(|(tpot, limit)| tpot <= limit);
        below && fast
    }
}

/// True if any of the `engines` has room for one more request.
pub fn has_room<'a>(engines: impl IntoIterator<Item = &'a Occupancy>, tpot_limit: Option<f64>) -> bool {
    engines.into_iter().any(|engine| engine.has_room(tpot_limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_engine_has_none_and_one_with_nothing_of_ours_always_has() {
        let engine = Occupancy { in_flight: 3, foreign: 1, limit: Some(4), tpot: None };
        assert!(!engine.has_room(None));
        assert!(Occupancy { foreign: 0, ..engine }.has_room(None));
        assert!(Occupancy { limit: None, ..engine }.has_room(None));
        assert!(Occupancy { in_flight: 0, foreign: 99, tpot: Some(9.0), ..engine }.has_room(Some(0.05)));
        assert!(!Occupancy { foreign: u32::MAX, ..engine }.has_room(None));
    }

    #[test]
    fn streams_are_not_slowed_beyond_the_limit() {
        let engine = Occupancy { in_flight: 3, tpot: Some(0.06), ..Occupancy::default() };
        assert!(!engine.has_room(Some(0.05)));
        assert!(engine.has_room(Some(0.06)) && engine.has_room(None));
        assert!(Occupancy { tpot: None, ..engine }.has_room(Some(0.05)));
    }

    #[test]
    fn one_engine_with_room_is_enough() {
        let full = Occupancy { in_flight: 4, limit: Some(4), ..Occupancy::default() };
        let free = Occupancy { in_flight: 2, ..full };
        assert!(has_room(&[full, free], None));
        assert!(!has_room(&[full, full], None));
        assert!(!has_room(&[], None), "a pool without engines has none");
    }
}
