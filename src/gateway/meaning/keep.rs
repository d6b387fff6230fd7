//! What comes after a lookup: the answer is kept under its text, and compared with the one that was near. All of it off the way of
//! requests.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    evidence::Said,
    look::{Hit, Pending},
    recent::Judged,
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
    protocol::Draft,
};

/// How long the vectors of answers may take: nobody waits for them.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer that came after all.
pub(in crate::gateway) struct Answered {
    pub(in crate::gateway) record: Arc<Record>,
    pub(in crate::gateway) exact: ExactKey,
}

/// Keeps an answer under the text that it is the answer to. Where the one that was near says the same, the text leads to that from now on:
/// one answer under two texts.
pub(in crate::gateway) async fn keep(desk: Arc<Desk>, pending: Pending, answered: Answered) {
    let Pending { compat, embedders, text, traits, recall, vector, near, ttl, keeps, .. } = pending;
    let mut record = answered.record;
    let mut exact = answered.exact;
    let (mut ttl, mut kept) = (ttl, None);
    if let Some((judged, would_serve)) = near
        && let Some(anew) = said(&record)
        && let Some((same, source)) = compare(&desk, &judged, &anew).await
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
    let text = xxh3_64(text.as_bytes());
    let new = NewEntry { text, traits, recall, vector, record, exact, kept };
    desk.meanings.entries.insert(compat, new, ttl, desk.clock.now());
}

/// A hit was made anew: what was said instead shows whether it was right.
pub(in crate::gateway) async fn verify(desk: &Desk, hit: &Hit, anew: &Draft) {
    let Some(said) = anew.said().filter(|said| said.calls.is_empty()) else { return };
    if let Some((same, source)) = compare(desk, &hit.judged, said.text).await {
        learn(desk, &hit.judged, Said::found(same, source), true);
    }
}

/// A label came in; `given`: of an answer that was given, or would have been.
pub(in crate::gateway) fn learn(desk: &Desk, judged: &Judged, said: Said, given: bool) {
    let (entry, belief) = (&judged.judged.entry, judged.judged.belief);
    let log_odds = belief.log_odds + entry.shift().mean();
    let scope_shift = lock(&desk.meanings.scopes).learn(judged.scope, log_odds, said, given, desk.clock.now());
    // Of the entry everybody may say what it was worth to him.
    entry.learn(belief.log_odds + scope_shift, said.same, said.source.weight());
    desk.metrics.cache().labelled(given, said.same, said.source.label());
}

/// Whether the kept answer says the same as one that was made anew; `None` where that cannot be told.
async fn compare(desk: &Desk, judged: &Judged, anew: &str) -> Option<(bool, Source)> {
    let stored = said(&judged.judged.entry.record)?;
    let told = |agreement| match agreement {
        Agreement::Same(source) => Some((true, source)),
        Agreement::Different => Some((false, Source::Alike)),
        Agreement::Unsure => None,
    };
    if let Some(found) = told(answers_agree(&stored, anew, None)) {
        return Some(found);
    }
    // Of a longer answer only the beginning would be in the vector.
    if !embed::reads_whole(&stored) || !embed::reads_whole(anew) {
        return None;
    }
    let deadline = Instant::now() + PATIENCE;
    let one = desk.meanings.built_in.embed(&stored, deadline).await.ok()?;
    let other = desk.meanings.built_in.embed(anew, deadline).await.ok()?;
    let similarity = one.iter().zip(&other).map(|(one, other)| one * other).sum();
    told(answers_agree(&stored, anew, Some(similarity)))
}

/// The text of a kept answer.
fn said(record: &Record) -> Option<String> {
    let draft = Draft::whole(record.transcript.whole())?;
    draft.said().filter(|said| said.calls.is_empty()).map(|said| said.text.to_owned())
}
