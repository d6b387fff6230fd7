//! The objective that a route's tiers pursue.

/// The most tiers of a route that are used; further ones are ignored.
pub const MOST_TIERS: usize = 8;

/// The objective that sets the thresholds between tiers, which are ordered from the cheapest to the best. A number that
/// is negative, infinite or NaN counts as 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Aim {
    /// The share of requests for each tier, held for each key, relative to the sum of all shares. A missing share
    /// counts as 0.
    Shares(Vec<f64>),
    /// The mean expected quality of answers, in `0..=1`, held for each key at the lowest cost.
    MinQuality(f64),
    /// The value of one point (0.01) of quality, weighed against cost and optionally time.
    ValuePerPoint {
        /// USD per point.
        usd: f64,
        /// USD per second until the answer is complete; 0 if time has no price.
        second_usd: f64,
    },
    /// The most USD that the requests of all keys together may cost in any hour.
    MaxSpendPerHour(f64),
}
