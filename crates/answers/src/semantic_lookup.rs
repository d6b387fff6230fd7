//! The semantic lookup: the nearest stored texts by their vectors, and whether one of their answers serves.

use std::{sync::Arc, time::Duration};

use super::{
    Answers,
    semantic::{Embedders, ScopedHit, SemanticAnswers},
};
use signalbox_cache::{
    self as cache, Bypass, CompatKey, Directives, Found, Origin, ScopeId, SharingLimit, eligible,
    guard::Traits,
    normal,
    semantic::{Entry, Judged, NearMiss, Verdict, Wanted, Weighed, judge},
};
use signalbox_embed as embed;
use signalbox_policy::Semantic;
use signalbox_protocol::{Canonical, LONG_BODY, RequestBody};
use signalbox_telemetry::LookupStage;
use signalbox_types::{Endpoint, Moment, Name, Outline};

/// Maximum length of a text that is looked up, in bytes. The embedders read 254 word pieces.
const MAX_LOOKUP_BYTES: usize = 4096;
/// Number of entries from which on a search would block a worker thread for more than half a millisecond.
const MANY: usize = 30_000;

/// The outcome of a lookup.
pub enum LookupOutcome {
    /// An answer that may be served.
    Hit(Box<Hit>),
    /// No answer, with the reason, and the state that is needed to store the answer that follows.
    Missed(Miss, Option<Box<PendingEntry>>),
    /// The request is not eligible.
    Bypassed(Bypass),
}

/// The reason why no answer is served, with the nearest one.
#[derive(Clone, Debug)]
pub struct Miss {
    /// The reason.
    pub reason: &'static str,
    /// The guard that rejects the nearest answer.
    pub guard: Option<&'static str>,
    /// The nearest kept answer, where one was considered.
    pub near: Option<NearMiss>,
}

impl From<&'static str> for Miss {
    fn from(reason: &'static str) -> Self {
        Self { reason, guard: None, near: None }
    }
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
        Err(reason) => return LookupOutcome::Missed(reason.into(), None),
    };
    if !embed::reads_whole(text) {
        return LookupOutcome::Bypassed(Bypass::Long);
    }
    let (scope, compat) = match scope_and_key(answers, semantic, sought, &embedders) {
        Ok(found) => found,
        Err(reason) => return LookupOutcome::Bypassed(reason),
    };
    let mut pending = Box::new(PendingEntry {
        compat,
        embedders: embedders.clone(),
        text: text.into(),
        traits: Arc::new(Traits::of(text)),
        vector: None,
        near: None,
        ttl: semantic.ttl_of(volatile).min(said.ttl.unwrap_or(Duration::MAX)),
        keeps: !said.no_store && said.ttl.is_none_or(|ttl| !ttl.is_zero()),
    });
    if said.no_cache {
        return LookupOutcome::Missed("no_cache".into(), Some(pending));
    }
    if answers.local.semantic.entries.len_of(&pending.compat) == 0 {
        return LookupOutcome::Missed("nothing_near".into(), Some(pending));
    }
    // A hit saves the generation of the whole answer, so the wait is compared with that.
    if embedders.outlasts(answer) {
        return LookupOutcome::Missed("no_gain".into(), Some(pending));
    }
    let began = clock.now();
    let vector = match embedders.decide(text, clock, answers.metrics.cache()).await {
        Ok(vector) => vector,
        Err(reason) => return LookupOutcome::Missed(reason.into(), Some(pending)),
    };
    let embedded = clock.now();
    record_stage(answers, sought, (LookupStage::Decide, "decide"), began);
    let near = search(answers, &vector, pending.compat, acceptable.clone(), said.max_age).await;
    record_stage(answers, sought, (LookupStage::Search, "search"), embedded);
    let weighed = Weighed {
        traits: &pending.traits.clone(),
        vocabulary: &*embedders.recall,
        prior: embedders.prior,
        scope: answers.local.semantic.scopes.lock().shift(&scope),
        budget: semantic.max_false_hit_rate as f32,
    };
    let is_over_budget =
        answers.local.semantic.scopes.lock().shadow_only(&scope, semantic.max_false_hit_rate, clock.now());
    let is_shadow = semantic.shadow || said.most == SharingLimit::Shadow;
    let withheld = is_over_budget.then_some("over_budget").or(is_shadow.then_some("shadow"));
    let verdict = judge(&weighed, &vector, &near);
    pending.vector = Some(vector);
    match verdict {
        Some(verdict) => conclude(answers, verdict, scope, withheld, pending),
        None => LookupOutcome::Missed("nothing_near".into(), Some(pending)),
    }
}

/// Converts a verdict to the outcome of the lookup. `withheld` is the reason why no hit may be served, if there is one.
fn conclude(
    answers: &Answers,
    verdict: Verdict,
    scope: ScopeId,
    withheld: Option<&'static str>,
    mut pending: Box<PendingEntry>,
) -> LookupOutcome {
    let miss = match (verdict, withheld) {
        (Verdict::Serve(judged), None) => {
            let (entry, now) = (&judged.entry, answers.clock.now());
            entry.give();
            let found = Found { record: entry.record.clone(), age: entry.kept.age(now), left: entry.left(now) };
            return LookupOutcome::Hit(Box::new(Hit { found, judged: ScopedHit { scope, judged } }));
        }
        (Verdict::Serve(judged), Some(reason)) => {
            let near = Some(near_miss(&judged));
            pending.near = Some((ScopedHit { scope, judged }, true));
            Miss { near, ..reason.into() }
        }
        (Verdict::Grey(judged), _) => {
            let near = Some(near_miss(&judged));
            pending.near = Some((ScopedHit { scope, judged }, false));
            Miss { near, ..Miss::from("unsure") }
        }
        (Verdict::Guarded(guard, near), _) => {
            answers.metrics.cache().guarded(guard.label());
            Miss { reason: "guard", guard: Some(guard.label()), near: Some(near) }
        }
        (Verdict::Unlikely(near), _) => Miss { near: Some(near), ..Miss::from("unlikely") },
    };
    LookupOutcome::Missed(miss, Some(pending))
}

fn near_miss(judged: &Judged) -> NearMiss {
    let Judged { entry, similarity, belief } = judged;
    NearMiss { entry: entry.clone(), similarity: *similarity, probability: Some(belief.probability) }
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
    Ok((normal(eligible::semantic(body, &outline, text, MAX_LOOKUP_BYTES)?), volatile))
}

async fn search(
    answers: &Answers,
    vector: &[f32],
    compat: CompatKey,
    acceptable: Arc<[Origin]>,
    max_age: Option<Duration>,
) -> Vec<Arc<Entry>> {
    let clock = answers.clock;
    let find = move |semantic: &SemanticAnswers, vector: &[f32]| {
        semantic.entries.find(&compat, vector, Wanted { acceptable: &acceptable, max_age }, clock.now())
    };
    if answers.local.semantic.entries.len_of(&compat) < MANY {
        return find(&answers.local.semantic, vector);
    }
    let (semantic, vector) = (answers.local.semantic.clone(), Box::<[f32]>::from(vector));
    tokio::task::spawn_blocking(move || find(&semantic, &vector)).await.unwrap_or_default()
}
