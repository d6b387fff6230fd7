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

/// A backend as the balancer sees it at one moment, for one request. Plain numbers, so that a decision can be made again.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Requests of ours on its engine.
    pub in_flight: u32,
    /// Requests that others seem to have put there.
    pub foreign: u32,
    /// How many requests its engine computes at once, where that is known.
    pub slots: Option<u32>,
    /// Prompt tokens dispatched to its engine that are still to be computed, with those of others that it tells of.
    pub queued_tokens: u64,
    /// Prompt tokens of this request that it would have to compute.
    pub uncached_tokens: u64,
    /// The same of a mean request of the pool.
    pub mean_uncached_tokens: f64,
    /// Tokens of the answer to expect.
    pub output_tokens: u64,
    /// Tokens of a mean answer of the pool: what those who are held up there get.
    pub mean_output_tokens: u64,
    /// Requests that decode there.
    pub decoding: u32,
    /// The same in streams of mean size: half by their number, half by the tokens promised to all requests there.
    pub streams: f64,
    /// Tokens by which its KV cache will be too small for all that was promised, this request included; and the wait for a slot,
    /// where its slots are known, in prompt tokens.
    pub overflow_tokens: u64,
    /// The share of its time that its engine lately spent on prompts, 0 to 1.
    pub utilisation: f64,
    /// How many times as long as on the pool's other backends things take on this one.
    pub speed: f64,
    /// How near the time per token comes to its limit there (an objective, or four times what the pool's idle engines need): 1
    /// is at the limit.
    pub strain: f64,
    /// Prompt tokens that its engine computes in the time of the pool's idle decoding step, at the pace of this request's own.
    pub step_tokens: f64,
    /// The time to the first token to expect there, in seconds: the median.
    pub ttft: f64,
    /// The same in prompt tokens: what its engine would compute meanwhile, at the pace at which it computes this request's own when it is idle.
    pub ttft_tokens: f64,
    /// Its 90th percentile.
    pub ttft_p90: f64,
    /// The chance that the request's limits are kept there, 0 to 1; 1 where it has none.
    pub attainment: f64,
    /// Peak-sensitive moving average of its latency, in seconds; 0 where the strategy does not weigh it.
    pub latency: f64,
    /// Its fixed share of the pool's traffic in `0..=1`, if it has one.
    pub weight: Option<f64>,
    /// Whether it is to be used only when all are like it (it failed lately).
    pub avoided: bool,
}

/// An idle backend of average speed that nothing is known of.
impl Default for Candidate {
    fn default() -> Self {
        Self {
            in_flight: 0,
            foreign: 0,
            slots: None,
            queued_tokens: 0,
            uncached_tokens: 0,
            mean_uncached_tokens: 0.0,
            output_tokens: 0,
            mean_output_tokens: 0,
            decoding: 0,
            streams: 0.0,
            overflow_tokens: 0,
            utilisation: 0.0,
            speed: 1.0,
            strain: 0.0,
            step_tokens: 0.0,
            ttft: 0.0,
            ttft_tokens: 0.0,
            ttft_p90: 0.0,
            attainment: 1.0,
            latency: 0.0,
            weight: None,
            avoided: false,
        }
    }
}
