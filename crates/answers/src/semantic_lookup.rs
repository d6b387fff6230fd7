//! The semantic lookup: a fast vector recalls candidates, and a better one decides only if some are near.

use std::{sync::Arc, time::Duration};

use super::{
    Answers,
    semantic::{Embedders, ScopedHit, SemanticAnswers},
};
use signalbox_cache::{
    self as cache, Bypass, CompatKey, Directives, Found, Origin, ScopeId, SharingLimit, eligible,
    guard::Traits,
    semantic::{Entry, Verdict, Wanted, Weighed, early_verdict, judge},
};
use signalbox_embed as embed;
use signalbox_policy::Semantic;
use signalbox_protocol::{Canonical, LONG_BODY, RequestBody};
use signalbox_telemetry::LookupStage;
use signalbox_types::{Endpoint, Moment, Name, Outline};

/// Maximum length of a text that is looked up, in bytes. The embedders read 254 word pieces.
const MAX_LOOKUP_BYTES: usize = 4096;
/// Number of entries from which on a search would block a worker thread for more than half a millisecond.
const MANY: usize = 50_000;

/// The outcome of a lookup.
pub enum LookupOutcome {
    /// An answer that may be served.
    Hit(Box<Hit>),
    /// No answer, with the reason, and the state that is needed to store the answer that follows.
    Missed(&'static str, Option<Box<PendingEntry>>),
    /// The request is not eligible.
    Bypassed(Bypass),
}

/// An answer that may be served.
pub struct Hit {
    /// The kept answer.
    pub found: Found,
    /// The entry that was found near, with the verdict on it.
    pub judged: ScopedHit,
}

impl Hit {
    /// Similarity by the deciding embedder, and probability that the answer is right.
    pub fn certainty(&self) -> (f32, f32) {
        (self.judged.judged.similarity, self.judged.judged.belief.probability)
    }

    /// Key of the kept answer.
    pub fn entry(&self) -> String {
        self.judged.judged.entry.exact.to_string()
    }
}

/// State of a lookup without an answer, for storing the answer that follows and for learning from it.
pub struct PendingEntry {
    pub(super) compat: CompatKey,
    /// The embedders of its vectors and of `compat`.
    pub(super) embedders: Arc<Embedders>,
    pub(super) text: Arc<str>,
    pub(super) traits: Arc<Traits>,
    pub(super) recall: Box<[f32]>,
    /// The deciding vector, if it was computed.
    pub(super) vector: Option<Box<[f32]>>,
    /// The near entry whose answer is compared with the one that follows, and whether it would have been served.
    pub(super) near: Option<(ScopedHit, bool)>,
    pub(super) ttl: Duration,
    /// True if the answer may be stored.
    pub(super) keeps: bool,
}

/// A request to look up.
pub struct SemanticQuery<'a> {
    /// The endpoint that was called.
    pub endpoint: Endpoint,
    /// The query of its address.
    pub query: Option<&'a str>,
    /// Its body.
    pub body: &'a RequestBody,
    /// Records a step of the request's trace, with its start.
    pub trace: &'a (dyn Fn(&'static str, Moment) + Sync),
    /// Cache directives of its headers.
    pub said: &'a Directives,
    /// Id of the caller's key.
    pub caller: Option<&'a Name>,
    /// The backends whose answers may be served.
    pub acceptable: &'a Arc<[Origin]>,
    /// Headers that may change the answer, in canonical form.
    pub headers: &'a [u8],
    /// Its body in canonical form.
    pub form: &'a Canonical,
    /// Estimates the seconds that an engine would take for the whole answer.
    pub answer: &'a (dyn Fn() -> Option<f64> + Sync),
}

