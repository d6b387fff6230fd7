//! The balancer's view of a backend, and the strategies for choosing one.

/// The strategy for choosing a backend within a pool.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Least cost, counted in tokens in flight.
    #[default]
    LeastCost,
    /// One after the other, in order.
    RoundRobin,
    /// Fewest requests in flight.
    LeastRequest,
    /// The less loaded of two drawn at random.
    PowerOfTwo,
    /// Smallest peak-sensitive moving average of latency × requests in flight.
    PeakEwma,
}

impl Strategy {
    /// All strategies, in the order in which messages list them.
    pub const ALL: [Self; 5] =
        [Self::LeastCost, Self::RoundRobin, Self::LeastRequest, Self::PowerOfTwo, Self::PeakEwma];

    /// The name used in policies, in the journal and on the status page.
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

/// A backend as the balancer sees it at one moment, for one request. Plain numbers, so that a decision can be replayed.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Requests sent by this gateway that are in flight on its engine.
    pub in_flight: u32,
    /// Estimated requests from other clients on the engine.
    pub foreign: u32,
    /// Number of requests that its engine computes at once, if known.
    pub slots: Option<u32>,
    /// Prompt tokens queued on its engine: dispatched by this gateway and not yet computed, and those of other clients
    /// that the engine reports.
    pub queued_tokens: u64,
    /// Prompt tokens of this request that are not in the backend's prefix cache.
    pub uncached_tokens: u64,
    /// Expected tokens of the answer.
    pub output_tokens: u64,
    /// Requests that are decoding on the backend's engine.
    pub decoding: u32,
    /// Tokens by which its KV cache falls short of what is promised to all requests, this one included, plus the wait
    /// for a slot in prompt tokens if the number of slots is known, plus the time to load its model in prompt tokens.
    pub overflow_tokens: u64,
    /// Seconds until the backend's engine has loaded its model; 0 if it is loaded.
    pub load: f64,
    /// The recent share of time that its engine spent on prompts, 0 to 1.
    pub utilisation: f64,
    /// The backend's slowness relative to the pool's other backends: 2 takes twice as long.
    pub speed: f64,
    /// Predicted time to the first token, in seconds: the median.
    pub ttft: f64,
    /// The 90th percentile of the predicted time to the first token, in seconds.
    pub ttft_p90: f64,
    /// The probability that the backend meets the request's latency limits, 0 to 1; 1 if it has none.
    pub attainment: f64,
    /// Peak-sensitive moving average of the backend's latency, in seconds; 0 if the strategy does not use it.
    pub latency: f64,
    /// The backend's fixed share of the pool's traffic in `0..=1`, if it has one.
    pub weight: Option<f64>,
    /// True if the backend failed recently: it is used only if all candidates are avoided.
    pub avoided: bool,
}

/// An idle backend of average speed without measurements.
impl Default for Candidate {
    fn default() -> Self {
        Self {
            in_flight: 0,
            foreign: 0,
            slots: None,
            queued_tokens: 0,
            uncached_tokens: 0,
            output_tokens: 0,
            decoding: 0,
            overflow_tokens: 0,
            load: 0.0,
            utilisation: 0.0,
            speed: 1.0,
            ttft: 0.0,
            ttft_p90: 0.0,
            attainment: 1.0,
            latency: 0.0,
            weight: None,
            avoided: false,
        }
    }
}
