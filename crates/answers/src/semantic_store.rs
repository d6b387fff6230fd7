//! Work after a semantic lookup, outside of requests: stores the answer under its text, and compares it with the near one to get a label.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Answers,
    semantic::{HitLabel, ScopedHit},
    semantic_lookup::{Hit, PendingEntry},
};
use signalbox_cache::{
    CompatKey, ExactKey, Record,
    codec::SemanticEntry,
    evidence::{Agreement, Source, answers_agree},
    semantic::NewEntry,
};
use signalbox_embed as embed;
use signalbox_protocol::{LONG_BODY, PartialAnswer};
use signalbox_types::Moment;

/// Timeout of the vectors of answers.
const VECTOR_TIMEOUT: Duration = Duration::from_secs(30);
/// Total length of two answers from which on they are compared on a blocking thread, in bytes.
const LONG_ANSWERS: usize = 4 << 10;

/// The answer of an engine after a miss.
pub struct EngineAnswer {
    /// The answer.
    pub record: Arc<Record>,
    /// Key under which it is kept.
    pub exact: ExactKey,
}

/// Stores an answer under the text of its request. If the near entry's answer says the same, the text is stored with that answer instead, so
/// that one answer serves two texts.
pub async fn store_semantic(answers: Arc<Answers>, pending: PendingEntry, answered: EngineAnswer) {
    let PendingEntry { compat, embedders, text, traits, vector, near, ttl, keeps, .. } = pending;
    let (own, purges) = (answered.record.clone(), answers.local.purges());
    let mut record = answered.record;
    let mut exact = answered.exact;
    let (mut ttl, mut kept) = (ttl, None);
    if let Some((judged, would_serve)) = near
        && let Some(new) = text_of(&record).await
        && let Some((same, source)) = compare(&answers, &judged, new).await
    {
        record_label(&answers, &judged, HitLabel::found(same, source), would_serve);
        let entry = &judged.judged.entry;
        // An entry that was removed meanwhile must not return under another text.
        if same && answers.local.semantic.entries.get(&compat, entry.number).is_some() {
            (record, exact) = (entry.record.clone(), entry.exact);
            ttl = ttl.min(entry.left(answers.clock.now()));
            kept = Some(entry.kept);
        }
    }
    if !keeps || ttl.is_zero() {
        return;
    }
    let vector = match vector {
        Some(vector) => vector,
        None => match embedders.embed(&text, answers.clock, answers.metrics.cache()).await {
            Ok(vector) => vector,
            Err(error) => {
                tracing::debug!(%error, "cache: embedding failed, so the answer is not stored in the semantic cache");
                return;
            }
        },
    };
    let new = NewEntry { text: xxh3_64(text.as_bytes()), traits, vector, record, exact, kept };
    let now = answers.clock.now();
    // While the vector was computed, a purge may have matched this answer.
    if answers.local.purges() != purges {
        return;
    }
    persist(&answers, &own, (compat, &text), &new, ttl, now).await;
    answers.local.semantic.entries.insert(compat, new, ttl, now);
}

/// Verifies a hit with a new answer to its request, and records the label.
pub async fn verify_hit(answers: &Answers, hit: &Hit, new: &PartialAnswer) {
    let Some(said) = new.said().filter(|said| said.calls.is_empty()) else { return };
    if let Some((same, source)) = compare(answers, &hit.judged, said.text.to_owned()).await {
        record_label(answers, &hit.judged, HitLabel::found(same, source), true);
    }
}

/// Records a label; `is_hit`: the answer was served, or would have been in shadow mode.
pub fn record_label(answers: &Answers, judged: &ScopedHit, label: HitLabel, is_hit: bool) {
    let (entry, belief) = (&judged.judged.entry, judged.judged.belief);
    let log_odds = belief.log_odds + entry.shift().mean();
    let scope_shift =
        answers.local.semantic.scopes.lock().learn(judged.scope, log_odds, label, is_hit, answers.clock.now());
    if is_hit && !label.same {
        answers.local.disk.delete(entry);
    }
    // All callers have the same weight in the evidence of an entry.
    entry.learn(belief.log_odds + scope_shift, label.same, label.source.weight());
    answers.metrics.cache().labelled(is_hit, label.same, label.source.label());
}

/// Compares the kept answer with a new one: true if they say the same, and the source of this label. `None` where it is uncertain.
async fn compare(answers: &Answers, judged: &ScopedHit, new: String) -> Option<(bool, Source)> {
    let stored = text_of(&judged.judged.entry.record).await?;
    let length = stored.len() + new.len();
    let read = move || {
        let agreement = answers_agree(&stored, &new, None);
        // The vector of a longer answer would cover only its beginning.
        let readable = agreement == Agreement::Unsure && [&stored, &new].iter().all(|text| embed::reads_whole(text));
        (agreement, readable, stored, new)
    };
    let (agreement, readable, stored, new) = blocking_if(length > LONG_ANSWERS, read).await?;
    let label = label(agreement);
    if label.is_some() || !readable {
        return label;
    }
    let deadline = Instant::now() + VECTOR_TIMEOUT;
    let one = answers.local.semantic.built_in.embed(&stored, deadline).await.ok()?;
    let other = answers.local.semantic.built_in.embed(&new, deadline).await.ok()?;
    let similarity = one.iter().zip(&other).map(|(one, other)| one * other).sum();
    self::label(answers_agree(&stored, &new, Some(similarity)))
}

/// The label of an agreement, with its source; `None` where it is uncertain.
fn label(agreement: Agreement) -> Option<(bool, Source)> {
    match agreement {
        Agreement::Same(source) => Some((true, source)),
        Agreement::Different => Some((false, Source::Alike)),
        Agreement::Unsure => None,
    }
}

/// The text of a kept answer.
async fn text_of(record: &Record) -> Option<String> {
    let whole = record.transcript.whole().clone();
    let read = move || {
        let draft = PartialAnswer::whole(&whole)?;
        draft.said().filter(|said| said.calls.is_empty()).map(|said| said.text.to_owned())
    };
    blocking_if(record.transcript.whole().len() > LONG_BODY, read).await?
}

/// Runs `work`, on a blocking thread if it `is_heavy`. `None` if that thread fails.
async fn blocking_if<T: Send + 'static>(is_heavy: bool, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if is_heavy { tokio::task::spawn_blocking(work).await.ok() } else { Some(work()) }
}

/// Writes an entry for `text` to disk and publishes it to other gateways, unless the policy excludes it. `own` is the answer to the request
/// with this text, which may differ from the entry's answer.
async fn persist(
    answers: &Answers,
    own: &Record,
    (compat, text): (CompatKey, &str),
    new: &NewEntry,
    left: Duration,
    now: Moment,
) {
    if answers.local.disk.is_excluded(own) || !answers.local.disk.is_on() && !answers.peers.is_on() {
        return;
    }
    let Ok(embedders) = answers.local.semantic.embedders().await else { return };
    let entry = SemanticEntry {
        compat,
        text: text.to_owned(),
        embedder: embedders.id.clone(),
        vector: new.vector.clone(),
        exact: new.exact,
        record: new.record.clone(),
    };
    let age = new.kept.map_or(Duration::ZERO, |kept| kept.age(now));
    answers.local.disk.semantic(&entry, new.text, age, left);
    answers.publish_semantic(&entry, age, left);
}