/// Looks up an answer to a prompt of the same meaning.
pub async fn lookup_semantic(answers: &Answers, semantic: &Semantic, sought: &SemanticQuery<'_>) -> LookupOutcome {
    let clock = answers.clock;
    let SemanticQuery { said, acceptable, answer, .. } = *sought;
    let (text, volatile) = match eligible_text(semantic, (sought.endpoint, sought.query), sought.body, sought.form) {
        Ok(eligible) => eligible,
        Err(reason) => return LookupOutcome::Bypassed(reason),
    };
    let embedders = match answers.local.semantic.embedders().await {
        Ok(embedders) => embedders,
        Err(reason) => return LookupOutcome::Missed(reason, None),
    };
    if !embed::reads_whole(text) {
        return LookupOutcome::Bypassed(Bypass::Long);
    }
    let (scope, compat) = match scope_and_key(answers, semantic, sought, &embedders) {
        Ok(found) => found,
        Err(reason) => return LookupOutcome::Bypassed(reason),
    };
    let began = clock.now();
    let Some(recall) = recall(&embedders, text) else { return LookupOutcome::Missed("no_vector", None) };
    let embedded = clock.now();
    record_stage(answers, sought, (LookupStage::Recall, "embed"), began);
    let mut pending = Box::new(PendingEntry {
        compat,
        embedders: embedders.clone(),
        text: text.into(),
        traits: Arc::new(Traits::of(text)),
        recall,
        vector: None,
        near: None,
        ttl: semantic.ttl_of(volatile).min(said.ttl.unwrap_or(Duration::MAX)),
        keeps: !said.no_store && said.ttl.is_none_or(|ttl| !ttl.is_zero()),
    });
    if said.no_cache {
        return LookupOutcome::Missed("no_cache", Some(pending));
    }
    let near = search(answers, &pending, acceptable.clone(), said.max_age).await;
    record_stage(answers, sought, (LookupStage::Search, "search"), embedded);
    if near.is_empty() {
        return LookupOutcome::Missed("nothing_near", Some(pending));
    }
    let weighed = Weighed {
        traits: &pending.traits.clone(),
        prior: embedders.prior,
        scope: answers.local.semantic.scopes.lock().shift(&scope),
        budget: semantic.max_false_hit_rate as f32,
    };
    if let Some(verdict) = early_verdict(&weighed, &near) {
        return conclude(answers, verdict, scope, None, pending);
    }
    // A hit saves the generation of the whole answer, so the wait is compared with that.
    if embedders.outlasts(answer) {
        return LookupOutcome::Missed("no_gain", Some(pending));
    }
    let began = clock.now();
    let vector = match embedders.decide(text, clock, answers.metrics.cache()).await {
        Ok(vector) => vector,
        Err(reason) => return LookupOutcome::Missed(reason, Some(pending)),
    };
    record_stage(answers, sought, (LookupStage::Decide, "decide"), began);
    let is_over_budget =
        answers.local.semantic.scopes.lock().shadow_only(&scope, semantic.max_false_hit_rate, clock.now());
    let is_shadow = semantic.shadow || said.most == SharingLimit::Shadow;
    let withheld = is_over_budget.then_some("over_budget").or(is_shadow.then_some("shadow"));
    let verdict = judge(&weighed, &vector, &near);
    pending.vector = Some(vector);
    conclude(answers, verdict, scope, withheld, pending)
}

/// Converts a verdict to the outcome of the lookup. `withheld` is the reason why no hit may be served, if there is one.
fn conclude(
    answers: &Answers,
    verdict: Verdict,
    scope: ScopeId,
    withheld: Option<&'static str>,
    mut pending: Box<PendingEntry>,
) -> LookupOutcome {
    let reason = match (verdict, withheld) {
        (Verdict::Serve(judged), None) => {
            let (entry, now) = (&judged.entry, answers.clock.now());
            entry.give();
            let found = Found { record: entry.record.clone(), age: entry.kept.age(now), left: entry.left(now) };
            return LookupOutcome::Hit(Box::new(Hit { found, judged: ScopedHit { scope, judged } }));
        }
        (Verdict::Serve(judged), Some(reason)) => {
            pending.near = Some((ScopedHit { scope, judged }, true));
            reason
        }
        (Verdict::Grey(judged), _) => {
            pending.near = Some((ScopedHit { scope, judged }, false));
            "unsure"
        }
        (Verdict::Guarded(guard), _) => {
            answers.metrics.cache().guarded(guard.label());
            "guard"
        }
        (Verdict::Unlikely, _) => "unlikely",
    };
    LookupOutcome::Missed(reason, Some(pending))
}

