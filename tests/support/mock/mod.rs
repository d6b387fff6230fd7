//! A mock engine over loopback HTTP/1.1 that carries out a [`Plan`] exactly, faults included, and records the requests.
//!
//! ```ignore
//! let mock = Mock::start(|seen| match seen.model() {
//!     "slow" => Plan::stream().events(chat_events(["Hel"])).gate(1).events(chat_events(["lo"])).done(),
//!     _ => Plan::error(503, "overloaded"),
//! }).await;
//! mock.open(1);                                   // lets every plan past its gate 1
//! let left = mock.gone().await;                   // the request whose client left before the end
//! ```

mod answers;
mod connection;
mod plan;
mod polite;
mod request;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

pub use self::{
    answers::{chat_chunk, chat_events, completion_events, models_list, tool_events, usage_event},
    plan::Plan,
    polite::polite,
    request::{Fate, Seen},
};
use super::within;

type Decide = dyn Fn(&Seen) -> Plan + Send + Sync;

/// A running mock engine, stopped on drop.
pub struct Mock {
    addr: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// Paths that a mock serves by default.
const APIS: [&str; 3] = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"];

/// Decides on a probe; `None` leaves it to the mock.
type Probe = Arc<dyn Fn(&Seen) -> Option<Plan> + Send + Sync>;

/// State shared by the connections of a mock.
struct Shared {
    decide: Box<Decide>,
    state: watch::Sender<State>,
}

/// Recorded requests, and settings that can change while it runs.
#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    probes: Vec<Seen>,
    connections: usize,
    /// Number of connections to close as soon as they are accepted.
    drops: usize,
    gates: BTreeSet<usize>,
    /// Departed clients already returned by [`Mock::gone`].
    departures: usize,
    models: Vec<String>,
    /// Paths that it says to serve when it is probed for them.
    apis: Vec<String>,
    health: u16,
    metrics: String,
    probe: Option<Probe>,
}

impl State {
    fn gone(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|seen| seen.fate == Fate::ClientGone)
    }

    fn open(&self) -> usize {
        self.seen.iter().filter(|seen| seen.fate == Fate::Open).count()
    }
}

impl Mock {
    /// Starts a mock on a free port; `decide` returns the plan of each request that is not a probe.
    ///
    /// By default `GET` of a path ending in `/models`, `/health` or `/metrics` is answered by the mock itself.
    pub async fn start(decide: impl Fn(&Seen) -> Plan + Send + Sync + 'static) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), decide).await
    }

    /// Starts a mock at a given address, for an engine that comes back.
    pub async fn start_at(addr: SocketAddr, decide: impl Fn(&Seen) -> Plan + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(addr).await.expect("the mock binds to loopback");
        let addr = listener.local_addr().expect("a bound socket has an address");
        let state = State {
            health: 200,
            models: vec!["mock".to_owned()],
            apis: APIS.map(str::to_owned).into(),
            ..State::default()
        };
        let shared = Arc::new(Shared { decide: Box::new(decide), state: watch::Sender::new(state) });
        let accepting = tokio::spawn(connection::accept(listener, Arc::clone(&shared)));
        Self { addr, shared, accepting }
    }

    /// Starts a mock that answers with `plans` in turn; a request beyond the last gets a 500 that says so.
    pub async fn script(plans: impl IntoIterator<Item = Plan>) -> Self {
        let plans = Mutex::new(plans.into_iter().collect::<std::collections::VecDeque<_>>());
        Self::start(move |_| {
            let next = plans.lock().expect("the script's lock").pop_front();
            next.unwrap_or_else(|| Plan::error(500, "the mock's script has ended"))
        })
        .await
    }

    /// Listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Base address for a policy: `http://127.0.0.1:PORT/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// Stops listening and cuts every connection; the address can be bound again by [`start_at`](Self::start_at).
    pub async fn stop(mut self) -> SocketAddr {
        self.accepting.abort();
        (&mut self.accepting).await.ok();
        self.addr
    }

