//! Compiles the storage of responses and conversations.

use super::reader::Reader;
use crate::StoredResponses;
use signalbox_config::{
    Problem,
    responses::{self as raw, StoreSize},
};

/// The least memory, in bytes: a single long answer may take that much.
const LEAST: u64 = 1 << 20;

impl Reader<'_> {
    pub(super) fn responses(&mut self, raw: Option<&raw::StoredResponses>) -> StoredResponses {
        let default = StoredResponses::default();
        let Some(raw) = raw else { return default };
        let StoreSize(memory) = self.or(raw.store.as_ref(), StoreSize(Some(default.memory as u64)));
        let memory = memory.unwrap_or(0);
        if let Some(field) = raw.store.as_ref().filter(|_| (1..LEAST).contains(&memory)) {
            self.report(
                Problem::at(field.at(), "too little memory for stored responses")
                    .help("write `1Mi` at least, or `off` to store none"),
            );
        }
        if let Some(field) = raw.ttl.as_ref().filter(|_| memory == 0) {
            self.report(
                Problem::at(field.at(), "nothing is stored that could expire")
                    .help("remove `ttl`, or give `store` a size, such as `64Mi`"),
            );
        }
        let memory = usize::try_from(memory).unwrap_or(usize::MAX);
        StoredResponses { memory, ttl: self.or(raw.ttl.as_ref(), default.ttl) }
    }
}
