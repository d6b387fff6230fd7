//! What the tiers of a route are for.

/// A route has no more tiers than these; further ones are never used.
pub const MOST_TIERS: usize = 8;

/// What decides how high the bars between tiers are. The tiers go from the cheapest to the best. A number that is negative,
/// infinite or not a number counts as 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Aim {
    /// The share of requests for each tier, held for each key: parts of their sum. One that is missing counts as 0.
    Shares(Vec<f64>),
    /// The mean quality of answers to expect, in `0..=1`, held for each key at the lowest cost.
    MinQuality(f64),
    /// What a point (0.01) of quality is worth, and what is weighed against it.
    ValuePerPoint {
        /// USD a point.
        usd: f64,
        /// USD that a second of waiting for the whole answer costs; 0 where only money counts.
        second_usd: f64,
    },
    /// The most USD that all keys' requests together may cost in any hour.
    MaxSpendPerHour(f64),
}
