//! Lists of models of engines whose models come and go, and the models in memory of engines that load them on demand.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::{Client, EngineAccess, address, client::FetchError};
use signalbox_engines::{LoadedReport, ModelEntry, PROFILES, model_list};
use signalbox_fleet::Engine;
use signalbox_policy::{ListedModel, MOST_LISTED};
use signalbox_types::Name;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two lists of an engine whose metrics are not read, such as a hosted one.
const HOSTED: Duration = Duration::from_secs(30);
/// Pause after a failed request for a list; it doubles up to that between two lists, or to this limit.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_AGAIN: Duration = Duration::from_secs(5);
/// Pause before an engine that reports no models in memory is asked again.
const RARELY: Duration = Duration::from_mins(1);
/// Largest answer, in bytes.
const MAX_LIST_BYTES: usize = 4 << 20;
/// Size of an answer from which it is read where that may take a while.
const LONG: usize = 64 << 10;
/// The most names in a message.
const NAMED: usize = 10;

/// Follows the list of models of an engine until the task is aborted. Notifies `changed` after the first request and
/// after each change.
pub(super) async fn follow(
    engine: Arc<Engine>,
    access: EngineAccess,
    every: Option<Duration>,
    client: Client,
    changed: Arc<Notify>,
) {
    let url = access.api_url(&engine.id.url, "/v1/models");
    let longest = every.map_or(HOSTED, |_| LONGEST_AGAIN);
    let (mut failing, mut again) = (false, RETRY_PAUSE);
    loop {
        let answer = client.fetch(&url, &access, TIMEOUT, MAX_LIST_BYTES).await;
        let models = match answer {
            Ok(page) => read(page.body, listed).await.ok_or_else(|| "its answer is not a list of models".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let name = &engine.name;
        if let Err(why) = &models
            && !std::mem::replace(&mut failing, true)
        {
            tracing::warn!(engine = %name, why, "models: engine '{name}' does not list its models, its last list stays in force");
        }
        failing = models.is_err();
        again = if failing { (again * 2).min(longest) } else { RETRY_PAUSE };
        let pause = if failing { again } else { every.unwrap_or(HOSTED) };
        let is_first = !engine.models.is_asked();
        let change = engine.models.set_listed(models.ok());
        if let Some((added, removed)) = &change {
            let (added, removed) = (shown(added), shown(removed));
            tracing::info!(engine = %name, added, removed, "models: engine '{name}' lists other models now");
        }
        if is_first || change.is_some() {
            changed.notify_one();
        }
        tokio::time::sleep(pause.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}

/// Names for a message.
fn shown(models: &[Name]) -> String {
    let mut text = models.iter().take(NAMED).map(|name| &**name).collect::<Vec<_>>().join(" ");
    if models.len() > NAMED {
        text += " …";
    }
    text
}

/// Models of a list; `None` if it is none.
fn listed(body: &[u8]) -> Option<Vec<ListedModel>> {
    model_list(body).map(usable)
}

/// The models whose names can stand in requests, metrics and headers.
pub(super) fn usable(models: Vec<ModelEntry>) -> Vec<ListedModel> {
    let usable = |model: &ModelEntry| {
        !model.id.is_empty() && model.id.len() <= 256 && model.id.bytes().all(|it| it.is_ascii_graphic())
    };
    let model = |model: ModelEntry| ListedModel { is_adapter: model.is_adapter(), id: model.id.into() };
    models.into_iter().filter(usable).map(model).take(MOST_LISTED).collect()
}

/// Applies `read` to the body of an answer; a long one does not hold up the worker.
pub(super) async fn read<T: Send + 'static>(
    body: Bytes,
    read: impl FnOnce(&[u8]) -> Option<T> + Send + 'static,
) -> Option<T> {
    if body.len() < LONG {
        return read(&body);
    }
    tokio::task::spawn_blocking(move || read(&body)).await.ok().flatten()
}

/// Models in memory by one of the reports that engines have; `None` if the answer is another's.
fn in_report(report: LoadedReport, body: &[u8]) -> Option<Vec<Name>> {
    match report {
        LoadedReport::ApiPs => {
            let Running { models } = serde_json::from_slice(body).ok()?;
            Some(models.into_iter().map(|model| model.name).take(MOST_LISTED).collect())
        }
        LoadedReport::Running => {
            let Swapped { running } = serde_json::from_slice(body).ok()?;
            // One that is starting is not loaded yet.
            let ready = running.into_iter().filter(|model| model.state.as_deref().is_none_or(|state| state == "ready"));
            Some(ready.map(|model| model.model).take(MOST_LISTED).collect())
        }
        LoadedReport::Models => {
            let models = model_list(body)?;
            models.iter().any(|model| model.is_loaded().is_some()).then_some(())?;
            let loaded = models.into_iter().filter(|model| model.is_loaded() == Some(true));
            Some(loaded.map(|model| model.id.into()).take(MOST_LISTED).collect())
        }
    }
}

#[derive(Deserialize)]
struct Running {
    models: Vec<RunningModel>,
}

#[derive(Deserialize)]
struct RunningModel {
    name: Name,
}

#[derive(Deserialize)]
struct Swapped {
    running: Vec<SwappedModel>,
}

#[derive(Deserialize)]
struct SwappedModel {
    model: Name,
    state: Option<String>,
}

/// Reads the models in memory of an engine without metrics, until the task is aborted. Engines that report none are asked
/// rarely.
pub(super) async fn loaded(engine: Arc<Engine>, access: EngineAccess, every: Duration, client: Client) {
    let mut report = None;
    loop {
        let pause = if engine.is_reachable() != Some(true) {
            every
        } else if engine.reading().is_some() {
            // Engines with known metrics serve what they were started with.
            RARELY
        } else {
            match in_memory(&engine, report, (&client, &access)).await {
                InMemory::Known(of, models) => {
                    engine.models.set_loaded(Some(models));
                    report = Some(of);
                    every
                }
                InMemory::Unknown => {
                    engine.models.set_loaded(None);
                    report = None;
                    RARELY
                }
                InMemory::Unreachable => every,
            }
        };
        tokio::time::sleep(pause.mul_f64(0.9 + 0.2 * fastrand::f64())).await;
    }
}

/// Result of a request for the models in memory.
enum InMemory {
    Known(LoadedReport, Vec<Name>),
    /// The engine has no report of them.
    Unknown,
    Unreachable,
}

/// Requests the models in memory from `report`, or from each that engines have in turn.
async fn in_memory(
    engine: &Engine,
    report: Option<LoadedReport>,
    (client, access): (&Client, &EngineAccess),
) -> InMemory {
    let all = PROFILES.iter().filter_map(|profile| profile.loaded);
    for one in all.filter(|one| report.is_none_or(|report| report == *one)) {
        let url = address::root_url(&engine.id.url, one.path());
        match client.fetch(&url, access, TIMEOUT, MAX_LIST_BYTES).await {
            Ok(page) => {
                if let Some(models) = read(page.body, move |body| in_report(one, body)).await {
                    return InMemory::Known(one, models);
                }
            }
            Err(FetchError::Unreachable) => return InMemory::Unreachable,
            Err(_) => {}
        }
    }
    InMemory::Unknown
}

/// Reads `bytes` as each kind of list and drops the result: an entry point for fuzzers, which must never panic.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) fn fuzz(bytes: &[u8]) {
    let _ = listed(bytes);
    for report in PROFILES.iter().filter_map(|profile| profile.loaded) {
        let _ = in_report(report, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_distinguished_from_base_models() {
        let body = br#"{"object":"list","data":[{"id":"base","parent":null,"max_model_len":9},{"id":"sql","parent":"base"},{"id":"bad name"},{"id":""}]}"#;
        let models = listed(body).unwrap();
        assert_eq!(
            models.iter().map(|it| (&*it.id, it.is_adapter)).collect::<Vec<_>>(),
            [("base", false), ("sql", true)]
        );
        let many: Vec<_> = (0..5_000).map(|at| serde_json::json!({ "id": at.to_string() })).collect();
        let body = serde_json::json!({ "data": many }).to_string();
        assert_eq!(listed(body.as_bytes()).unwrap().len(), MOST_LISTED);
        assert!(listed(b"[]").is_none() && listed(br#"{"data":[]}"#).is_some_and(|models| models.is_empty()));
    }

    #[test]
    fn models_in_memory_are_read_from_every_report() {
        use LoadedReport::{ApiPs, Models, Running};

        let bodies = [
            (ApiPs, r#"{"models":[{"name":"llama3.2:latest","model":"llama3.2:latest","size":1,"expires_at":"x"}]}"#),
            (Running, r#"{"running":[{"model":"llama3.2:latest","state":"ready"},{"model":"b","state":"starting"}]}"#),
            (
                Models,
                r#"{"data":[{"id":"llama3.2:latest","status":{"value":"loaded"}},{"id":"b","status":{"value":"unloaded"}}]}"#,
            ),
        ];
        for (report, body) in bodies {
            assert_eq!(in_report(report, body.as_bytes()).unwrap(), [Name::from("llama3.2:latest")]);
            let others = [ApiPs, Running, Models].into_iter().filter(|other| *other != report);
            others.for_each(|other| assert_eq!(in_report(other, body.as_bytes()), None, "{other:?}: {body}"));
        }
        assert_eq!(in_report(Models, br#"{"data":[{"id":"only"}]}"#), None, "a server of one model");
    }
}
