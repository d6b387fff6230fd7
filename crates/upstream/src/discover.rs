//! Local discovery: engines on the usual ports of this machine, found by requesting their models.

use std::time::Duration;

use futures_util::future::join_all;

use super::{Client, scrape::ModelList};
use signalbox_policy::Found;

/// Default ports of common engine servers.
const DEFAULT_PORTS: [(&str, u16); 6] =
    [("vllm", 8000), ("sglang", 30000), ("llamacpp", 8080), ("ollama", 11434), ("lmstudio", 1234), ("tgi", 3000)];
/// Timeout for a local server to list its models.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Largest list, in bytes.
const MAX_LIST_BYTES: usize = 1 << 20;

/// Engines that answer on this machine, in the order of the ports above. `own` are this process's own listening ports.
pub async fn local(client: &Client, own: &[u16]) -> Vec<Found> {
    let others = DEFAULT_PORTS.iter().filter(|(_, port)| !own.contains(port));
    join_all(others.map(|&(name, port)| ask(client, name, port))).await.into_iter().flatten().collect()
}

async fn ask(client: &Client, name: &str, port: u16) -> Option<Found> {
    let url = format!("http://127.0.0.1:{port}/v1");
    let page = client.fetch(&format!("{url}/models"), None, TIMEOUT, MAX_LIST_BYTES).await.ok()?;
    // Another Signalbox gateway is not an engine.
    if page.headers.contains_key("x-signalbox-id") {
        return None;
    }
    let models: Vec<String> =
        serde_json::from_slice::<ModelList>(&page.body).ok()?.data.into_iter().map(|model| model.id).collect();
    (!models.is_empty()).then(|| Found { name: name.to_owned(), url, models })
}
