//! The record of a finished request: one line of the journal, and the source of the page and the admin API.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use super::{AttemptEntry, Explained, Predicted, RoutingFacts, WeighedCandidate};
use signalbox_quota::Spent;
use signalbox_telemetry::{Entry, Purpose, Stage};
use signalbox_types::{Blame, Gaps, Name, Usage, wall_clock::since_1970};

/// Version of the lines that are written. Lines of the first version have no number; in a line of a higher version, fields may have another
/// meaning.
pub const FORMAT: u32 = 2;

/// One line of the journal: features, candidates, choice and outcome; never a prompt or an answer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct JournalEntry {
    /// Version of the line, by which readers know the meaning of its fields.
    #[serde(rename = "form")]
    pub format: u32,
    /// The request's id.
    pub id: Arc<str>,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Method and path, for the access log alone.
    #[serde(skip)]
    pub request_line: Option<Box<(http::Method, String)>>,
    /// The endpoint.
    pub endpoint: &'static str,
    /// True if the client asked for a stream.
    pub stream: bool,
    /// The purpose of a background request of the gateway itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<Purpose>,
    /// Id of the caller's key.
    pub key: Option<Name>,
    /// The model as the client named it.
    pub model: Option<String>,
    /// The route.
    pub route: Option<Name>,
    /// Length of the text that the model reads, in bytes.
    pub prompt_bytes: usize,
    /// Estimated prompt tokens before dispatch.
    pub estimated_prompt_tokens: u64,
    /// The reasons for the route; `None` where the request ended before.
    pub explained: Option<Arc<Explained>>,
    /// The facts that conditions and tiers of another policy may use; `None` where the request ended before, or no journal is kept.
    #[serde(rename = "particulars")]
    pub routing_facts: Option<RoutingFacts>,
    /// The result of the cache lookup; `None` where the policy has no cache or the request ended before.
    #[serde(rename = "reused")]
    pub cache: Option<CacheResult>,
    /// The result of admission; `None` where the request ended before.
    pub admission: Option<Admission>,
    /// In observe mode, the decision that this gateway would have made; `route` and `explained` then give its reasons.
    #[serde(rename = "would", skip_serializing_if = "Option::is_none")]
    pub counterfactual: Option<Counterfactual>,
    /// All attempts in the order of their start.
    pub attempts: Vec<AttemptEntry>,
    /// Index of the attempt that answered; `None` where none did.
    pub answered: Option<usize>,
    /// The result of the route's cascade, where it has one.
    pub cascade: Option<CascadeResult>,
    /// HTTP status of the answer; 0 when the client left before it.
    pub status: u16,
    /// `ok`, `client_gone`, or the kind of fault.
    pub outcome: &'static str,
    /// The party at fault where the request failed, if known.
    #[serde(skip)]
    pub blame: Option<Blame>,
    /// The stage that the request had reached when it ended.
    pub stage: Stage,
    /// Tokens of the answered request, as its engine reported them.
    pub usage: Option<Usage>,
    /// Time from arrival until the first token was handed to the HTTP layer for the client, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// Time from dispatch to the arrival of the first token, in milliseconds.
    pub upstream_ttft_ms: Option<f64>,
    /// (last token − first token) / (tokens − 1), in milliseconds.
    pub tpot_ms: Option<f64>,
    /// Gaps between the chunks of a stream that carry tokens.
    pub gaps: Option<Gaps>,
    /// Time from arrival to the end, in milliseconds.
    pub e2e_ms: f64,
    /// The gateway's own share of the time to the head of the answer, in microseconds.
    pub overhead_us: Option<f64>,
    /// Cost of all attempts in US dollars, where prices and tokens are known.
    pub cost_usd: Option<f64>,
    /// Estimated use of answers that ended before their engine reported a count. Only for the caller's limits.
    #[serde(skip)]
    pub uncounted: Spent,
}

impl Entry for JournalEntry {
    fn write(&self, buffer: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(buffer, self)
    }

    fn weight(&self) -> usize {
        let of = |attempt: &AttemptEntry| {
            size_of::<AttemptEntry>() + attempt.candidates.len() * size_of::<WeighedCandidate>()
        };
        let blocks = self.routing_facts.as_ref().map_or(0, RoutingFacts::weight);
        // Clients choose the model's name, which may be long.
        let model = self.model.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.attempts.iter().map(of).sum::<usize>() + blocks + model
    }
}

/// The result of a cache lookup.
#[derive(Clone, Debug, Serialize)]
pub struct CacheResult {
    /// `hit-exact` (a kept answer to an equal request), `hit-semantic` (a kept answer to a prompt of the same meaning), `coalesced` (shared the
    /// answer of an equal request in progress), `miss`, or `bypass` (not eligible).
    pub result: &'static str,
    /// The reason why no kept answer was used; empty on a hit.
    pub reason: &'static str,
    /// The pool whose answer was used.
    pub pool: Option<Name>,
    /// Age of the answer, in seconds.
    pub age_s: Option<f64>,
    /// Key of the kept answer, for `signalbox cache purge --entry`.
    pub entry: Option<String>,
    /// The nearest kept answer where the semantic lookup served none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near: Option<NearAnswer>,
}