/// Returns the scope within which answers are shared, and the key of entries that the request may use.
fn scope_and_key(
    answers: &Answers,
    semantic: &Semantic,
    sought: &SemanticQuery<'_>,
    embedders: &Embedders,
) -> Result<(ScopeId, CompatKey), Bypass> {
    let SemanticQuery { body, said, caller, headers, form, .. } = *sought;
    let user = body.member("user").and_then(|raw| serde_json::from_slice::<String>(raw).ok());
    let keys = answers.local.cache.keys.load();
    let scope = keys
        .scope(semantic.scope, caller.map(|name| &**name), user.as_deref().map(str::as_bytes))
        .ok_or(Bypass::User)?;
    let parts = cache::KeyParts {
        scope,
        model: body.model.as_deref().unwrap_or_default(),
        namespace: said.namespace.as_deref().unwrap_or_default(),
        headers,
        form,
    };
    Ok((scope, keys.compat(&parts, &embedders.id, 0).ok_or(Bypass::NoText)?))
}

/// Records the duration of a stage since `began`, in metrics and in the request's trace.
fn record_stage(
    answers: &Answers,
    sought: &SemanticQuery<'_>,
    (stage, step): (LookupStage, &'static str),
    began: Moment,
) {
    answers.metrics.cache().took(stage, answers.clock.now().seconds_since(began));
    (sought.trace)(step, began);
}

/// Returns the text to look up and whether its answer soon changes, or the reason why the request is not eligible.
pub fn eligible_text<'a>(
    semantic: &Semantic,
    (endpoint, query): (Endpoint, Option<&str>),
    body: &RequestBody,
    form: &'a Canonical,
) -> Result<(&'a str, bool), Bypass> {
    // Parsing its history here would block a worker thread.
    if body.bytes().len() > LONG_BODY {
        return Err(Bypass::Long);
    }
    // At any temperature: an operator who turns on this cache wants one answer to one question.
    eligible::exact(endpoint, query, body, true)?;
    let text = form.last_user_text();
    // "And in Rome?" asks for today's weather if the question before did.
    let volatile = text.is_some_and(eligible::is_volatile)
        || form.earlier_user_texts().ok_or(Bypass::NoText)?.any(eligible::is_volatile);
    if volatile && semantic.volatile.is_none() {
        return Err(Bypass::Volatile);
    }
    let mut outline = Outline::default();
    body.outline(&mut outline);
    Ok((eligible::semantic(body, &outline, text, MAX_LOOKUP_BYTES)?, volatile))
}

/// Computes the recall vector, in microseconds. `None` for a text without words.
fn recall(embedders: &Embedders, text: &str) -> Option<Box<[f32]>> {
    let vectors = embedders.recall.embed(&[text]).ok()?;
    vectors.into_iter().next().map(Vec::into_boxed_slice)
}

async fn search(
    answers: &Answers,
    pending: &PendingEntry,
    acceptable: Arc<[Origin]>,
    max_age: Option<Duration>,
) -> Vec<Arc<Entry>> {
    let find = |semantic: &SemanticAnswers, recall: &[f32], compat: &CompatKey| {
        semantic.entries.find(compat, recall, Wanted { acceptable: &acceptable, max_age }, answers.clock.now())
    };
    if answers.local.semantic.entries.len_of(&pending.compat) < MANY {
        return find(&answers.local.semantic, &pending.recall, &pending.compat);
    }
    let (semantic, clock) = (answers.local.semantic.clone(), answers.clock);
    let (recall, compat) = (pending.recall.clone(), pending.compat);
    let found = tokio::task::spawn_blocking(move || {
        semantic.entries.find(&compat, &recall, Wanted { acceptable: &acceptable, max_age }, clock.now())
    });
    found.await.unwrap_or_default()
}
