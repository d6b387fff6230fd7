//! Access checks of both listeners: operators' credentials, host names (DNS rebinding) and origins of web pages (CSRF, CORS).

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use serde_json::json;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer, ExposeHeaders};

use super::{
    Control,
    audit::{Action, Refused},
    history::{Event, Kind},
    origin::{Names, is_local, is_same_origin, origin},
};
use signalbox_gateway::{Live, reply_to};
use signalbox_policy::{AdminAccess, Policy, Secret};
use signalbox_types::Fault;

/// Time for which browsers may cache a CORS preflight.
const REMEMBERED: Duration = Duration::from_mins(10);
/// Challenges of a 401 on the admin listener. Browsers prompt for a password and send it as HTTP Basic.
const CHALLENGES: [&str; 2] = ["Basic realm=\"signalbox\", charset=\"UTF-8\"", "Bearer realm=\"signalbox\""];

/// Middleware of the admin listener at `listen`. Health and readiness probes need neither a known host name nor a credential.
pub(super) async fn operators(control: Arc<Control>, listen: SocketAddr, request: Request, next: Next) -> Response {
    if is_probe(&request) {
        return next.run(request).await;
    }
    if request.uri().path().starts_with("/v1/") {
        let message = "this listener is for operators: the API for clients is at the address 'listen' of the policy";
        return refusal(StatusCode::NOT_FOUND, message);
    }
    let access = control.app.admin_access.load_full();
    match refused(&access, listen, &request) {
        Some(refusal) => {
            control.audit.note_refused(&Refused::of(&request), refusal.status());
            refusal
        }
        None => match Action::of(&request, &access) {
            None => next.run(request).await,
            Some(action) => {
                let answer = next.run(request).await;
                if let Some(words) = control.audit.note(action, &answer) {
                    control.history.note(Event::new(Kind::Action, words));
                }
                answer
            }
        },
    }
}

fn refused(access: &AdminAccess, listen: SocketAddr, request: &Request) -> Option<Response> {
    let names = Names { listen, hosts: &access.hosts };
    if names.foreign(request).is_some() {
        let message = "this listener does not answer to that name: ask for it by its address or as 'localhost', or add \
                       the name to 'admin.hosts' in the policy";
        return Some(refusal(StatusCode::FORBIDDEN, message));
    }
    let headers = request.headers();
    let reads = access.read_token.as_ref().filter(|_| is_reading(request));
    if access.token.as_ref().is_some_and(|token| !carries(headers, token))
        && !reads.is_some_and(|token| carries(headers, token))
    {
        let message = "operators need their token: 'Authorization: Bearer …', or HTTP Basic with any name and the token as password \
                       (--token or SIGNALBOX_ADMIN_TOKEN for signalbox's own commands)";
        let mut refusal = refusal(StatusCode::UNAUTHORIZED, message);
        for challenge in CHALLENGES {
            refusal.headers_mut().append(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        return Some(refusal);
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    // Refuse cross-site writes: browsers attach remembered passwords to requests of any page.
    let fetched = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_foreign = origin(headers).is_some() && !is_same_origin(headers)
        || fetched.is_some_and(|site| !matches!(site, b"same-origin" | b"none"));
    if is_foreign {
        return Some(refusal(StatusCode::FORBIDDEN, "requests from another site are not accepted"));
    }
    is_form(headers).then(|| {
        refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "forms are not accepted: send a POST without a body, or with JSON")
    })
}

fn is_probe(request: &Request) -> bool {
    matches!(request.uri().path(), "/health" | "/readyz")
}

/// True for what the token of monitoring may read.
fn is_reading(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
        && matches!(request.uri().path(), "/metrics" | "/admin/state" | "/admin/history")
}

/// True if the content type is one that a page may send cross-site without a preflight.
fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    matches!(&*kind, "application/x-www-form-urlencoded" | "multipart/form-data" | "text/plain")
}

/// True if a request carries `token`, as a bearer token or as a Basic password.
fn carries(headers: &HeaderMap, token: &Secret) -> bool {
    let Some((scheme, sent)) =
        headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '))
    else {
        return false;
    };
    let sent = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => sent.trim().as_bytes().to_vec(),
        "basic" => {
            let Ok(pair) = STANDARD.decode(sent.trim()) else { return false };
            let Some(colon) = pair.iter().position(|byte| *byte == b':') else { return false };
            pair[colon + 1..].to_vec()
        }
        _ => return false,
    };
    // Comparing blake3 hashes takes constant time.
    blake3::hash(&sent) == blake3::hash(token.expose().as_bytes())
}

fn refusal(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": { "message": message } }))).into_response()
}

/// Answer to a request that the API listener refuses: one that passed this gateway already, a foreign host name, or a
/// page of another site if the API is open to every client that can connect (on a loopback address that is every page in
/// the machine's browser).
pub(super) fn refusal_of_client(control: &Control, policy: &Policy, request: &Request) -> Option<Response> {
    let fault = foreign(policy, request).or_else(|| looping(control, request.headers()))?;
    Some(reply_to(None, "", &fault))
}

fn foreign(policy: &Policy, request: &Request) -> Option<Fault> {
    let is_open = !policy.asks_keys() && policy.listen.ip().is_loopback();
    let names = Names { listen: policy.listen, hosts: policy.hosts.as_deref().unwrap_or_default() };
    // With keys a rebound name gains nothing, and load balancers use names that the policy does not list.
    if (is_open || policy.hosts.is_some()) && !is_probe(request) && names.foreign(request).is_some() {
        let message = "this gateway does not answer to that name: ask for it by its address or as 'localhost', or add the name to 'hosts' \
                       in the policy";
        return Some(Fault::client(StatusCode::FORBIDDEN, "foreign_host", message).with_code("foreign_host"));
    }
    let site = origin(request.headers()).filter(|_| is_open)?;
    let is_own = site.split_once("://").is_some_and(|(_, host)| is_local(host)) || is_same_origin(request.headers());
    if is_own || policy.origins.iter().any(|named| **named == *site) {
        return None;
    }
    let message = "a page of another site may not use this gateway, which asks for no keys: set 'keys' in the policy, or name the site in \
                   'cors.origins'";
    Some(Fault::client(StatusCode::FORBIDDEN, "foreign_origin", message).with_code("foreign_origin"))
}

fn looping(control: &Control, headers: &HeaderMap) -> Option<Fault> {
    control.app.client.loops().is_loop(headers).then(|| {
        let message = "the request passed this gateway already, or too many gateways: a backend's address leads back here; correct it \
                       in the policy";
        let fault = Fault::gateway(StatusCode::LOOP_DETECTED, "loop", message);
        control.app.parts.metrics.fault(&fault);
        fault
    })
}

/// CORS layer for the origins of the policy in force. No credentials mode: pages send their API key in a header.
pub(super) fn cors(live: Arc<Live>) -> CorsLayer {
    let named = move |site: &HeaderValue, _: &Parts| {
        live.load().snapshot.policy.origins.iter().any(|named| named.as_bytes() == site.as_bytes())
    };
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(named))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(ExposeHeaders::any())
        .max_age(REMEMBERED)
}
