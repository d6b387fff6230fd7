//! Whether a pool has room for one more request, without harm to those whose answers are under way.

/// An engine of the pool as one more request would find it.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// Requests of ours there.
    pub in_flight: u32,
    /// Requests that others seem to have put there.
    pub foreign: u32,
    /// The most requests that the operator wants there at once.
    pub limit: Option<u32>,
    /// The seconds per token predicted for those that are there, once the new one is among them; `None` where unknown.
    pub tpot: Option<f64>,
}

impl Occupancy {
    /// Whether one more request may go there, with at most `tpot_limit` seconds per token for those that are there.
    ///
    /// An engine with nothing of ours always has room: there is no stream of ours to protect, what others put there is an
    /// estimate that may be wrong for long, and a prediction of which nothing is tried is never corrected. What is unknown is
    /// no reason to wait.
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

/// Whether any of the `engines` has room for one more request.
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
