//! Prompts that a backend has computed, for other gateways before the same engines: they put them into their own prefix
//! index, and send the next turn of a conversation where its beginning is cached.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use signalbox_prompt::Blocks;
use signalbox_types::{EngineId, Name, Payer};

/// Most prompts that wait to be published.
const MOST_PROMPTS: usize = 4096;
/// Most of their blocks together: 512 KiB of hashes.
const MOST_BLOCKS: usize = 65_536;

/// Identity of a backend that is equal on all gateways: a hash of the engine's address, the payer and the model.
pub type BackendKey = u64;

/// Identity of an engine that is equal on all gateways.
pub type EngineKey = u64;

/// A prompt whose tokens a backend has in its cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedPrompt {
    /// The backend.
    pub backend: BackendKey,
    /// The prompt's blocks.
    pub blocks: Blocks,
}

/// Prompts that wait to be published to other gateways. Bounded: what does not fit is dropped and counted, and costs a cache
/// hit elsewhere at most.
#[derive(Debug, Default)]
pub struct Outbox {
    is_open: AtomicBool,
    waiting: Mutex<Waiting>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    prompts: Vec<ComputedPrompt>,
    blocks: usize,
}

impl Outbox {
    /// Starts or stops to collect prompts. What waits is discarded.
    pub fn set_open(&self, open: bool) {
        self.is_open.store(open, Relaxed);
        drop(self.take());
    }

    /// Adds a prompt, if prompts are collected.
    pub(super) fn push(&self, backend: BackendKey, blocks: &Blocks) {
        let count = blocks.prompt().blocks.len();
        // Read on every request: without other gateways it costs nothing.
        if count == 0 || !self.is_open.load(Relaxed) {
            return;
        }
        let mut waiting = self.waiting.lock();
        if waiting.prompts.len() == MOST_PROMPTS || waiting.blocks + count > MOST_BLOCKS {
            self.dropped.fetch_add(1, Relaxed);
            return;
        }
        waiting.blocks += count;
        waiting.prompts.push(ComputedPrompt { backend, blocks: blocks.clone() });
    }

    /// Takes all prompts out, in the order in which they were computed.
    pub fn take(&self) -> Vec<ComputedPrompt> {
        std::mem::take(&mut *self.waiting.lock()).prompts
    }

    /// Prompts dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Relaxed)
    }
}

/// The key of an engine.
pub(super) fn engine_key(engine: &EngineId) -> EngineKey {
    backend_key(engine, None)
}

/// The key of `model` on an engine.
pub(super) fn backend_key(engine: &EngineId, model: Option<&Name>) -> BackendKey {
    let (payer, name) = match &engine.payer {
        Payer::Own => ("own", ""),
        Payer::Account(name) => ("account", &**name),
        Payer::Key(name) => ("key", &**name),
    };
    // No part contains a NUL.
    xxh3_64([&*engine.url, payer, name, model.map_or("", |model| model)].join("\0").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Layout;

    #[test]
    fn the_outbox_is_bounded_and_counts_what_it_drops() {
        let outbox = Outbox::default();
        let prompt = |blocks: u64| Blocks::new((0..blocks).collect(), blocks * 64, Layout::Fixed(64));
        outbox.push(1, &prompt(3));
        assert_eq!(outbox.take(), [], "nobody listens");
        outbox.set_open(true);
        (0..40).for_each(|backend| outbox.push(backend, &prompt(2000)));
        let taken = outbox.take();
        assert_eq!((taken.len(), taken[31].backend, outbox.take_dropped(), outbox.take_dropped()), (32, 31, 8, 0));
        (0..5000).for_each(|backend| outbox.push(backend, &prompt(1)));
        assert_eq!((outbox.take().len(), outbox.take_dropped()), (MOST_PROMPTS, 5000 - MOST_PROMPTS as u64));
        outbox.push(1, &prompt(3));
        outbox.set_open(false);
        assert_eq!(outbox.take(), []);
    }

    #[test]
    fn backends_that_differ_have_other_keys() {
        let engine = |url: &str, payer: Payer| EngineId { url: url.to_owned(), payer };
        let own = engine("http://a", Payer::Own);
        let keys = [
            backend_key(&own, None),
            backend_key(&own, Some(&"m".into())),
            backend_key(&engine("http://b", Payer::Own), None),
            backend_key(&engine("http://a", Payer::Account("m".into())), None),
            backend_key(&engine("http://a", Payer::Key("m".into())), None),
        ];
        assert!(keys.iter().enumerate().all(|(at, key)| !keys[..at].contains(key)), "{keys:?}");
        // Gateways of two releases have to understand each other.
        assert_eq!(backend_key(&own, Some(&"m".into())), 15_901_782_180_072_614_100);
    }
}
