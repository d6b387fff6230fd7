//! What an engine says of how it was started: slots and contexts. Asked once, and again after it started anew.

use std::time::Duration;

use serde::Deserialize;

use crate::{
    fleet::{Contexts, Engine},
    types::{EngineKind, Moment},
    upstream::{Client, address},
};

/// How long an engine may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// An engine that does not answer is not asked again for so long, however often its metrics are read.
const AGAIN: Duration = Duration::from_secs(5);
/// Largest answer, in bytes: lists of models can be long.
const LARGEST: usize = 1 << 20;

/// Since which start an engine's answers are known.
#[derive(Default)]
pub(super) struct About {
    asked: Option<u32>,
    next: Moment,
}

impl About {
    /// Asks `engine`, unless its answers are known, or it had none a moment ago.
    pub(super) async fn ask(
        &mut self,
        engine: &Engine,
        kind: Option<EngineKind>,
        (client, key): (&Client, Option<&str>),
        now: Moment,
    ) {
        let restarts = Some(engine.restarts());
        if self.asked == restarts || now < self.next {
            return;
        }
        let answered = match kind {
            Some(EngineKind::LlamaCpp) => props(engine, client, key).await,
            _ => models(engine, client, key).await,
        };
        if answered {
            self.asked = restarts;
        } else {
            self.next = now.plus(AGAIN);
        }
    }
}

/// llama.cpp's server: its metrics say neither. Whether it answered.
async fn props(engine: &Engine, client: &Client, key: Option<&str>) -> bool {
    let url = address::root_url(&engine.url, "/props");
    let Ok(page) = client.fetch(&url, key, PATIENCE, LARGEST).await else { return false };
    if let Ok(Props { total_slots, default_generation_settings }) = serde_json::from_slice(&page.body) {
        engine.set_slots(total_slots);
        let any = default_generation_settings.and_then(|settings| settings.n_ctx).filter(|tokens| *tokens > 0);
        engine.set_contexts(Contexts { any, models: Vec::new() });
    }
    true
}

#[derive(Deserialize)]
struct Props {
    total_slots: u32,
    default_generation_settings: Option<Settings>,
}

#[derive(Deserialize)]
struct Settings {
    /// Of each slot, not of all of them.
    n_ctx: Option<u64>,
}

/// All others, by their list of models. Whether it answered.
async fn models(engine: &Engine, client: &Client, key: Option<&str>) -> bool {
    let url = format!("{}/models", engine.url);
    let Ok(page) = client.fetch(&url, key, PATIENCE, LARGEST).await else { return false };
    engine.set_contexts(Contexts { any: None, models: contexts(&page.body) });
    true
}

/// The contexts of the models that say theirs.
fn contexts(body: &[u8]) -> Vec<(String, u64)> {
    let Ok(List { data }) = serde_json::from_slice(body) else { return Vec::new() };
    data.into_iter()
        .filter_map(|model| Some((model.id, model.max_model_len.or(model.context_length).filter(|it| *it > 0)?)))
        .collect()
}

#[derive(Deserialize)]
struct List {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    /// vLLM and `SGLang`.
    max_model_len: Option<u64>,
    /// Hosted providers.
    context_length: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_where_they_are_told() {
        let body = br#"{"object":"list","data":[{"id":"a","max_model_len":32768,"x":1},{"id":"b"},{"id":"c","context_length":9}]}"#;
        assert_eq!(contexts(body), [("a".to_owned(), 32_768), ("c".to_owned(), 9)]);
        assert!(contexts(b"[1]").is_empty());
    }
}
