//! `POST /admin/explain`: the handling of a request by the policy in force, or by one that is pasted. Nothing is sent, counted or learned, and
//! nothing that a pasted policy names is read.

use std::{collections::BTreeMap, io, sync::Arc};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State as Extract},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::sync::Semaphore;

use super::{Control, cache_verdict::may_reuse, json_body::JsonBody, keys::refuse};
use signalbox_config::{Config, Problems};
use signalbox_fleet::{Registry, Snapshot};
use signalbox_gateway::{Explanation, Parts, Serving, explain as explained};
use signalbox_policy::{AddressSource, FoundAddress, Policy, Tokenizer, compile};
use signalbox_prompt::tokens::TokenizerSlot;
use signalbox_types::{Clock, Endpoint, Usage};

/// Largest body, in bytes.
const LARGEST: usize = 1 << 20;
/// Content of key files of a pasted policy, which are not read.
const UNREAD: &str = "not-read";
/// Explanations at a time, since each may build a whole gateway.
static TURN: Semaphore = Semaphore::const_new(1);

/// A request to explain.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExplainRequest {
    /// Endpoint: `chat` (the default), `messages`, `responses`, …
    api: Option<String>,
    /// The request's body.
    request: Box<RawValue>,
    /// The text of a policy, in place of the one in force.
    policy: Option<String>,
    /// Id of the caller's key. Default: the policy's first key.
    key: Option<String>,
    /// Headers of the request.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// Routes of the admin listener.
pub(super) fn routes(control: Arc<Control>) -> Router {
    Router::new().route("/admin/explain", post(explain)).layer(DefaultBodyLimit::max(LARGEST)).with_state(control)
}

async fn explain(Extract(control): Extract<Arc<Control>>, JsonBody(asked): JsonBody<ExplainRequest>) -> Response {
    let turn = TURN.acquire().await;
    // Counts tokens, and may compile a policy. The turn ends with the work, also if the client leaves before.
    let made = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        answer(&control, asked)
    });
    made.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

fn answer(control: &Control, asked: ExplainRequest) -> Response {
    let bad = |message: &str| refuse(StatusCode::BAD_REQUEST, message);
    let ExplainRequest { api, request, policy, key, headers } = asked;
    let Some(endpoint) = api.as_deref().map_or(Some(Endpoint::Chat), Endpoint::of_name) else {
        return bad(&format!("'api' is one of {}", Endpoint::ALL.map(Endpoint::name).join(", ")));
    };
    let header = |(name, value): (String, String)| -> Option<(HeaderName, HeaderValue)> {
        Some((name.parse().ok()?, value.parse().ok()?))
    };
    let Some(headers) = headers.into_iter().map(header).collect::<Option<HeaderMap>>() else {
        return bad("'headers' has a name or a value that is none of a header");
    };
    let pasted = match policy.as_deref().map(pasted).transpose() {
        Ok(pasted) => pasted,
        Err(problems) => return refused(&problems),
    };
    let stand_in = pasted.map(|policy| {
        let parts = Arc::new(Parts::new(Clock::start()));
        let serving = parts.serving(Snapshot::new(policy, &Registry::default()), tokenizer);
        (parts, Arc::new(serving))
    });
    let (parts, serving) = stand_in.unwrap_or_else(|| (control.app.parts.clone(), control.app.live.load()));
    let keys = &serving.snapshot.policy.keys;
    let key = match &key {
        None => (!keys.is_empty()).then_some(0),
        Some(id) => match keys.iter().position(|key| *key.id == **id) {
            Some(at) => Some(at),
            None => return bad(&format!("this policy has no key '{id}'")),
        },
    };
    let body = Bytes::from(request.get().to_owned());
    match explained(&parts, &serving, endpoint, &headers, key, body.clone()) {
        Ok(explanation) => {
            let mut value = json!(explanation);
            value["expected_cost_usd"] = json!(cost(&explanation, &serving));
            value["cache"] = json!(may_reuse(&serving, endpoint, body));
            Json(value).into_response()
        }
        Err(fault) => {
            let (status, code) = (fault.status.as_u16(), &fault.code);
            let message = format!("the gateway would answer {status}: {}", fault.message);
            let body = json!({ "error": { "message": message, "status": status, "code": code } });
            (StatusCode::BAD_REQUEST, Json(body)).into_response()
        }
    }
}

/// The policy in `text`, of which neither files nor variables are read: addresses that are looked up later have stand-ins.
fn pasted(text: &str) -> Result<Policy, Problems> {
    let key_file = |_: &std::path::Path| -> io::Result<String> { Ok(UNREAD.to_owned()) };
    let config = Config::parse("policy", text, &|_| None, &key_file)?.allowing_unset();
    Ok(compile(&config)?.with_stand_ins(|from| match from {
        AddressSource::File(_) => Vec::new(),
        AddressSource::Dns(dns) => vec![FoundAddress::at(dns.name.trim_end_matches('.').to_owned())],
    }))
}

fn tokenizer(tokenizer: &Tokenizer) -> Arc<TokenizerSlot> {
    Arc::new(match tokenizer {
        Tokenizer::OpenAi(encoding) => TokenizerSlot::open_ai(*encoding),
        Tokenizer::File(_) | Tokenizer::Learned | Tokenizer::Hub(_) => TokenizerSlot::learned(),
    })
}

/// The expected cost of an answer of the first pool, in US dollars.
fn cost(explanation: &Explanation, serving: &Serving) -> Option<f64> {
    let attempt = explanation.pools.first()?;
    let pool = serving.snapshot.pools.iter().find(|pool| pool.spec.name == attempt.pool)?;
    let predicted = &attempt.predicted;
    Some(pool.spec.price?.cost(&Usage {
        prompt_tokens: predicted.prompt_tokens,
        cached_tokens: Some(predicted.cached_tokens),
        completion_tokens: predicted.output_tokens,
        ..Usage::default()
    }))
}

fn refused(problems: &Problems) -> Response {
    let list = problems.iter().map(|(line, column, problem)| {
        json!({ "line": line, "column": column, "message": problem.message, "help": problem.help })
    });
    let list: Vec<_> = list.collect();
    let first =
        problems.iter().next().map(|(line, _, problem)| format!(", the first in line {line}: {}", problem.message));
    let message = format!("the pasted policy has {} problems{}", list.len(), first.unwrap_or_default());
    (StatusCode::BAD_REQUEST, Json(json!({ "error": { "message": message }, "problems": list }))).into_response()
}
