//! What is kept here, given to the others.

use std::time::Duration;

use crate::{
    cache::{ExactKey, Record, codec::SemanticEntry},
    gateway::Desk,
};

/// Gives them an answer that is kept for `ttl`, where that may be. Waits for nobody.
pub(in crate::gateway) fn give_record(desk: &Desk, key: &ExactKey, record: &Record, ttl: Duration) {
    if desk.shared.is_on() && !desk.disk.is_off(record) {
        told(desk, "set", desk.shared.record(key, record, ttl));
    }
}

/// The same of an answer under a text.
pub(in crate::gateway) fn give_meaning(desk: &Desk, meaning: &SemanticEntry, age: Duration, left: Duration) {
    if desk.shared.is_on() && !desk.disk.is_off(&meaning.record) {
        told(desk, "tell", desk.shared.meaning(meaning, age, left));
    }
}

/// What is on its way is counted when it has arrived.
fn told(desk: &Desk, what: &'static str, given: Result<(), &'static str>) {
    if let Err(why) = given {
        desk.metrics.cache().shared(what, why);
    }
}
