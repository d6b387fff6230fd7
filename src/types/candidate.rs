//! What the balancer is told of a backend, and the ways in which it may choose among them.

/// How a backend is chosen within a pool.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Least cost, counted in tokens in flight.
    #[default]
    LeastCost,
    /// One after the other.
    RoundRobin,
    /// Fewest requests in flight.
    LeastRequest,
    /// The less loaded of two drawn at random.
    PowerOfTwo,
    /// Smallest peak-sensitive moving average of latency × requests in flight.
    PeakEwma,
}

impl Strategy {
    /// The name used in policies, the journal and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeastCost => "least_cost",
            Self::RoundRobin => "round_robin",
            Self::LeastRequest => "least_request",
            Self::PowerOfTwo => "p2c",
            Self::PeakEwma => "peak_ewma",
        }
    }
}

/// A backend as the balancer sees it at one moment. Plain numbers, so that a decision can be made again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// Requests of ours on its engine.
    pub in_flight: u32,
    /// Requests that others seem to have put there.
    pub foreign: u32,
    /// Prompt tokens dispatched to its engine and still without a first token.
    pub queued_tokens: u64,
    /// Prompt tokens of this request that it would have to compute.
    pub uncached_tokens: u64,
    /// Peak-sensitive moving average of its latency, in seconds.
    pub latency: f64,
    /// Its fixed share of the pool's traffic in `0..=1`, if it has one.
    pub weight: Option<f64>,
    /// Whether it is to be used only when all are like it (it failed lately).
    pub avoided: bool,
}
