//! HTTP server of simulated engines: routes, start and stop.
//!
//! An engine speaks HTTP/1.1 as vLLM does: `POST /v1/chat/completions`, `/v1/completions` and `/v1/embeddings`,
//! `GET /v1/models`, `/health` and `/metrics`. Two request headers replay recorded traffic: `x-sim-prompt-tokens: N` lets
//! each prompt count as N tokens, `x-sim-output-tokens: N` makes an answer N tokens long (`max_tokens` still cuts it).
//! A client that closes its connection cancels its jobs at once, whether they wait, prefill or stream.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, StatusCode, header};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde_json::json;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

use super::{
    answer::{Answer, plan},
    api_request::{ApiRequest, PROMPT_TOKENS, header as count},
    embed::Embed,
    engine_task::EngineTask,
    job::Job,
    problem::Problem,
    profile::Profile,
    prom,
    reply::{Reply, unix_seconds},
};
use signalbox_types::Name;

/// Most bytes of a request body; a million tokens are about four million bytes.
const MOST_BYTES: usize = 64 << 20;

/// Model name of an engine that accepts any model.
pub(super) const ANY_MODEL: &str = "*";
/// Pause before the next accept after a failed one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The built-in engines: name of pool, profile and model, and number of engines.
const FLEET: [(&str, usize); 3] = [("small", 3), ("large", 2), ("long", 1)];

/// A running simulated engine. Dropping it stops it and closes its connections.
pub struct Running {
    /// Address that it listens on.
    pub addr: SocketAddr,
    /// Name of its model.
    pub model: Name,
    /// Its profile.
    pub profile: Profile,
    engine: Arc<EngineTask>,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("addr", &self.addr).field("model", &self.model).finish_non_exhaustive()
    }
}

impl Running {
    /// Base URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Makes every later step take `factor` times as long as the profile says; 1 restores the profile's speed.
    pub fn slow_down(&self, factor: f64) {
        self.engine.slow_down(factor);
    }

    /// Stops the engine. On return its port is free and its connections are closing.
    pub async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Engines of one pool of the built-in fleet.
#[derive(Debug)]
pub struct Group {
    /// Name of the pool and of its profile.
    pub pool: &'static str,
    /// Its engines, all with the same model.
    pub engines: Vec<Running>,
}

/// Starts an engine with `profile` that serves `model_name` at `listener_addr` (port 0: any free port).
pub async fn start(profile: Profile, model_name: &str, listener_addr: SocketAddr) -> io::Result<Running> {
    let listener = TcpListener::bind(listener_addr).await?;
    let addr = listener.local_addr()?;
    let model = Name::from(model_name);
    let engine = Arc::new(EngineTask::new(profile, u64::from(addr.port())));
    let api = EngineApi { engine: Arc::clone(&engine), model: Arc::clone(&model), profile, created: unix_seconds() };
    let task = tokio::spawn(serve(listener, router(api), Arc::clone(&engine)));
    Ok(Running { addr, model, profile, engine, task })
}

/// Starts the built-in engines on free loopback ports: three of `small`, two of `large`, one of `long`.
pub async fn fleet() -> io::Result<Vec<Group>> {
    let mut groups = Vec::with_capacity(FLEET.len());
    for (pool, number) in FLEET {
        let mut engines = Vec::with_capacity(number);
        for _ in 0..number {
            let profile = Profile::named(pool).unwrap_or_default();
            engines.push(start(profile, pool, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?);
        }
        groups.push(Group { pool, engines });
    }
    Ok(groups)
}

/// Serves until dropped, which ends every connection and the engine.
async fn serve(listener: TcpListener, router: Router, engine: Arc<EngineTask>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { engine.run().await });
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                // Without it, tokens wait for the acknowledgement of the previous one. A failure only makes it slower.
                let _ = stream.set_nodelay(true);
                let service = TowerToHyperService::new(router.clone());
                tasks.spawn(async move {
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// State of the handlers.
struct EngineApi {
    engine: Arc<EngineTask>,
    model: Name,
    profile: Profile,
    created: u64,
}

type Shared = State<Arc<EngineApi>>;

fn router(api: EngineApi) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/embeddings", post(embeddings))
        .route("/v1/models", get(models))
        .route("/health", get(StatusCode::OK))
        .route("/metrics", get(metrics))
        .fallback(async || Problem::Path)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(Arc::new(api))
}

async fn chat(State(api): Shared, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    api.reply(ApiRequest::chat(&body, &headers)?).await
}

async fn completion(State(api): Shared, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    api.reply(ApiRequest::completion(&body, &headers)?).await
}

async fn embeddings(State(api): Shared, headers: HeaderMap, body: Bytes) -> Result<Response, Problem> {
    let embed = Embed::read(&body, count(&headers, PROMPT_TOKENS)?)?;
    api.serves(&embed.model)?;
    let jobs = embed.inputs.iter().map(|(_, tokens)| Job { prompt_tokens: *tokens, ..Job::default() });
    let handle = api.engine.submit(jobs.collect());
    let mut handle = handle.map_err(|refusal| Problem::refused(refusal, "input"))?;
    while handle.next().await.is_some() {}
    Ok(Json(embed.answer()).into_response())
}

async fn models(State(api): Shared) -> Response {
    let model = json!({
        "id": &*api.model,
        "object": "model",
        "created": api.created,
        "owned_by": "signalbox-simulated",
        "root": &*api.model,
        "parent": null,
        "max_model_len": api.profile.longest(),
    });
    Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn metrics(State(api): Shared) -> Response {
    let (gauges, meters) = api.engine.report();
    let page = prom::page(&api.model, &api.profile, &gauges, &meters);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
}

impl EngineApi {
    async fn reply(&self, ask: ApiRequest) -> Result<Response, Problem> {
        self.serves(&ask.model)?;
        let (answers, jobs): (Vec<Answer>, Vec<Job>) = plan(&ask, &self.profile)?.into_iter().unzip();
        let handle = self.engine.submit(jobs).map_err(|refusal| Problem::refused(refusal, "prompt"))?;
        let stream = ask.stream;
        let reply = Reply::new(ask, answers, handle);
        if !stream {
            return Ok(Json(reply.whole().await?).into_response());
        }
        let head = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
        Ok((head, Body::from_stream(reply.stream())).into_response())
    }

    fn serves(&self, model: &str) -> Result<(), Problem> {
        if *model == *self.model || *self.model == *ANY_MODEL {
            return Ok(());
        }
        Err(Problem::Model { asked: model.to_owned(), served: self.model.to_string() })
    }
}
