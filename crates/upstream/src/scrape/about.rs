//! Start parameters of an engine: slots and context lengths. Requested once, and again after each restart.

use std::time::Duration;

use serde::Deserialize;

use super::lists;
use crate::{Client, address};
use signalbox_fleet::{Contexts, Engine};
use signalbox_types::{EngineKind, Moment};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before an unanswered request is repeated, however often metrics are read.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Largest answer, in bytes: lists of models can be long.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Restart count of the last answered request, and the time of the next attempt.
#[derive(Default)]
pub(super) struct About {
    asked: Option<u32>,
    next: Moment,
}

impl About {
    /// Requests the parameters of `engine`, unless they are known or the last attempt just failed.
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
            self.next = now.plus(RETRY_PAUSE);
        }
    }
}

/// For llama.cpp's server, whose metrics contain neither. Returns true if it answered.
async fn props(engine: &Engine, client: &Client, key: Option<&str>) -> bool {
    let url = address::root_url(&engine.id.url, "/props");
    let Ok(page) = client.fetch(&url, key, TIMEOUT, MAX_ANSWER_BYTES).await else { return false };
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
    /// Per slot, not for all slots.
    n_ctx: Option<u64>,
}

/// For all other engines, from their list of models. Returns true if it answered.
async fn models(engine: &Engine, client: &Client, key: Option<&str>) -> bool {
    let url = address::openai_url(&engine.id.url, "/v1/models");
    let Ok(page) = client.fetch(&url, key, TIMEOUT, MAX_ANSWER_BYTES).await else { return false };
    let read = lists::read(page.body, |body| Some((contexts(body), lists::listed(body)))).await;
    let (contexts, listed) = read.unwrap_or_default();
    engine.set_contexts(Contexts { any: None, models: contexts });
    if let Some(models) = listed {
        engine.models.set_names(models);
    }
    true
}

/// Context lengths of the models that report one.
fn contexts(body: &[u8]) -> Vec<(String, u64)> {
    let Ok(ModelList { data }) = serde_json::from_slice(body) else { return Vec::new() };
    data.into_iter()
        .filter_map(|model| Some((model.id, model.max_model_len.or(model.context_length).filter(|it| *it > 0)?)))
        .collect()
}

/// Answer to `GET /v1/models`.
#[derive(Deserialize)]
pub(crate) struct ModelList {
    pub(crate) data: Vec<ListedModel>,
}

#[derive(Deserialize)]
pub(crate) struct ListedModel {
    pub(crate) id: String,
    /// Used by vLLM and `SGLang`.
    max_model_len: Option<u64>,
    /// Used by hosted providers.
    context_length: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_lengths_are_read_where_reported() {
        let body = br#"{"object":"list","data":[{"id":"a","max_model_len":32768,"x":1},{"id":"b"},{"id":"c","context_length":9}]}"#;
        assert_eq!(contexts(body), [("a".to_owned(), 32_768), ("c".to_owned(), 9)]);
        assert!(contexts(b"[1]").is_empty());
    }
}