/// A kept answer that was nearest and was not served, with the grounds.
#[derive(Clone, Debug, Serialize)]
pub struct NearAnswer {
    /// Its key.
    pub entry: String,
    /// Similarity of the two texts by the deciding embedder.
    pub similarity: f32,
    /// Probability that the answer serves; `None` where a guard rejects it.
    pub probability: Option<f32>,
    /// The guard that rejects it.
    pub guard: Option<&'static str>,
}

impl CacheResult {
    /// No kept answer is used; an engine answers.
    pub fn not_served(result: &'static str, reason: &'static str) -> Self {
        Self { result, reason, pool: None, age_s: None, entry: None, near: None }
    }

    /// A kept answer of this pool is used.
    pub fn hit(result: &'static str, pool: Name, age: Duration, entry: String) -> Self {
        Self { result, reason: "", pool: Some(pool), age_s: Some(age.as_secs_f64()), entry: Some(entry), near: None }
    }

    /// An equal request in progress brought the answer, from this pool.
    pub fn shared(pool: Name) -> Self {
        Self { result: "coalesced", reason: "", pool: Some(pool), age_s: None, entry: None, near: None }
    }

    /// True if the answer cost nothing, because no engine worked for this request.
    pub fn is_free(&self) -> bool {
        self.pool.is_some()
    }
}

/// The decision that the gateway would have made on a request that it only observes.
#[derive(Clone, Debug, Serialize)]
pub struct Counterfactual {
    /// The pool; `None` where the request would have been refused.
    pub pool: Option<Name>,
    /// The backend; `None` where none had room.
    pub backend: Option<Name>,
    /// The forecast for that backend.
    pub predicted: Option<Predicted>,
    /// The reason for a refusal.
    pub refused: Option<&'static str>,
}

impl Counterfactual {
    /// The request would have started with this attempt.
    pub fn starting_with(first: Option<AttemptEntry>) -> Self {
        let Some(AttemptEntry { pool, backend, predicted, .. }) = first else { return Self::refused("no_backend") };
        Self { pool: Some(pool), backend: Some(backend), predicted: Some(predicted), refused: None }
    }

    /// The request would have been refused for this reason.
    pub fn refused(kind: &'static str) -> Self {
        Self { pool: None, backend: None, predicted: None, refused: Some(kind) }
    }
}

/// The result of admission.
#[derive(Clone, Debug, Serialize)]
pub struct Admission {
    /// The pool.
    pub pool: Name,
    /// `admitted`, `spilled` (another pool of its route took it), `waiting`, or the reason for a refusal: `slo_unattainable`, `queue_full`,
    /// `queue_timeout`.
    pub result: &'static str,
    /// True if the request waited in the pool's queue.
    pub queued: bool,
    /// Time in the queue, in milliseconds.
    pub waited_ms: f64,
}

/// The result of a cascade.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CascadeResult {
    /// `kept` (the answer passed), `escalated` (a larger model answered instead), `unchecked` (the answer could not be read), `too_late` or
    /// `failed` (the answer did not pass, but no time was left or the larger model gave no answer, so the first answer was returned).
    pub result: &'static str,
    /// The check that failed, or `broken` where the answer ended early while it was held back.
    pub check: Option<&'static str>,
}

impl CascadeResult {
    /// Formats the header's value: `kept`, `escalated:refusal`.
    pub fn label(&self) -> String {
        self.check.map_or_else(|| self.result.to_owned(), |check| format!("{}:{check}", self.result))
    }
}

impl JournalEntry {
    /// Tokens and cost of all attempts.
    pub fn spent(&self) -> Spent {
        let counted = self.attempts.iter().filter_map(|attempt| attempt.usage);
        let counted = counted.map(|usage| usage.total()).fold(0, u64::saturating_add);
        let Spent { tokens, usd } = self.uncounted;
        Spent { tokens: tokens.saturating_add(counted), usd: usd + self.cost_usd.unwrap_or(0.0) }
    }

    /// Tokens that engines reported for all attempts of this request; `None` where none reported any, as for a kept answer.
    pub fn reported_usage(&self) -> Option<Usage> {
        let reported = self.attempts.iter().filter(|attempt| !attempt.usage_estimated);
        reported.filter_map(|attempt| attempt.usage).reduce(Usage::and)
    }

    /// The attempt that answered, or the last one where none did.
    pub fn last(&self) -> Option<&AttemptEntry> {
        self.answered.and_then(|at| self.attempts.get(at)).or(self.attempts.last())
    }

    /// Time since the request's arrival, by the system clock.
    pub fn age(&self) -> Duration {
        since_1970().saturating_sub(Duration::from_millis(self.time_ms))
    }
}
