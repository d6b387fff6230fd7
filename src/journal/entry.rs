//! What is known of a request when it is over: a line of the journal, and what the page and the admin API show.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use super::{AttemptEntry, Explained, Predicted, RoutingFacts, WeighedCandidate};
use crate::{
    quota::Spent,
    telemetry::{Entry, Purpose, Stage},
    types::{Blame, Name, Usage, wall_clock::since_1970},
};

/// The form of the lines that are written. Those before it have no number; a line with a higher one has members that mean something else.
pub(crate) const FORM: u32 = 2;

/// A line of the journal: features, candidates, choice, outcome; never a prompt or an answer.
#[derive(Clone, Debug, Serialize)]
pub struct JournalEntry {
    /// Of which form it is: readers know by it what the members mean.
    pub form: u32,
    /// The request's id.
    pub id: Arc<str>,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Method and path, for the access log alone.
    #[serde(skip)]
    pub(crate) asked: Option<Box<(http::Method, String)>>,
    /// What it asked for.
    pub endpoint: &'static str,
    /// Whether it asked for a stream.
    pub stream: bool,
    /// What it is for, where it is of the gateway's own making.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<Purpose>,
    /// Public name of the caller's key.
    pub key: Option<Name>,
    /// The model as the client named it.
    pub model: Option<String>,
    /// The route it took.
    pub route: Option<Name>,
    /// Length of what the model reads, in bytes.
    pub prompt_bytes: usize,
    /// About how many tokens that is, before anything was dispatched.
    pub estimated_prompt_tokens: u64,
    /// Why it took that route; `None` where it did not come so far.
    pub explained: Option<Explained>,
    /// What another policy may ask of it; `None` where it did not come so far, or no journal is kept.
    pub particulars: Option<RoutingFacts>,
    /// What the cache made of it; `None` where the policy has none, or it did not come so far.
    pub reused: Option<Reused>,
    /// How it was let in; `None` where it did not come so far.
    pub admission: Option<Admission>,
    /// What this gateway would have done, where it only observes; `route` and `explained` then tell why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<Counterfactual>,
    /// Every attempt, in the order in which they were begun.
    pub attempts: Vec<AttemptEntry>,
    /// Place of the one that answered among them, counted from 0; `None` where none did.
    pub answered: Option<usize>,
    /// What the cascade of its route made of the answer, where it has one.
    pub cascade: Option<CascadeResult>,
    /// HTTP status of the answer; 0 when the client left before there was one.
    pub status: u16,
    /// `ok`, `client_gone`, or the kind of fault.
    pub outcome: &'static str,
    /// Whose fault it was that it ended, where that was told.
    #[serde(skip)]
    pub(crate) blame: Option<Blame>,
    /// How far it had come when it ended.
    pub stage: Stage,
    /// Tokens of the answer, as its engine reported them.
    pub usage: Option<Usage>,
    /// From arrival to the first token handed to the client's connection, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// From dispatch to the first token's arrival here, in milliseconds.
    pub upstream_ttft_ms: Option<f64>,
    /// (last token − first token) / (tokens − 1), in milliseconds.
    pub tpot_ms: Option<f64>,
    /// From arrival to the end, in milliseconds.
    pub e2e_ms: f64,
    /// Our own share of the time to the head of the answer, in microseconds.
    pub overhead_us: Option<f64>,
    /// Cost of all attempts in US dollars, where prices and tokens are known.
    pub cost_usd: Option<f64>,
    /// What answers took whose engines had not counted when they ended: by our estimate, and for the caller's limits alone.
    #[serde(skip)]
    pub(crate) uncounted: Spent,
}

impl Entry for JournalEntry {
    fn write(&self, line: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(line, self)
    }

    fn weight(&self) -> usize {
        let of = |attempt: &AttemptEntry| {
            size_of::<AttemptEntry>() + attempt.candidates.len() * size_of::<WeighedCandidate>()
        };
        let blocks = self.particulars.as_ref().map_or(0, RoutingFacts::weight);
        // A client may call a model whatever it likes, at any length.
        let model = self.model.as_ref().map_or(0, String::len);
        size_of::<Self>() + self.attempts.iter().map(of).sum::<usize>() + blocks + model
    }
}

/// What the cache made of a request.
#[derive(Clone, Debug, Serialize)]
pub struct Reused {
    /// `hit-exact` (a kept answer to an equal request), `coalesced` (it shared another's request that was under way), `miss`, or `bypass`
    /// (it may not share).
    pub result: &'static str,
    /// Why no answer was given that was kept; empty where one was.
    pub reason: &'static str,
    /// The pool whose answer was given.
    pub pool: Option<Name>,
    /// How old the answer was, in seconds.
    pub age_s: Option<f64>,
    /// What the kept answer is called, to be forgotten by `signalbox cache purge --entry`.
    pub entry: Option<String>,
}

