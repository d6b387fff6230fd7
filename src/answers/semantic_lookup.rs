//! A lookup by meaning: a cheap vector first, and a better one only where that finds something near.

use std::{sync::Arc, time::Duration};

use super::{
    Answers,
    semantic::{Embedders, Judged, SemanticAnswers},
};
use crate::{
    cache::{
        self, Bypass, CompatKey, Directives, Found, Origin, SharingLimit, eligible,
        guard::Traits,
        semantic::{Candidate, Verdict, Wanted, Weighed, early_verdict, judge},
    },
    embed,
    measure::lock,
    policy::Semantic,
    protocol::{Canonical, LONG_BODY, RequestBody},
    telemetry::LookupStage,
    types::{Endpoint, Moment, Name, Outline},
};

/// Longest text that is looked up, in bytes: the embedders read 254 pieces of words.
const LONGEST: usize = 4096;
/// From so many entries on a search would hold up a worker for more than half a millisecond.
const MANY: usize = 50_000;

/// What came of a lookup.
pub(crate) enum Looked {
    /// An answer that may be given.
    Hit(Box<Hit>),
    /// None, for this reason; and what is needed to keep the answer that comes.
    Missed(&'static str, Option<Box<Pending>>),
    /// It may not be looked up.
    Bypassed(Bypass),
}

/// An answer that may be given.
pub(crate) struct Hit {
    pub(crate) found: Found,
    pub(crate) judged: Judged,
}

impl Hit {
    /// Similarity by the embedder that decides, and the probability that the answer serves.
    pub(crate) fn certainty(&self) -> (f32, f32) {
        (self.judged.judged.similarity, self.judged.judged.belief.probability)
    }

    /// What the kept answer is called.
    pub(crate) fn entry(&self) -> String {
        self.judged.judged.entry.exact.to_string()
    }
}

/// A lookup that ended without an answer: what is needed to keep the one that comes, and to learn from it.
pub(crate) struct Pending {
    pub(super) compat: CompatKey,
    /// What made its vectors: the key holds for these alone.
    pub(super) embedders: Arc<Embedders>,
    pub(super) text: Arc<str>,
    pub(super) traits: Arc<Traits>,
    pub(super) recall: Box<[f32]>,
    /// By the embedder that decides, if it came to that.
    pub(super) vector: Option<Box<[f32]>>,
    /// The entry whose answer is to be compared with the one that comes, and whether it would have been given.
    pub(super) near: Option<(Judged, bool)>,
    pub(super) ttl: Duration,
    /// Whether the answer may be kept.
    pub(super) keeps: bool,
}

/// What is looked up.
pub(crate) struct Sought<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) query: Option<&'a str>,
    pub(crate) body: &'a RequestBody,
    /// Notes a step of the request's trace, which began at a moment.
    pub(crate) trace: &'a (dyn Fn(&'static str, Moment) + Sync),
    pub(crate) said: &'a Directives,
    pub(crate) caller: Option<&'a Name>,
    pub(crate) acceptable: &'a Arc<[Origin]>,
    /// Its headers that may change the answer, in one spelling.
    pub(crate) headers: &'a [u8],
    pub(crate) form: &'a Canonical,
    /// The seconds that an engine would take for the whole answer, as far as that can be told.
    pub(crate) answer: &'a (dyn Fn() -> Option<f64> + Sync),
}

