//! Entries by meaning as they are written down, and as they come back.

use std::{sync::Arc, time::Duration};

use xxhash_rust::xxh3::xxh3_64;

use super::state::Meanings;
use crate::{
    cache::{CompatKey, Kept, Record, codec::SemanticEntry, guard::Traits, semantic::NewEntry},
    gateway::{Desk, shared::give_meaning},
    types::Moment,
};

/// Writes an entry down that is about to be kept under `text`, and gives it to other gateways, where that may be: `own` is the answer to the
/// request that said it, which may be another than the entry's.
pub(super) async fn write_down(
    desk: &Desk,
    own: &Record,
    (compat, text): (CompatKey, &str),
    new: &NewEntry,
    left: Duration,
    now: Moment,
) {
    if desk.disk.is_off(own) || !desk.disk.is_on() && !desk.shared.is_on() {
        return;
    }
    let Ok(embedders) = desk.meanings.embedders().await else { return };
    let meaning = SemanticEntry {
        compat,
        text: text.to_owned(),
        embedder: embedders.id.clone(),
        vector: new.vector.clone(),
        exact: new.exact,
        record: new.record.clone(),
    };
    let age = new.kept.map_or(Duration::ZERO, |kept| kept.age(now));
    desk.disk.meaning(&meaning, new.text, age, left);
    give_meaning(desk, &meaning, age, left);
}

impl Meanings {
    /// An entry as it was written down: what is cheap is made anew, so that nothing of it can be another release's. `None` where other
    /// embedders made its vector.
    pub(in crate::gateway) async fn remade(&self, meaning: SemanticEntry, kept: Kept) -> Option<(CompatKey, NewEntry)> {
        let embedders = self.loaded().await?;
        let SemanticEntry { compat, text, embedder, vector, exact, record } = meaning;
        if embedder != embedders.id {
            return None;
        }
        // Where there is an entry, a question is about to come, which would be answered too late if it had to wait for this.
        embedders.warm(&text).await;
        let recall = embedders.recall.embed(&[&*text]).ok()?.into_iter().next()?.into_boxed_slice();
        let traits = Arc::new(Traits::of(&text));
        let text = xxh3_64(text.as_bytes());
        Some((compat, NewEntry { text, traits, recall, vector, record, exact, kept: Some(kept) }))
    }
}