impl Reused {
    /// An engine is asked.
    pub(crate) fn past(result: &'static str, reason: &'static str) -> Self {
        Self { result, reason, pool: None, age_s: None, entry: None }
    }

    /// An answer of this pool was given again.
    pub(crate) fn hit(result: &'static str, pool: Name, age: Duration, entry: String) -> Self {
        Self { result, reason: "", pool: Some(pool), age_s: Some(age.as_secs_f64()), entry: Some(entry) }
    }

    /// Another's request brought the answer, from this pool.
    pub(crate) fn shared(pool: Name) -> Self {
        Self { result: "coalesced", reason: "", pool: Some(pool), age_s: None, entry: None }
    }

    /// Whether the answer cost nothing, because no engine was asked for this request.
    pub(crate) fn is_free(&self) -> bool {
        self.pool.is_some()
    }
}

/// What this gateway would have done with a request that it only observes.
#[derive(Clone, Debug, Serialize)]
pub struct Counterfactual {
    /// The pool that it would have gone to; `None` where it would have been refused.
    pub pool: Option<Name>,
    /// The backend there; `None` where none could have taken it.
    pub backend: Option<Name>,
    /// What would have been expected there.
    pub predicted: Option<Predicted>,
    /// Why it would have been refused.
    pub refused: Option<&'static str>,
}

impl Counterfactual {
    /// It would have begun with this attempt.
    pub(crate) fn begin(first: Option<AttemptEntry>) -> Self {
        let Some(AttemptEntry { pool, backend, predicted, .. }) = first else { return Self::refuse("no_backend") };
        Self { pool: Some(pool), backend: Some(backend), predicted: Some(predicted), refused: None }
    }

    /// It would have been refused for this reason.
    pub(crate) fn refuse(kind: &'static str) -> Self {
        Self { pool: None, backend: None, predicted: None, refused: Some(kind) }
    }
}

/// How a request was let in, or not.
#[derive(Clone, Debug, Serialize)]
pub struct Admission {
    /// The pool that it was for.
    pub pool: Name,
    /// `admitted`, `spilled` (another pool of its route took it), `waiting`, or why it was refused: `slo_unattainable`,
    /// `queue_full`, `queue_timeout`.
    pub result: &'static str,
    /// Whether it waited in the pool's queue.
    pub queued: bool,
    /// How long, in milliseconds.
    pub waited_ms: f64,
}

/// What a cascade made of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CascadeResult {
    /// `kept` (the answer passed), `escalated` (a larger model answered instead), `unchecked` (it could not be read), `too_late` or
    /// `failed` (it did not pass, but there was no time, or the larger model gave no answer: the first one was returned after all).
    pub result: &'static str,
    /// What it did not pass: the name of a check, or `broken` where it broke off while it was held back.
    pub check: Option<&'static str>,
}

impl CascadeResult {
    /// As a header has it: `kept`, `escalated:refusal`.
    pub(crate) fn label(&self) -> String {
        self.check.map_or_else(|| self.result.to_owned(), |check| format!("{}:{check}", self.result))
    }
}

impl JournalEntry {
    /// What all its attempts used.
    pub(crate) fn spent(&self) -> Spent {
        let counted = self.attempts.iter().filter_map(|attempt| attempt.usage);
        let counted = counted.map(|usage| usage.total()).fold(0, u64::saturating_add);
        let Spent { tokens, usd } = self.uncounted;
        Spent { tokens: tokens.saturating_add(counted), usd: usd + self.cost_usd.unwrap_or(0.0) }
    }

    /// Notes that an attempt under way has given no first token in its time: should another answer, it counts as failed.
    pub(crate) fn late(&mut self, pool: &Name, backend: &Name) {
        let same = |attempt: &&mut AttemptEntry| attempt.pool == *pool && attempt.backend == *backend;
        let under_way = self.attempts.iter_mut().filter(|attempt| attempt.outcome.is_none());
        under_way.filter(same).for_each(|attempt| attempt.failed = true);
    }

    /// The attempt that answered; where none did, the last one.
    pub fn last(&self) -> Option<&AttemptEntry> {
        self.answered.and_then(|at| self.attempts.get(at)).or(self.attempts.last())
    }

    /// Time since the request's arrival, by the wall clock.
    pub fn age(&self) -> Duration {
        since_1970().saturating_sub(Duration::from_millis(self.time_ms))
    }
}
