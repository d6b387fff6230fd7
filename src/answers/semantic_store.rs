//! What comes after a lookup: the answer is kept under its text, and compared with the one that was near. All of it off the way of
//! requests.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Answers,
    semantic::{Judged, Said},
    semantic_lookup::{Hit, Pending},
};
use crate::{
    cache::{
        CompatKey, ExactKey, Record,
        codec::SemanticEntry,
        evidence::{Agreement, Source, answers_agree},
        semantic::NewEntry,
    },
    embed,
    measure::lock,
    protocol::{LONG_BODY, PartialAnswer},
    types::Moment,
};

/// How long the vectors of answers may take: nobody waits for them.
const PATIENCE: Duration = Duration::from_secs(30);
/// Answers that are longer together, in bytes, are compared aside.
const LONG_ANSWERS: usize = 4 << 10;

/// An answer that came after all.
pub(crate) struct Answered {
    pub(crate) record: Arc<Record>,
    pub(crate) exact: ExactKey,
}

/// Keeps an answer under the text that it is the answer to. Where the one that was near says the same, the text leads to that from now on:
/// one answer under two texts.
pub(crate) async fn keep(answers: Arc<Answers>, pending: Pending, answered: Answered) {
    let Pending { compat, embedders, text, traits, recall, vector, near, ttl, keeps, .. } = pending;
    let (own, purges) = (answered.record.clone(), answers.local.purges());
    let mut record = answered.record;
    let mut exact = answered.exact;
    let (mut ttl, mut kept) = (ttl, None);
    if let Some((judged, would_serve)) = near
        && let Some(anew) = text_of(&record).await
        && let Some((same, source)) = compare(&answers, &judged, anew).await
    {
        learn(&answers, &judged, Said::found(same, source), would_serve);
        let entry = &judged.judged.entry;
        // One that was forgotten meanwhile does not come back under another text.
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
                tracing::debug!(%error, "an answer is not kept under its meaning");
                return;
            }
        },
    };
    let new = NewEntry { text: xxh3_64(text.as_bytes()), traits, recall, vector, record, exact, kept };
    let now = answers.clock.now();
    // The vector may have taken a while, and this may be what was to be forgotten meanwhile.
    if answers.local.purges() != purges {
        return;
    }
    write_down(&answers, &own, (compat, &text), &new, ttl, now).await;
    answers.local.semantic.entries.insert(compat, new, ttl, now);
}

/// A hit was made anew: what was said instead shows whether it was right.
pub(crate) async fn verify(answers: &Answers, hit: &Hit, anew: &PartialAnswer) {
    let Some(said) = anew.said().filter(|said| said.calls.is_empty()) else { return };
    if let Some((same, source)) = compare(answers, &hit.judged, said.text.to_owned()).await {
        learn(answers, &hit.judged, Said::found(same, source), true);
    }
}

/// A label came in; `given`: of an answer that was given, or would have been.
pub(crate) fn learn(answers: &Answers, judged: &Judged, said: Said, given: bool) {
    let (entry, belief) = (&judged.judged.entry, judged.judged.belief);
    let log_odds = belief.log_odds + entry.shift().mean();
    let scope_shift =
        lock(&answers.local.semantic.scopes).learn(judged.scope, log_odds, said, given, answers.clock.now());
    if given && !said.same {
        answers.local.disk.forget(entry);
    }
    // Of the entry everybody may say what it was worth to him.
    entry.learn(belief.log_odds + scope_shift, said.same, said.source.weight());
    answers.metrics.cache().labelled(given, said.same, said.source.label());
}

/// Whether the kept answer says the same as one that was made anew; `None` where that cannot be told.
async fn compare(answers: &Answers, judged: &Judged, anew: String) -> Option<(bool, Source)> {
    let stored = text_of(&judged.judged.entry.record).await?;
    let length = stored.len() + anew.len();
    let read = move || {
        let agreement = answers_agree(&stored, &anew, None);
        // Of a longer answer only the beginning would be in the vector.
        let readable = agreement == Agreement::Unsure && [&stored, &anew].iter().all(|text| embed::reads_whole(text));
        (agreement, readable, stored, anew)
    };
    let (agreement, readable, stored, anew) = aside(length > LONG_ANSWERS, read).await?;
    let label = label(agreement);
    if label.is_some() || !readable {
        return label;
    }
    let deadline = Instant::now() + PATIENCE;
    let one = answers.local.semantic.built_in.embed(&stored, deadline).await.ok()?;
    let other = answers.local.semantic.built_in.embed(&anew, deadline).await.ok()?;
    let similarity = one.iter().zip(&other).map(|(one, other)| one * other).sum();
    self::label(answers_agree(&stored, &anew, Some(similarity)))
}

/// What an agreement says of the hit, and how that is known.
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
    aside(record.transcript.whole().len() > LONG_BODY, read).await?
}

/// Does what would hold up a worker where it is `heavy` on a thread that may be held up; `None` where there is none.
async fn aside<T: Send + 'static>(heavy: bool, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    if heavy { tokio::task::spawn_blocking(work).await.ok() } else { Some(work()) }
}

/// Writes an entry down that is about to be kept under `text`, and gives it to other gateways, where that may be: `own` is the answer to the
/// request that said it, which may be another than the entry's.
async fn write_down(
    answers: &Answers,
    own: &Record,
    (compat, text): (CompatKey, &str),
    new: &NewEntry,
    left: Duration,
    now: Moment,
) {
    if answers.local.disk.is_off(own) || !answers.local.disk.is_on() && !answers.peers.is_on() {
        return;
    }
    let Ok(embedders) = answers.local.semantic.embedders().await else { return };
    let meaning = SemanticEntry {
        compat,
        text: text.to_owned(),
        embedder: embedders.id.clone(),
        vector: new.vector.clone(),
        exact: new.exact,
        record: new.record.clone(),
    };
    let age = new.kept.map_or(Duration::ZERO, |kept| kept.age(now));
    answers.local.disk.meaning(&meaning, new.text, age, left);
    answers.give_meaning(&meaning, age, left);
}
