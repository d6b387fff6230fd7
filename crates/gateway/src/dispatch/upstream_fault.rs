//! Classifies upstream error responses: whose fault it is, whether another backend may help, and how much of the
//! response the caller sees.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, StatusCode, header::CONTENT_ENCODING, response::Parts};
use memchr::memmem;

use crate::{
    refusal::{of_account, of_verdict},
    stages::RequestForm,
};
use signalbox_engines::{Verdict, endpoint_evidence::ErrorSubject, verdict};
use signalbox_fleet::Backend;
use signalbox_policy::Secret;
use signalbox_protocol::json;
use signalbox_types::{
    Blame, Fault, Retry,
    fault::{ACCOUNT, MISSING, MODEL_MISSING, NOT_READY, UNSUPPORTED, Unmasked},
};
use signalbox_upstream::headers;

/// Bytes of an invalid answer that are examined to quote its beginning.
const LOOKED_AT: usize = 64 << 10;

/// Builds the fault for a response without a success status.
///
/// `keys` are the provider's keys, which the caller never sees. `payer` names their owner.
pub(super) fn refusal(head: &Parts, body: Bytes, keys: &[Secret], payer: impl FnOnce() -> String) -> Fault {
    let status = head.status;
    if !status.is_client_error() && !status.is_server_error() {
        let message = format!("the backend answered {status}, which no API answer has");
        return Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", message);
    }
    let verdict = verdict(Some(status.as_u16()), &body);
    let retry_after = retry_after(head);
    if verdict == Verdict::Operator {
        // The provider's text names the account, its money and its limits: it is for the operator.
        return Fault { retry_after, ..of_account(Some(status), &payer()) };
    }
    // A proxy's HTML page about a dead engine does not help the client; the engine's own error about the request does.
    let readable = !body.is_empty() && (status.is_client_error() || json::is_json(&body));
    let quoted = quotes(head, &body, keys);
    let message = if quoted {
        format!("the backend answered {status}; its reason quotes the provider's key and is kept back")
    } else {
        format!("the backend answered {status} without a readable reason")
    };
    let fault = of_verdict(verdict, Some(status), message);
    let unmasked =
        (readable && !quoted).then(|| Unmasked { headers: headers::returned(&head.headers, keys), body }.into());
    let retry_after = retry_after.filter(|_| fault.blame == Blame::Upstream);
    Fault { retry_after, unmasked, ..fault }
}

/// Reclassifies an answer with 404, 405 or 501 by what it says is missing. The one place to judge it.
///
/// A request that creates an answer moves to another backend, which may have the endpoint, the model or the object. Of the
/// backend it shows only that the model is missing, or that the endpoint may be: an error about the request is no reason
/// to leave the backend out for others.
pub(super) fn of_backend(
    method: &Method,
    form: RequestForm<'_>,
    backend: &Backend,
    subject: ErrorSubject,
    fault: Fault,
) -> Fault {
    let creates = *method == Method::POST && form.endpoint.is_root(form.path);
    if !creates {
        return of_object(fault);
    }
    let names_model =
        || fault.unmasked.as_ref().is_some_and(|it| memmem::find(&it.body.to_ascii_lowercase(), b"model").is_some());
    let has_model = backend.spec.model.is_some();
    let kind = match (fault.status.as_u16(), subject) {
        (404 | 405 | 501, ErrorSubject::Endpoint) => MISSING,
        (400 | 404 | 422, ErrorSubject::Model) if has_model && fault.kind != ACCOUNT => MODEL_MISSING,
        // The model is the caller's own, or the error says that it does not take this request.
        (404, _) if !has_model && names_model() => return fault,
        (405, _) if names_model() => return fault,
        (404 | 405 | 501, _) => UNSUPPORTED,
        _ => return fault,
    };
    Fault { kind, blame: Blame::Upstream, retry: Retry::OtherBackend, ..fault }
}

/// True if a refusal says that the account does not have an object.
pub(super) fn is_absent(fault: &Fault) -> bool {
    let says = |unmasked: &Unmasked| memmem::find(&unmasked.body, b"not_found").is_some();
    match fault.status.as_u16() {
        404 => true,
        400 => fault.unmasked.as_deref().is_some_and(says),
        _ => false,
    }
}

