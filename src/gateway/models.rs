//! `GET /v1/models` and `/v1/models/{id}`: the models that the caller may use.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    routing::get,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;

use super::{Live, Reply, auth, reply, route, serving::Serving};
use crate::{policy::Key, types::Fault};

/// List of models, as a router to merge into the API.
pub struct Models;

impl Models {
    /// Builds the router. It lists the models of the live policy.
    pub fn router(live: Arc<Live>) -> Router {
        Router::new()
            .route("/v1/models", get(list))
            .route("/v1/models/{*id}", get(one))
            .method_not_allowed_fallback(wrong_method)
            .with_state(live)
    }
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

async fn list(State(live): State<Arc<Live>>, headers: HeaderMap) -> Reply {
    answer(&live, &headers, |serving, key| {
        let names = serving.snapshot.policy.models.names();
        let names = names.filter(|name| key.is_none_or(|key| key.may_use(name)));
        let data = names.map(|name| model(serving, name)).collect();
        Ok(json(&List { object: "list", data }))
    })
}

async fn one(State(live): State<Arc<Live>>, Path(id): Path<String>, headers: HeaderMap) -> Reply {
    answer(&live, &headers, |serving, key| {
        let policy = &serving.snapshot.policy;
        if let Some(key) = key.filter(|key| !key.may_use(&id)) {
            return Err(route::refused(key, &id));
        }
        match policy.models.get(&id) {
            Some(_) => Ok(json(&model(serving, &id))),
            None => Err(route::unknown(policy, &id)),
        }
    })
}

async fn wrong_method(method: Method, headers: HeaderMap) -> Reply {
    let fault = reply::bad_method(format!("models are listed by GET, not {method}"));
    reply::reply_to(None, &reply::request_id(&headers), &fault)
}

fn answer(
    live: &Live,
    headers: &HeaderMap,
    make: impl FnOnce(&Serving, Option<&Key>) -> Result<Vec<u8>, Fault>,
) -> Reply {
    let serving = live.load();
    let id = reply::request_id(headers);
    let keys = &serving.snapshot.policy.keys;
    let answered = auth::check(&serving, headers).and_then(|key| make(&serving, key.map(|at| &keys[at])));
    let body = match answered {
        Ok(body) => body,
        Err(fault) => return reply::reply_to(None, &id, &fault),
    };
    let mut reply = Reply::new(Body::from(body));
    *reply.status_mut() = StatusCode::OK;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply::put_id(reply.headers_mut(), &id);
    reply
}

fn model<'a>(serving: &Serving, id: &'a str) -> Model<'a> {
    let owned_by = if serving.snapshot.policy.simulated { "signalbox-simulated" } else { "signalbox" };
    Model { id, object: "model", created: 0, owned_by }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Serializing strings into memory cannot fail. An empty object would still be an answer.
    serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec())
}
