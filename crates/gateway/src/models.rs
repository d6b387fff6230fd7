//! `GET /v1/models` and `/v1/models/{id}`: the models that the caller may use, in OpenAI's form or in Anthropic's.

use std::{collections::HashSet, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    routing::get,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Serialize;

use super::{Live, Reply, auth, reply, route, serving::Serving};
use signalbox_policy::{Key, Model, ModelGlob, Target};
use signalbox_types::{Endpoint, Fault, Name};

/// Spellings of the list's path, from base URLs with too little or too much in them.
const PATHS: [&str; 6] =
    ["/v1/models", "/models", "/v1/v1/models", "//v1/models", "/v1//models", "/anthropic/v1/models"];
/// The most names that patterns add to the list.
const MAX_RESOLVED: usize = 4096;

/// List of models, as a router to merge into the API.
pub struct Models;

impl Models {
    /// Builds the router. It lists the models of the live policy.
    pub fn router(live: Arc<Live>) -> Router {
        let mut router = Router::new();
        for path in PATHS {
            router = router
                .route(path, get(list))
                .route(&format!("{path}/"), get(list))
                .route(&format!("{path}/{{*id}}"), get(one));
        }
        router.method_not_allowed_fallback(wrong_method).with_state(live)
    }
}

/// OpenAI's list.
#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<OpenAiModel<'a>>,
}

/// A model in OpenAI's form, with what clients read of other servers.
#[derive(Serialize)]
struct OpenAiModel<'a> {
    id: &'a str,
    object: &'static str,
    /// Seconds since 1970.
    created: i64,
    owned_by: &'static str,
    /// As hosted providers name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<u64>,
    /// As vLLM names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_model_len: Option<u64>,
    /// Names of the endpoints at which it can be requested.
    endpoints: Vec<&'static str>,
}

/// Anthropic's list. It has one page.
#[derive(Serialize)]
struct AnthropicList<'a> {
    data: Vec<AnthropicModel<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

/// A model in Anthropic's form.
#[derive(Serialize)]
struct AnthropicModel<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_length: Option<u64>,
    endpoints: Vec<&'static str>,
}

async fn list(State(live): State<Arc<Live>>, headers: HeaderMap) -> Reply {
    answer(&live, &headers, |serving, key| {
        let names = names(serving, key);
        let models = names.iter().filter_map(|name| Some((&**name, serving.snapshot.policy.models.get(name)?)));
        Ok(if is_anthropic(&headers) {
            let data: Vec<_> = models.map(|(id, model)| anthropic(serving, id, model)).collect();
            let (first_id, last_id) = (data.first().map(|it| it.id), data.last().map(|it| it.id));
            json(&AnthropicList { data, has_more: false, first_id, last_id })
        } else {
            json(&List { object: "list", data: models.map(|(id, model)| openai(serving, id, model)).collect() })
        })
    })
}

async fn one(State(live): State<Arc<Live>>, Path(id): Path<String>, headers: HeaderMap) -> Reply {
    answer(&live, &headers, |serving, key| {
        let policy = &serving.snapshot.policy;
        if let Some(key) = key.filter(|key| !key.may_use(&id)) {
            return Err(route::refused(key, &id));
        }
        match policy.models.get(&id) {
            Some(model) if is_anthropic(&headers) => Ok(json(&anthropic(serving, &id, model))),
            Some(model) => Ok(json(&openai(serving, &id, model))),
            None => Err(route::unknown(&serving.snapshot, &id)),
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
        Err(fault) => return reply::reply_to(is_anthropic(headers).then_some(Endpoint::Messages), &id, &fault),
    };
    let mut reply = Reply::new(Body::from(body));
    *reply.status_mut() = StatusCode::OK;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply::put_id(reply.headers_mut(), &id);
    reply
}

/// True for clients of Anthropic's API, which must send the header.
fn is_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

/// The names that the caller may use: those of the policy, then those that its patterns are known to stand for.
fn names(serving: &Serving, key: Option<&Key>) -> Vec<Name> {
    let table = &serving.snapshot.policy.models;
    let mut names: Vec<Name> = table.names().cloned().collect();
    let mut seen: HashSet<Name> = names.iter().cloned().collect();
    for (glob, model) in table.patterns() {
        for name in resolved(serving, glob, model).take(MAX_RESOLVED) {
            // A more precise pattern may lead elsewhere.
            if table.get(&name).is_some_and(|of| Arc::ptr_eq(of, model)) && seen.insert(name.clone()) {
                names.push(name);
            }
        }
    }
    names.truncate(table.names().count() + MAX_RESOLVED);
    names.retain(|name| key.is_none_or(|key| key.may_use(name)));
    names
}

/// Names of the pattern `glob` for models that the engines behind its pools list, where backends pass the requested name on.
fn resolved<'a>(serving: &'a Serving, glob: &'a ModelGlob, model: &'a Model) -> impl Iterator<Item = Name> + 'a {
    let backends = targets(model).flat_map(|target| {
        let pool = &serving.snapshot.pools[target.pool];
        pool.members(target).map(|at| &pool.backends[at])
    });
    let backends = backends.filter(|backend| backend.spec.model.is_none());
    let names = backends.flat_map(|backend| {
        let known = backend.engine.models.known().unwrap_or_default();
        let stripped = backend.spec.strip.as_deref().unwrap_or_default();
        known.iter().map(|listed| format!("{stripped}{}", listed.id)).collect::<Vec<_>>()
    });
    names.filter(move |name| glob.matches(name)).map(Name::from)
}

/// Every target that its requests may reach.
fn targets(model: &Model) -> impl Iterator<Item = &Target> {
    model.routes().flat_map(|route| &route.targets)
}

/// The largest context that its pools state or report.
fn context(serving: &Serving, model: &Model) -> Option<u64> {
    targets(model).filter_map(|target| serving.snapshot.pools[target.pool].context(target)).max()
}

/// Names of the endpoints at which it can be requested.
fn endpoints(serving: &Serving, model: &Model) -> Vec<&'static str> {
    let serves = |endpoint| targets(model).any(|target| serving.serves(target.pool, endpoint));
    Endpoint::ALL.into_iter().filter(|endpoint| serves(*endpoint)).map(Endpoint::name).collect()
}

fn openai<'a>(serving: &Serving, id: &'a str, model: &Model) -> OpenAiModel<'a> {
    let owned_by = if serving.snapshot.policy.simulated { "signalbox-simulated" } else { "signalbox" };
    let context = context(serving, model);
    OpenAiModel {
        id,
        object: "model",
        created: serving.loaded,
        owned_by,
        context_length: context,
        max_model_len: context,
        endpoints: endpoints(serving, model),
    }
}

fn anthropic<'a>(serving: &Serving, id: &'a str, model: &Model) -> AnthropicModel<'a> {
    AnthropicModel {
        kind: "model",
        id,
        display_name: id,
        created_at: jiff::Timestamp::from_second(serving.loaded).unwrap_or_default().to_string(),
        context_length: context(serving, model),
        endpoints: endpoints(serving, model),
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Serializing strings into memory cannot fail. An empty object would still be an answer.
    serde_json::to_vec(value).unwrap_or_else(|_| b"{}".to_vec())
}
