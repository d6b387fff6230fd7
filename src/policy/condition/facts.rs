//! What conditions may refer to by name, and what is asked for each request when a condition comes to it.

use crate::types::Name;

/// What a condition may refer to by name.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The pools; [`Facts`] is asked by their place in this list.
    pub pools: Vec<Name>,
    /// The routes, by their names in headers and metrics.
    pub routes: Vec<Name>,
    /// The `id`s of the keys; empty where any may be asked for.
    pub keys: Vec<Name>,
}

/// The values of the variables, for one request. Each is asked only when it decides, so that what is expensive is
/// worked out only where a condition needs it; what is asked twice should be kept by the implementation.
///
/// Pools are given by their place in the [`Names`] that the condition was compiled with.
pub trait Facts {
    /// Tokens of the prompt: an estimate is enough.
    fn tokens(&self) -> u64;
    /// Whether the prompt has more than `n` tokens. Conditions ask this where they compare with a number that is written
    /// out: counting up to a limit is cheaper than counting all.
    fn more_tokens_than(&self, n: u64) -> bool {
        self.tokens() > n
    }
    /// How hard the prompt looks, in `0..=1`.
    fn complexity(&self) -> f64;
    /// Two-letter code of its language, in lower case; empty where it cannot be told.
    fn language(&self) -> &str;
    /// The model the client asked for.
    fn model(&self) -> &str;
    /// `interactive` or `batch`.
    fn class(&self) -> &str;
    /// Whether the answer is to be streamed.
    fn stream(&self) -> bool;
    /// Tools that the client offers.
    fn tools(&self) -> u64;
    /// Images in the prompt.
    fn images(&self) -> u64;
    /// Whether the answer is to follow a JSON schema.
    fn schema(&self) -> bool;
    /// The most tokens wanted of the answer; 0 where there is no limit.
    fn max_tokens(&self) -> u64;
    /// Messages of the user in the conversation.
    fn turns(&self) -> u64;
    /// The header of this name, which is given in lower case; `None` where it was not sent.
    fn header(&self, name: &str) -> Option<&str>;
    /// Whether there is such a header, even one that is no text.
    fn sent(&self, name: &str) -> bool {
        self.header(name).is_some()
    }
    /// The caller's key by name; empty where there are no keys.
    fn key_id(&self) -> &str;
    /// The key's team; empty where it has none.
    fn key_team(&self) -> &str;
    /// The key's tags.
    fn key_tags(&self) -> &[Name];
    /// 95th percentile of a pool's time to the first token, in seconds; 0 while nothing was measured.
    fn ttft_p95(&self, pool: usize) -> f64;
    /// Requests that wait for room in a pool.
    fn queue(&self, pool: usize) -> u64;
    /// Share of a pool's requests that kept its objectives, in `0..=1`; 1 while nothing was measured.
    fn attainment(&self, pool: usize) -> f64;
    /// The highest burn rate of a pool's objectives, lately; 0 where it has none.
    fn burn(&self, pool: usize) -> f64;
    /// How a pool's objectives stand: `ok`, `burning` or `exhausted`.
    fn slo(&self, pool: usize) -> &str;
    /// The highest burn rate of the objectives of the route of this name, lately; 0 where it has none.
    fn route_burn(&self, route: &str) -> f64;
    /// How they stand: `ok`, `burning` or `exhausted`.
    fn route_slo(&self, route: &str) -> &str;
    /// The present time, in seconds since 1970 (UTC).
    fn unix_time(&self) -> i64;
}
