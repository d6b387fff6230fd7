//! Simulated engines behind real HTTP: what is served, and how an engine is started and stopped.
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
use crate::types::Name;

/// Bytes of a request's body at most: a million tokens are about four million.
const MOST_BYTES: usize = 64 << 20;

/// The model of an engine that serves whatever it is asked for.
pub(super) const ANY_MODEL: &str = "*";
/// How long to wait when the system has no connection to give, before asking again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The built-in engines: the name of pool, profile and model, and their number.
const FLEET: [(&str, usize); 3] = [("small", 3), ("large", 2), ("long", 1)];

/// A simulated engine that serves. Dropping it stops it and closes its connections.
pub struct Running {
    /// Where it listens.
    pub addr: SocketAddr,
    /// The name of the model it plays.
    pub model: Name,
    /// The machine it plays.
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
    /// Its base URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Makes every later step take `factor` times as long as the profile says; 1 is its own speed.
    pub fn slow_down(&self, factor: f64) {
        self.engine.slow_down(factor);
    }

    /// Stops it; when this returns, its port is free and its connections are told to close.
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

/// The engines of one pool of the built-in fleet.
#[derive(Debug)]
pub struct Group {
    /// The pool's name, that of its profile too.
    pub pool: &'static str,
    /// Its engines, all of one model.
    pub engines: Vec<Running>,
}

/// Starts an engine that plays `profile` and serves `model_name` at `listener_addr` (port 0: any free one).
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

/// Serves until it is dropped, and with it every connection and the engine.
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
                // Without it tokens would wait for the acknowledgement of the one before. A socket that refuses is served all the same.
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

/// What the handlers share.
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
