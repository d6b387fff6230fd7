//! The interface between conditions and requests: the names they may use, and the values they read.

use signalbox_types::Name;

/// The names that a condition may refer to.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The pools; [`Facts`] identifies them by their index in this list.
    pub pools: Vec<Name>,
    /// The routes, by their names in headers and metrics.
    pub routes: Vec<Name>,
    /// The `id`s of the keys; empty if any is allowed.
    pub keys: Vec<Name>,
}

/// The values of the variables for one request. Each is read only if it is needed to decide, so that expensive values
/// are computed only for conditions that use them. Implementations should cache values that are read twice.
///
/// Pools are identified by their index in the [`Names`] that the condition was compiled with.
pub trait Facts {
    /// Tokens of the prompt, possibly estimated.
    fn tokens(&self) -> u64;
    /// True if the prompt has more than `n` tokens. Used for comparisons with a literal number: counting up to a limit
    /// is cheaper than counting everything.
    fn more_tokens_than(&self, n: u64) -> bool {
        self.tokens() > n
    }
    /// Estimated complexity of the prompt, in `0..=1`.
    fn complexity(&self) -> f64;
    /// Two-letter code of its language, in lower case; empty if unknown.
    fn language(&self) -> &str;
    /// The model that the client requested.
    fn model(&self) -> &str;
    /// `interactive` or `batch`.
    fn class(&self) -> &str;
    /// True if the answer is to be streamed.
    fn stream(&self) -> bool;
    /// Number of tools that the client offers.
    fn tools(&self) -> u64;
    /// Number of images in the request.
    fn images(&self) -> u64;
    /// Number of sounds in the request.
    fn audio(&self) -> u64;
    /// Number of videos in the request.
    fn video(&self) -> u64;
    /// Number of documents and other files in the request.
    fn files(&self) -> u64;
    /// True if the answer must follow a JSON schema.
    fn schema(&self) -> bool;
    /// The client's limit of answer tokens; 0 if there is none.
    fn max_tokens(&self) -> u64;
    /// User messages in the conversation.
    fn turns(&self) -> u64;
    /// The value of the header `name`, which is in lower case; `None` if it was not sent.
    fn header(&self, name: &str) -> Option<&str>;
    /// True if the header was sent, even with a value that is not text.
    fn sent(&self, name: &str) -> bool {
        self.header(name).is_some()
    }
    /// The id of the caller's key; empty if there are no keys.
    fn key_id(&self) -> &str;
    /// The key's team; empty if it has none.
    fn key_team(&self) -> &str;
    /// The key's tags.
    fn key_tags(&self) -> &[Name];
    /// 95th percentile of a pool's time to the first token, in seconds; 0 without measurements.
    fn ttft_p95(&self, pool: usize) -> f64;
    /// Requests that wait for capacity in a pool.
    fn queue(&self, pool: usize) -> u64;
    /// Share of a pool's requests that met its objectives, in `0..=1`; 1 without measurements.
    fn attainment(&self, pool: usize) -> f64;
    /// The highest recent burn rate of a pool's objectives; 0 if it has none.
    fn burn(&self, pool: usize) -> f64;
    /// The worst state of a pool's objectives: `ok`, `missing`, `burning` or `exhausted`.
    fn slo(&self, pool: usize) -> &str;
    /// The highest recent burn rate of the objectives of the route `route`; 0 if it has none.
    fn route_burn(&self, route: &str) -> f64;
    /// The worst state of the route's objectives: `ok`, `missing`, `burning` or `exhausted`.
    fn route_slo(&self, route: &str) -> &str;
    /// The current time, in seconds since 1970 (UTC).
    fn unix_time(&self) -> i64;
}
