//! What comes after a lookup: the answer is kept under its text, and compared with the one that was near. All of it off the way of
//! requests.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    evidence::Said,
    look::{Hit, Pending},
    recent::Judged,
    remake::write_down,
};
use crate::{
    cache::{
        ExactKey, Record,
        evidence::{Agreement, Source, answers_agree},
        semantic::NewEntry,
    },
    embed,
    gateway::Desk,
    measure::lock,
    protocol::{LONG_BODY, PartialAnswer},
};

/// How long the vectors of answers may take: nobody waits for them.
const PATIENCE: Duration = Duration::from_secs(30);
/// Answers that are longer together, in bytes, are compared aside.
const LONG_ANSWERS: usize = 4 << 10;

/// An answer that came after all.
pub(in crate::gateway) struct Answered {
    pub(in crate::gateway) record: Arc<Record>,
    pub(in crate::gateway) exact: ExactKey,
}

/// Keeps an answer under the text that it is the answer to. Where the one that was near says the same, the text leads to that from now on:
/// one answer under two texts.
pub(in crate::gateway) async fn keep(desk: Arc<Desk>, pending: Pending, answered: Answered) {
    let Pending { compat, embedders, text, traits, recall, vector, near, ttl, keeps, .. } = pending;
    let (own, purges) = (answered.record.clone(), desk.purges());
    let mut record = answered.record;
    let mut exact = answered.exact;
    let (mut ttl, mut kept) = (ttl, None);
    if let Some((judged, would_serve)) = near
        && let Some(anew) = text_of(&record).await
        && let Some((same, source)) = compare(&desk, &judged, anew).await
    {
        learn(&desk, &judged, Said::found(same, source), would_serve);
        let entry = &judged.judged.entry;
        // One that was forgotten meanwhile does not come back under another text.
        if same && desk.meanings.entries.get(&compat, entry.number).is_some() {
            (record, exact) = (entry.record.clone(), entry.exact);
            ttl = ttl.min(entry.left(desk.clock.now()));
            kept = Some(entry.kept);
        }
    }
    if !keeps || ttl.is_zero() {
        return;
    }
    let vector = match vector {
        Some(vector) => vector,
        None => match embedders.embed(&text, desk.clock, desk.metrics.cache()).await {
            Ok(vector) => vector,
            Err(error) => {
                tracing::debug!(%error, "an answer is not kept under its meaning");
                return;
            }
        },
    };
    let new = NewEntry { text: xxh3_64(text.as_bytes()), traits, recall, vector, record, exact, kept };
    let now = desk.clock.now();
    // The vector may have taken a while, and this may be what was to be forgotten meanwhile.
    if desk.purges() != purges {
        return;
    }
    write_down(&desk, &own, (compat, &text), &new, ttl, now).await;
    desk.meanings.entries.insert(compat, new, ttl, now);
}

/// A hit was made anew: what was said instead shows whether it was right.
pub(in crate::gateway) async fn verify(desk: &Desk, hit: &Hit, anew: &PartialAnswer) {
    let Some(said) = anew.said().filter(|said| said.calls.is_empty()) else { return };
    if let Some((same, source)) = compare(desk, &hit.judged, said.text.to_owned()).await {
        learn(desk, &hit.judged, Said::found(same, source), true);
    }
}

/// A label came in; `given`: of an answer that was given, or would have been.
pub(in crate::gateway) fn learn(desk: &Desk, judged: &Judged, said: Said, given: bool) {
    let (entry, belief) = (&judged.judged.entry, judged.judged.belief);
    let log_odds = belief.log_odds + entry.shift().mean();
    let scope_shift = lock(&desk.meanings.scopes).learn(judged.scope, log_odds, said, given, desk.clock.now());
    if given && !said.same {
        desk.disk.forget(entry);
    }
    // Of the entry everybody may say what it was worth to him.
    entry.learn(belief.log_odds + scope_shift, said.same, said.source.weight());
    desk.metrics.cache().labelled(given, said.same, said.source.label());
}

/// Whether the kept answer says the same as one that was made anew; `None` where that cannot be told.
async fn compare(desk: &Desk, judged: &Judged, anew: String) -> Option<(bool, Source)> {
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
    let one = desk.meanings.built_in.embed(&stored, deadline).await.ok()?;
    let other = desk.meanings.built_in.embed(&anew, deadline).await.ok()?;
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
