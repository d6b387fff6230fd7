//! Local discovery: engines on the usual ports of this machine, found by requesting their models.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Client, EngineAccess};
use signalbox_engines::{PROFILES, model_list};
use signalbox_policy::Found;

/// Timeout for a local server to list its models.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Largest list, in bytes.
const MAX_LIST_BYTES: usize = 1 << 20;

/// Engines that answer on the default ports of the profiles, in their order. `own` are this process's own listening ports.
pub async fn local(client: &Client, own: &[u16]) -> Vec<Found> {
    let ports = PROFILES.iter().filter_map(|profile| Some((profile.short_name(), profile.port?)));
    let others = ports.filter(|(_, port)| !own.contains(port));
    join_all(others.map(|(name, port)| ask(client, name, port))).await.into_iter().flatten().collect()
}

async fn ask(client: &Client, name: String, port: u16) -> Option<Found> {
    let url = format!("http://127.0.0.1:{port}/v1");
    let page = client.fetch(&format!("{url}/models"), &EngineAccess::default(), TIMEOUT, MAX_LIST_BYTES).await.ok()?;
    // Another Signalbox gateway is not an engine.
    if page.headers.contains_key("x-signalbox-id") {
        return None;
    }
    let models: Vec<String> = model_list(&page.body)?.into_iter().map(|model| model.id).collect();
    (!models.is_empty()).then_some(Found { name, url, models })
}
