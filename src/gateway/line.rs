//! What is known of a request when it is over: a line of the journal, and what the page and the admin API show.

use std::{sync::Arc, time::Duration};

use serde::Serialize;

use super::{explained::Explained, particulars::Particulars, wall::since_1970};
use crate::{
    prompt::prefix_stability::CacheReport,
    quota::Spent,
    telemetry::{Entry, Purpose, Stage},
    types::{Blame, Candidate, Name, Usage},
};

/// The form of the lines that are written. Those before it have no number; a line with a higher one has members that mean something else.
pub(super) const FORM: u32 = 2;

/// A line of the journal: features, candidates, choice, outcome; never a prompt or an answer.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Of which form it is: readers know by it what the members mean.
    pub form: u32,
    /// The request's id.
    pub id: Arc<str>,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Method and path, for the access log alone.
    #[serde(skip)]
    pub(super) asked: Option<Box<(http::Method, String)>>,
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
    pub particulars: Option<Particulars>,
    /// What the cache made of it; `None` where the policy has none, or it did not come so far.
    pub reused: Option<Reused>,
    /// How it was let in; `None` where it did not come so far.
    pub admission: Option<Admission>,
    /// What this gateway would have done, where it only observes; `route` and `explained` then tell why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<Would>,
    /// Every attempt, in the order in which they were begun.
    pub attempts: Vec<Attempted>,
    /// Place of the one that answered among them, counted from 0; `None` where none did.
    pub answered: Option<usize>,
    /// What the cascade of its route made of the answer, where it has one.
    pub cascade: Option<Cascaded>,
    /// HTTP status of the answer; 0 when the client left before there was one.
    pub status: u16,
    /// `ok`, `client_gone`, or the kind of fault.
    pub outcome: &'static str,
    /// Whose fault it was that it ended, where that was told.
    #[serde(skip)]
    pub(super) blame: Option<Blame>,
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
    pub(super) uncounted: Spent,
}

impl Entry for Line {
    fn write(&self, line: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(line, self)
    }

    fn weight(&self) -> usize {
        let of = |attempt: &Attempted| size_of::<Attempted>() + attempt.candidates.len() * size_of::<Weighed>();
        let blocks = self.particulars.as_ref().map_or(0, Particulars::weight);
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
    pub(super) fn past(result: &'static str, reason: &'static str) -> Self {
        Self { result, reason, pool: None, age_s: None, entry: None }
    }

    /// An answer of this pool was given again.
    pub(super) fn hit(result: &'static str, pool: Name, age: Duration, entry: String) -> Self {
        Self { result, reason: "", pool: Some(pool), age_s: Some(age.as_secs_f64()), entry: Some(entry) }
    }

    /// Another's request brought the answer, from this pool.
    pub(super) fn shared(pool: Name) -> Self {
        Self { result: "coalesced", reason: "", pool: Some(pool), age_s: None, entry: None }
    }

    /// Whether the answer cost nothing, because no engine was asked for this request.
    pub(super) fn is_free(&self) -> bool {
        self.pool.is_some()
    }
}

/// What this gateway would have done with a request that it only observes.
#[derive(Clone, Debug, Serialize)]
pub struct Would {
    /// The pool that it would have gone to; `None` where it would have been refused.
    pub pool: Option<Name>,
    /// The backend there; `None` where none could have taken it.
    pub backend: Option<Name>,
    /// What would have been expected there.
    pub predicted: Option<Predicted>,
    /// Why it would have been refused.
    pub refused: Option<&'static str>,
}

impl Would {
    /// It would have begun with this attempt.
    pub(super) fn begin(first: Option<Attempted>) -> Self {
        let Some(Attempted { pool, backend, predicted, .. }) = first else { return Self::refuse("no_backend") };
        Self { pool: Some(pool), backend: Some(backend), predicted: Some(predicted), refused: None }
    }

