//! A load of streaming requests that notes each failure.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{
    client::{self, http},
    until,
};

/// Callers that send one request after the other, until one fails.
pub(crate) struct Load {
    state: Arc<State>,
    callers: JoinSet<()>,
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    complete: AtomicUsize,
    failures: Mutex<Vec<Failure>>,
}

/// A request that got no complete answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) at: SocketAddr,
    pub(crate) why: String,
}

impl Load {
    /// Starts this many callers with this key. Caller `n` sends to address `n`, modulo their number.
    pub(crate) fn start(callers: usize, targets: &[SocketAddr], key: &str) -> Self {
        let state = Arc::new(State::default());
        let mut tasks = JoinSet::new();
        for number in 0..callers {
            let (state, at, key) = (state.clone(), targets[number % targets.len()], key.to_owned());
            tasks.spawn(async move {
                // One client keeps its connection from request to request.
                let client = http();
                let mut sent = 0;
                while !state.stop.load(Relaxed) {
                    sent += 1;
                    match send(&client, at, &key, &format!("caller {number}, request {sent}")).await {
                        Ok(()) => drop(state.complete.fetch_add(1, Relaxed)),
                        Err(why) => return state.failures.lock().push(Failure { at, why }),
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        Self { state, callers: tasks }
    }

    /// Waits until this many more answers are complete.
    pub(crate) async fn wait(&self, more: usize) {
        let wanted = self.state.complete.load(Relaxed) + more;
        until("more answers", async || self.state.complete.load(Relaxed) >= wanted).await;
    }

    /// Ends it after the requests under way; returns the number of complete answers, and the failures.
    pub(crate) async fn end(self) -> (usize, Vec<Failure>) {
        self.state.stop.store(true, Relaxed);
        self.callers.join_all().await;
        let failures = std::mem::take(&mut *self.state.failures.lock());
        (self.state.complete.load(Relaxed), failures)
    }
}

async fn send(client: &reqwest::Client, at: SocketAddr, key: &str, text: &str) -> Result<(), String> {
    let body = json!({ "model": "auto", "stream": true, "messages": [{ "role": "user", "content": text }] });
    let request = client::json(client.post(format!("http://{at}/v1/chat/completions")), &body).bearer_auth(key);
    let response = request.send().await.map_err(|error| format!("no answer: {error:?}"))?;
    let status = response.status();
    let text = response.text().await.map_err(|error| format!("a broken answer: {error:?}"))?;
    let is_complete = status == 200 && text.trim_end().ends_with("data: [DONE]");
    if is_complete { Ok(()) } else { Err(format!("{status}: {text}")) }
}

/// A pool of these engines behind the model `auto`.
pub(crate) fn pool<'a>(urls: impl IntoIterator<Item = &'a str>) -> String {
    let urls = Value::from(urls.into_iter().collect::<Vec<_>>());
    format!("pools: {{ main: {{ model: m, backends: {urls} }} }}\nmodels: {{ auto: {{ to: main }} }}\n")
}
