//! Start parameters of an engine: slots and context lengths. Requested once, and again after each restart.

use std::time::Duration;

use serde::Deserialize;

use super::lists;
use crate::{Client, EngineAccess, address};
use signalbox_engines::{Profile, StartReport, model_list};
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
        (client, access): (&Client, &EngineAccess),
        now: Moment,
    ) {
        let restarts = Some(engine.restarts());
        if self.asked == restarts || now < self.next {
            return;
        }
        let report = kind.and_then(Profile::of_kind).map_or(StartReport::Models, |profile| profile.start);
        let answered = match report {
            StartReport::Props => props(engine, client, access).await,
            StartReport::Models => models(engine, client, access).await,
        };
        if answered {
            self.asked = restarts;
        } else {
            self.next = now.plus(RETRY_PAUSE);
        }
    }
}

/// Reads `/props`, which has both. Returns true if it answered.
async fn props(engine: &Engine, client: &Client, access: &EngineAccess) -> bool {
    let url = address::root_url(&engine.id.url, "/props");
    let Ok(page) = client.fetch(&url, access, TIMEOUT, MAX_ANSWER_BYTES).await else { return false };
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

/// Reads the list of models, which may have their context lengths. Returns true if it answered.
async fn models(engine: &Engine, client: &Client, access: &EngineAccess) -> bool {
    let url = access.api_url(&engine.id.url, "/v1/models");
    let Ok(page) = client.fetch(&url, access, TIMEOUT, MAX_ANSWER_BYTES).await else { return false };
    let list = lists::read(page.body, model_list).await;
    let contexts = list.iter().flatten().filter_map(|model| Some((model.id.clone(), model.context()?)));
    engine.set_contexts(Contexts { any: None, models: contexts.collect() });
    if let Some(models) = list {
        engine.models.set_names(lists::usable(models));
    }
    true
}