/// Looks for an answer to a prompt that means the same.
pub(crate) async fn look(answers: &Answers, semantic: &Semantic, sought: &Sought<'_>) -> Looked {
    let (clock, metrics) = (answers.clock, answers.metrics.cache());
    let Sought { body, said, caller, acceptable, headers, form, answer, .. } = *sought;
    let (text, volatile) = match admitted(semantic, sought) {
        Ok(admitted) => admitted,
        Err(reason) => return Looked::Bypassed(reason),
    };
    let embedders = match answers.local.semantic.embedders().await {
        Ok(embedders) => embedders,
        Err(reason) => return Looked::Missed(reason, None),
    };
    if !embed::reads_whole(text) {
        return Looked::Bypassed(Bypass::Long);
    }
    let user = body.member("user").and_then(|raw| serde_json::from_slice::<String>(raw).ok());
    let scope = answers.local.cache.keys.load().scope(
        semantic.scope,
        caller.map(|name| &**name),
        user.as_deref().map(str::as_bytes),
    );
    let Some(scope) = scope else { return Looked::Bypassed(Bypass::User) };
    let asked = cache::KeyParts {
        scope,
        model: body.model.as_deref().unwrap_or_default(),
        namespace: said.namespace.as_deref().unwrap_or_default(),
        headers,
        form,
    };
    let Some(compat) = answers.local.cache.keys.load().compat(&asked, &embedders.id, 0) else {
        return Looked::Bypassed(Bypass::NoText);
    };
    let began = clock.now();
    let Some(recall) = recall(&embedders, text) else { return Looked::Missed("no_vector", None) };
    let embedded = clock.now();
    took(answers, sought, (LookupStage::Recall, "embed"), began);
    let mut pending = Box::new(Pending {
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
        return Looked::Missed("no_cache", Some(pending));
    }
    let near = search(answers, &pending, acceptable.clone(), said.max_age).await;
    took(answers, sought, (LookupStage::Search, "search"), embedded);
    if near.is_empty() {
        return Looked::Missed("nothing_near", Some(pending));
    }
    let weighed = Weighed {
        traits: &pending.traits.clone(),
        prior: embedders.prior,
        scope: lock(&answers.local.semantic.scopes).shift(&scope),
        budget: semantic.max_false_hit_rate as f32,
    };
    if let Some(verdict) = early_verdict(&weighed, &near) {
        if let Verdict::Guarded(guard) = verdict {
            metrics.guarded(guard.label());
            return Looked::Missed("guard", Some(pending));
        }
        return Looked::Missed("unlikely", Some(pending));
    }
    // A hit saves the whole answer, so that is what the wait is compared with.
    if embedders.outlasts(answer) {
        return Looked::Missed("no_gain", Some(pending));
    }
    let began = clock.now();
    let vector = match embedders.decide(text, clock, metrics).await {
        Ok(vector) => vector,
        Err(reason) => return Looked::Missed(reason, Some(pending)),
    };
    took(answers, sought, (LookupStage::Decide, "decide"), began);
    let now = clock.now();
    let shadow_only = lock(&answers.local.semantic.scopes).shadow_only(&scope, semantic.max_false_hit_rate, now);
    let verdict = judge(&weighed, &vector, &near);
    pending.vector = Some(vector);
    let only_looks = semantic.shadow || said.most == SharingLimit::Shadow || shadow_only;
    match verdict {
        Verdict::Serve(judged) if !only_looks => {
            judged.entry.give();
            let entry = &judged.entry;
            let found = Found { record: entry.record.clone(), age: entry.kept.age(now), left: entry.left(now) };
            Looked::Hit(Box::new(Hit { found, judged: Judged { scope, judged } }))
        }
        Verdict::Serve(judged) => {
            pending.near = Some((Judged { scope, judged }, true));
            Looked::Missed(if shadow_only { "over_budget" } else { "shadow" }, Some(pending))
        }
        Verdict::Grey(judged) => {
            pending.near = Some((Judged { scope, judged }, false));
            Looked::Missed("unsure", Some(pending))
        }
        Verdict::Guarded(guard) => {
            metrics.guarded(guard.label());
            Looked::Missed("guard", Some(pending))
        }
        Verdict::Unlikely => Looked::Missed("unlikely", Some(pending)),
    }
}

/// Notes what a stage took, which began at `began`, and a step of the request's trace.
fn took(answers: &Answers, sought: &Sought<'_>, (stage, step): (LookupStage, &'static str), began: Moment) {
    answers.metrics.cache().took(stage, answers.clock.now().seconds_since(began));
    (sought.trace)(step, began);
}

/// The text that is looked up, if it may be, and whether what is asked soon changes.
fn admitted<'a>(semantic: &Semantic, sought: &Sought<'a>) -> Result<(&'a str, bool), Bypass> {
    let (body, form) = (sought.body, sought.form);
    // Its history would have to be read here, and would hold up a worker.
    if body.bytes().len() > LONG_BODY {
        return Err(Bypass::Long);
    }
    // Whatever its temperature: whoever asks for such a cache wants one answer to one question.
    eligible::exact(sought.endpoint, sought.query, body, true)?;
    let text = form.last_user_text();
    // "And in Rome?" asks for the weather of today where the question before did.
    let volatile = text.is_some_and(eligible::is_volatile)
        || form.earlier_user_texts().ok_or(Bypass::NoText)?.any(eligible::is_volatile);
    if volatile && semantic.volatile.is_none() {
        return Err(Bypass::Volatile);
    }
    let mut outline = Outline::default();
    body.outline(&mut outline);
    Ok((eligible::semantic(body, &outline, text, LONGEST)?, volatile))
}

/// Its vector by the embedder that recalls: microseconds, so that it is made here. `None` for a text without words.
fn recall(embedders: &Embedders, text: &str) -> Option<Box<[f32]>> {
    let vectors = embedders.recall.embed(&[text]).ok()?;
    vectors.into_iter().next().map(Vec::into_boxed_slice)
}

async fn search(
    answers: &Answers,
    pending: &Pending,
    acceptable: Arc<[Origin]>,
    max_age: Option<Duration>,
) -> Vec<Candidate> {
    let find = |meanings: &SemanticAnswers, recall: &[f32], compat: &CompatKey| {
        meanings.entries.find(compat, recall, Wanted { acceptable: &acceptable, max_age }, answers.clock.now())
    };
    if answers.local.semantic.entries.len_of(&pending.compat) < MANY {
        return find(&answers.local.semantic, &pending.recall, &pending.compat);
    }
    let (meanings, clock) = (answers.local.semantic.clone(), answers.clock);
    let (recall, compat) = (pending.recall.clone(), pending.compat);
    let aside = tokio::task::spawn_blocking(move || {
        meanings.entries.find(&compat, &recall, Wanted { acceptable: &acceptable, max_age }, clock.now())
    });
    aside.await.unwrap_or_default()
}
