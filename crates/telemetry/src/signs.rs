//! Measurements that tell early of trouble in a pool: queues in its engines, streams that stall, and times to the first
//! token now and over the hour.

use signalbox_measure::Summary;

/// Requests from which on an engine's own queue is long, and their least share of those that run there.
const QUEUE: f64 = 5.0;
const QUEUE_SHARE: f64 = 0.1;

/// Requests on engines, as these report them.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct EngineQueue {
    /// Requests in the queues of the pool's engines.
    pub waiting: f64,
    /// Those in the longest queue, and the requests that run on that engine.
    pub longest: f64,
    /// Requests that run on the engine with the longest queue.
    pub running: f64,
}

/// Streams of the last minute that stalled.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Stalls {
    /// All streams that ended.
    pub streams: u64,
    /// Those that stalled.
    pub stalled: u64,
    /// The 99th percentile of their largest gaps, in seconds.
    pub largest: f64,
}

/// Times to the first token.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Tail {
    /// Over the last five minutes.
    pub recent: Summary,
    /// Over the last hour.
    pub usual: Summary,
}

impl EngineQueue {
    /// True if more wait than an engine takes up at once.
    pub(super) fn is_long(&self) -> bool {
        self.longest >= QUEUE && self.longest >= QUEUE_SHARE * self.running
    }

    /// The queue in words.
    pub(super) fn words(&self) -> String {
        format!(
            "{:.0} requests wait in its engines' own queues, {:.0} where {:.0} run",
            self.waiting, self.longest, self.running
        )
    }
}