/// Reclassifies an answer about an object, or any other that creates none: it is for the caller that named the object.
fn of_object(fault: Fault) -> Fault {
    match (fault.status.as_u16(), fault.kind) {
        (501, _) => Fault { kind: UNSUPPORTED, ..fault },
        (400..=499, UNSUPPORTED | NOT_READY) => {
            Fault { kind: "upstream_refused", blame: Blame::Client, retry: Retry::Never, retry_after: None, ..fault }
        }
        _ => fault,
    }
}

/// Subject of an error answer. One that cannot be read says nothing about the backend.
pub(super) fn subject(head: &Parts, body: Option<&Bytes>, form: RequestForm<'_>, backend: &Backend) -> ErrorSubject {
    let is_readable = head.headers.get(CONTENT_ENCODING).is_none_or(|encoding| encoding == "identity");
    body.filter(|_| is_readable)
        .map_or(ErrorSubject::Request, |body| ErrorSubject::of(body, form.path, backend.spec.model.as_deref()))
}

/// Delay that the provider asks for, in `retry-after-ms` or in `retry-after` as seconds or a date.
fn retry_after(head: &Parts) -> Option<Duration> {
    let text = |name: &str| head.headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    if let Some(milliseconds) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return seconds(milliseconds / 1e3);
    }
    let after = text("retry-after")?;
    match after.parse::<f64>() {
        Ok(after) => seconds(after),
        Err(_) => httpdate::parse_http_date(after)
            .ok()
            .map(|at| at.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO)),
    }
}

/// True if a response repeats one of `keys`, as some servers do with a key that they refuse.
fn quotes(head: &Parts, body: &[u8], keys: &[Secret]) -> bool {
    keys.iter().any(|key| key.is_in(body) || head.headers.values().any(|value| key.is_in(value.as_bytes())))
}

/// Builds the fault for a successful response that is not a valid answer.
pub(super) fn garbage(body: &[u8], keys: &[Secret]) -> Fault {
    // Removes control characters before masking: a key that they split would be whole once they are removed.
    let shown: String =
        String::from_utf8_lossy(&body[..body.len().min(LOOKED_AT)]).chars().filter(|c| !c.is_control()).collect();
    let masked = Secret::masked(keys, shown.as_bytes());
    let start: String =
        masked.map_or(shown, |masked| String::from_utf8_lossy(&masked).into_owned()).chars().take(80).collect();
    let message = match start.trim() {
        "" => "the backend's answer is empty".to_owned(),
        start => format!("the backend's answer is not JSON; it begins with: {start}"),
    };
    Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", message)
}

/// Fuzz target: reads any bytes as a response head (a status, then one header a line), an empty line and a body.
///
/// # Panics
/// If the caller would see the provider's key, headers of a single connection or an invalid delay.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_head(bytes: &[u8]) {
    use crate::reply::is_events;
    use http::{HeaderName, HeaderValue};

    let keys = [Secret("sk-provider".into())];
    let (head, body) = match memmem::find(bytes, b"\n\n") {
        Some(end) => (&bytes[..end], &bytes[end + 2..]),
        None => (bytes, &bytes[..0]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let status = lines.next().and_then(|line| StatusCode::from_bytes(line.trim_ascii()).ok());
    let mut answer = http::Response::new(());
    *answer.status_mut() = status.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    for line in lines.take(100) {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(line.len()));
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            answer.headers_mut().append(name, value);
        }
    }
    let (head, ()) = answer.into_parts();
    let passed = headers::returned(&head.headers, &keys);
    for (name, value) in &passed {
        assert!(!keys[0].is_in(value.as_bytes()), "{name} repeats the key");
        assert!(!name.as_str().starts_with("x-signalbox-") && name != "transfer-encoding" && name != "connection");
    }
    is_events(&head.headers);
    let fault = refusal(&head, Bytes::copy_from_slice(body), &keys, String::new);
    if let Some(after) = fault.retry_after {
        assert!(after.as_secs_f64().is_finite());
    }
    if let Some(unmasked) = &fault.unmasked {
        assert!(!keys[0].is_in(&unmasked.body) && unmasked.headers == passed);
    }
    assert!(!keys[0].is_in(fault.message.as_bytes()) && !keys[0].is_in(garbage(body, &keys).message.as_bytes()));
}