    /// It would have been refused for this reason.
    pub(super) fn refuse(kind: &'static str) -> Self {
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
pub struct Cascaded {
    /// `kept` (the answer passed), `escalated` (a larger model answered instead), `unchecked` (it could not be read), `too_late` or
    /// `failed` (it did not pass, but there was no time, or the larger model gave no answer: the first one was returned after all).
    pub result: &'static str,
    /// What it did not pass: the name of a check, or `broken` where it broke off while it was held back.
    pub check: Option<&'static str>,
}

impl Cascaded {
    /// As a header has it: `kept`, `escalated:refusal`.
    pub(super) fn label(&self) -> String {
        self.check.map_or_else(|| self.result.to_owned(), |check| format!("{}:{check}", self.result))
    }
}

/// One attempt at a backend.
#[derive(Clone, Debug, Serialize)]
pub struct Attempted {
    /// The pool.
    pub pool: Name,
    /// The backend chosen.
    pub backend: Name,
    /// The model's name upstream, where the policy sets one.
    pub upstream_model: Option<Name>,
    /// Why that one.
    pub reason: &'static str,
    /// Every candidate, as it looked at that moment.
    pub candidates: Vec<Weighed>,
    /// Backends that were no candidates, because they had no room.
    pub full: Vec<Name>,
    /// What was expected of the chosen one.
    pub predicted: Predicted,
    /// Who ran it: a provider by its address, or the engine's kind.
    pub provider: &'static str,
    /// From the request's arrival to the attempt's beginning, in milliseconds.
    pub began_ms: f64,
    /// From the request's arrival to the attempt's end, in milliseconds; `None` while it is under way.
    pub ended_ms: Option<f64>,
    /// What came of it: from dispatch to the first token's arrival here, in milliseconds.
    pub ttft_ms: Option<f64>,
    /// Prompt tokens that the engine says it had cached.
    pub reported_cached_tokens: Option<u64>,
    /// Its tokens, as the engine reported them.
    pub usage: Option<Usage>,
    /// Whether they are our estimate instead: its answer was given up before its engine had counted.
    pub usage_estimated: bool,
    /// What they cost in US dollars, where prices are known.
    pub cost_usd: Option<f64>,
    /// How the attempt ended; `None` while it is under way.
    pub outcome: Option<&'static str>,
    /// Its tokens by our estimate, where it gave any and its engine had not counted them when it ended.
    #[serde(skip)]
    pub(super) uncounted: Option<Usage>,
    /// Whether its engine failed, or gave no first token in its time.
    #[serde(skip)]
    pub(super) failed: bool,
}

/// What was expected of an attempt when its backend was chosen.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct Predicted {
    /// The time to its first token, in milliseconds: the median.
    pub ttft_ms: f64,
    /// The 90th percentile.
    pub ttft_p90_ms: f64,
    /// The time per further token, in milliseconds: the median.
    pub tpot_ms: f64,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Of these, the ones that the engine should have cached.
    pub cached_tokens: u64,
    /// Tokens of its answer: the mean.
    pub output_tokens: u64,
    /// The 90th percentile.
    pub output_tokens_p90: u64,
}

/// A candidate as the balancer saw it: the terms of its cost, and what was expected there.
#[derive(Clone, Debug, Serialize)]
pub struct Weighed {
    /// The backend.
    pub backend: Name,
    /// What it would have cost, in the strategy's unit.
    pub cost: Option<f64>,
    /// Requests of ours on its engine.
    pub in_flight: u32,
    /// Requests of others there.
    pub foreign: u32,
    /// How many requests its engine computes at once, where that is known.
    pub slots: Option<u32>,
    /// Prompt tokens waiting there, with those of others that its engine tells of.
    pub queued_tokens: u64,
    /// Prompt tokens of this request to compute there.
    pub uncached_tokens: u64,
    /// The same of a mean request of the pool.
    pub mean_uncached_tokens: f64,
    /// Prompt tokens of this request that should be cached there.
    pub cached_tokens: u64,
    /// Requests that decode there.
    pub decoding: u32,
    /// The same in streams of mean size: half by their number, half by the tokens promised to all requests there.
    pub streams: f64,
    /// Tokens of a mean answer of the pool.
    pub mean_output_tokens: u64,
    /// Prompt tokens that its engine computes in the time of an idle decoding step.
    pub step_tokens: f64,
    /// Tokens by which its KV cache will be too small for all that was promised; and the wait for one of its slots, in prompt tokens.
    pub overflow_tokens: u64,
    /// The share of its time that its engine lately spent on prompts.
    pub utilisation: f64,
    /// How many times as long as on the pool's others things take there.
    pub speed: f64,
    /// How near the time per token comes to its limit there; 1 is at the limit.
    pub strain: f64,
    /// The time to the first token to expect there, in milliseconds: the median.
    pub ttft_ms: f64,
    /// The same in prompt tokens, at its engine's pace for this request's own.
    pub ttft_tokens: f64,
    /// The 90th percentile.
    pub ttft_p90_ms: f64,
    /// The chance that the request's limits are kept there; 1 where it has none.
    pub attainment: f64,
    /// Its fixed share of the pool's traffic, if it has one.
    pub weight: Option<f64>,
    /// Whether it failed lately.
    pub avoided: bool,
}

impl Weighed {
    /// The candidate `backend`, on which the prompt has so many tokens.
    pub(super) fn of(backend: Name, prompt_tokens: u64, candidate: &Candidate, cost: Option<f64>) -> Self {
        Self {
            backend,
            cost,
            in_flight: candidate.in_flight,
            foreign: candidate.foreign,
            slots: candidate.slots,
            queued_tokens: candidate.queued_tokens,
            uncached_tokens: candidate.uncached_tokens,
            mean_uncached_tokens: candidate.mean_uncached_tokens,
            cached_tokens: prompt_tokens.saturating_sub(candidate.uncached_tokens),
            decoding: candidate.decoding,
            streams: candidate.streams,
            mean_output_tokens: candidate.mean_output_tokens,
            step_tokens: candidate.step_tokens,
            overflow_tokens: candidate.overflow_tokens,
            utilisation: candidate.utilisation,
            speed: candidate.speed,
            strain: candidate.strain,
            ttft_ms: candidate.ttft * 1e3,
            ttft_tokens: candidate.ttft_tokens,
            ttft_p90_ms: candidate.ttft_p90 * 1e3,
            attainment: candidate.attainment,
            weight: candidate.weight,
            avoided: candidate.avoided,
        }
    }
}

impl Attempted {
    /// What its engine reports of its cache, and what was expected of that: by our own count of the prompt, of which that may be more.
    pub(super) fn hits(&self) -> Option<CacheReport> {
        let (reported, prompt) = (self.reported_cached_tokens?, self.usage?.prompt_tokens);
        Some(CacheReport {
            prompt,
            predicted: self.predicted.cached_tokens.min(prompt),
            reported: reported.min(prompt),
        })
    }
}

impl Line {
    /// What all its attempts used.
    pub(super) fn spent(&self) -> Spent {
        let counted = self.attempts.iter().filter_map(|attempt| attempt.usage);
        let counted = counted.map(|usage| usage.total()).fold(0, u64::saturating_add);
        let Spent { tokens, usd } = self.uncounted;
        Spent { tokens: tokens.saturating_add(counted), usd: usd + self.cost_usd.unwrap_or(0.0) }
    }

    /// Notes that an attempt under way has given no first token in its time: should another answer, it counts as failed.
    pub(super) fn late(&mut self, pool: &Name, backend: &Name) {
        let same = |attempt: &&mut Attempted| attempt.pool == *pool && attempt.backend == *backend;
        let under_way = self.attempts.iter_mut().filter(|attempt| attempt.outcome.is_none());
        under_way.filter(same).for_each(|attempt| attempt.failed = true);
    }

    /// The attempt that answered; where none did, the last one.
    pub fn last(&self) -> Option<&Attempted> {
        self.answered.and_then(|at| self.attempts.get(at)).or(self.attempts.last())
    }

    /// Time since the request's arrival, by the wall clock.
    pub fn age(&self) -> Duration {
        since_1970().saturating_sub(Duration::from_millis(self.time_ms))
    }
}