    /// Planned requests so far, in order of arrival.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state.borrow().seen.clone()
    }

    /// Requests answered by the mock itself so far: models, health, metrics.
    pub fn probes(&self) -> Vec<Seen> {
        self.shared.state.borrow().probes.clone()
    }

    /// Number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.state.borrow().connections
    }

    /// Number of planned requests under way.
    pub fn under_way(&self) -> usize {
        self.shared.state.borrow().open()
    }

    /// Waits for `count` planned requests and returns them.
    pub async fn wait_seen(&self, count: usize) -> Vec<Seen> {
        self.wait(&format!("{count} requests at the mock"), |state| state.seen.len() >= count).await;
        self.seen()
    }

    /// Waits for a planned request that satisfies `wanted`.
    pub async fn wait_for(&self, what: &str, wanted: impl Fn(&Seen) -> bool) {
        self.wait(what, |state| state.seen.iter().any(&wanted)).await;
    }

    /// Waits for `count` probes and returns them.
    pub async fn wait_probes(&self, count: usize) -> Vec<Seen> {
        self.wait(&format!("{count} probes at the mock"), |state| state.probes.len() >= count).await;
        self.probes()
    }

    /// Waits until exactly `count` planned requests are under way.
    pub async fn wait_under_way(&self, count: usize) {
        self.wait(&format!("{count} requests under way at the mock"), |state| state.open() == count).await;
    }

    /// Waits for the next request whose client left before the answer was complete; each is returned once.
    pub async fn gone(&self) -> Seen {
        self.wait("a client to leave the mock", |state| state.gone().count() > state.departures).await;
        let mut next = None;
        self.shared.state.send_modify(|state| {
            next = state.gone().nth(state.departures).cloned();
            state.departures += 1;
        });
        next.expect("one more client has left")
    }

    /// Opens gate `number` for waiting and future plans.
    pub fn open(&self, number: usize) {
        self.shared.state.send_modify(|state| {
            state.gates.insert(number);
        });
    }

    /// Closes gate `number` for future plans.
    pub fn shut(&self, number: usize) {
        self.shared.state.send_modify(|state| {
            state.gates.remove(&number);
        });
    }

    /// Closes the next `count` connections as soon as they are accepted, before anything is read.
    pub fn drop_connections(&self, count: usize) {
        self.shared.state.send_modify(|state| state.drops = count);
    }

    /// Sets the models that `GET /v1/models` lists.
    pub fn set_models<I: IntoIterator<Item: Into<String>>>(&self, names: I) {
        let names = names.into_iter().map(Into::into).collect();
        self.shared.state.send_modify(|state| state.models = names);
    }

    /// Sets the paths that it says to serve when it is probed for them (`POST` with an empty array).
    pub fn set_apis<I: IntoIterator<Item: Into<String>>>(&self, paths: I) {
        let paths = paths.into_iter().map(Into::into).collect();
        self.shared.state.send_modify(|state| state.apis = paths);
    }

    /// Sets the status of `GET /health`.
    pub fn set_health(&self, status: u16) {
        self.shared.state.send_modify(|state| state.health = status);
    }

    /// Answers probes by `decide`, and by the mock's defaults where that returns `None`.
    pub fn on_probe(&self, decide: impl Fn(&Seen) -> Option<Plan> + Send + Sync + 'static) {
        self.shared.state.send_modify(|state| state.probe = Some(Arc::new(decide)));
    }

    /// Sets the text of `GET /metrics`; while it is empty the answer is 404.
    pub fn set_metrics(&self, text: impl Into<String>) {
        self.shared.state.send_modify(|state| state.metrics = text.into());
    }

    /// Sets `GET /metrics` to the gauges of a vLLM server in the given state.
    pub fn set_vllm(&self, running: u32, waiting: u32, kv_usage: f64) {
        self.set_metrics(answers::vllm_metrics(running, waiting, kv_usage));
    }

    async fn wait(&self, what: &str, ready: impl FnMut(&State) -> bool) {
        let mut changes = self.shared.state.subscribe();
        within(what, changes.wait_for(ready)).await.expect("the mock lives as long as its state");
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
