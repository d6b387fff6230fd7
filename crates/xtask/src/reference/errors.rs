//! The table of errors, and its page.

use super::markdown::table;

/// One kind of error, as `outcome` in metrics and the journal name it.
pub(super) struct Error {
    pub(super) kind: &'static str,
    status: &'static str,
    /// `error.type`; empty for the usual one of its section.
    class: &'static str,
    /// `error.code`; several where it depends on the cause.
    pub(super) codes: &'static [&'static str],
    meaning: &'static str,
    remedy: &'static str,
}

const fn error(
    kind: &'static str,
    status: &'static str,
    codes: &'static [&'static str],
    meaning: &'static str,
    remedy: &'static str,
) -> Error {
    Error { kind, status, class: "", codes, meaning, remedy }
}

/// Errors that blame the caller: `error.type` is `invalid_request_error`.
#[rustfmt::skip]
pub(super) const CLIENT: [Error; 33] = [
    error("bad_compression", "400", &["invalid_encoding"],
        "The compressed body is damaged or cut, or in another encoding than its `Content-Encoding` says.",
        "Compress it anew, or send it plain."),
    error("bad_content_type", "400", &["invalid_content_type"],
        "The `Content-Type` is ambiguous, or none that the endpoint takes.",
        "Send one `Content-Type: application/json`, or `multipart/form-data` where the API has a form."),
    error("bad_encoding", "415", &["unsupported_encoding"],
        "The body has a `Content-Encoding` that is not read.", "Send it plain, or in an encoding that `Accept-Encoding` names: gzip, deflate, br, zstd."),
    error("bad_form", "400", &["invalid_form"],
        "Two servers could read the form differently.", "Send one boundary, and each field once with a plain name."),
    error("bad_json", "400", &["invalid_json"],
        "The body is not the JSON object that the endpoint takes.", "Correct the place that the message names."),
    error("bad_method", "405", &["method_not_allowed"],
        "The method is not served, or not at this path.", "Use a method from the answer's `Allow` header."),
    error("body_cut", "400", &[],
        "The body ended before its announced length.", "Send the request again; check the network and proxies on the way."),
    error("body_slow", "408", &["request_timeout"],
        "The body came too slowly.", "A body may take 30 s and a second more for each 16 KiB."),
    error("body_too_large", "413", &["body_too_large"],
        "The body is over `limits.body`.", "Send less, or raise `limits.body`."),
    error("context_length_exceeded", "400", &["context_length_exceeded"],
        "The prompt and its `max_tokens` fit in no pool of the route.", "Shorten the prompt, lower `max_tokens`, or add a pool with a longer context."),
    error("endpoint_refused", "403", &["endpoint_not_allowed"],
        "The key may not use this endpoint.", "Use another key, or extend `keys[].endpoints`."),
    error("foreign_host", "403", &["foreign_host"],
        "The `Host` header names a host that this listener does not answer to.", "Use its address or `localhost`, or add the name to `hosts`."),
    error("foreign_origin", "403", &["foreign_origin"],
        "A page of another site called a gateway that asks for no keys.", "Set `keys`, or name the site in `cors.origins`."),
    error("invalid_request", "400", &["invalid_type", "duplicate_field", "unsupported_endpoint", "unsupported_parameter", "thread_unsupported_request", "no_route", "not_a_hit", "previous_response_not_found"],
        "A field is missing, has a wrong type, or appears twice; no pool or route of the model takes the request; or the API of its backends cannot express the field. `error.param` names the field.",
        "Correct the field. `unsupported_parameter`: remove the field, or use a pool that speaks the API itself. `no_route`: end the model's routes with one that has no `when`. `unsupported_endpoint`: add the endpoint to the pool's `speaks`."),
    error("list_refused", "403", &["list_not_allowed"],
        "A list would show the objects of every key.", "Ask for one object by its id."),
    error("model_not_found", "404", &["model_not_found"],
        "No model of this name is in the policy.", "Ask for a name that `GET /v1/models` lists."),
    error("model_refused", "403", &["model_not_found", "endpoint_not_allowed"],
        "The key may not use this model, or the gateway cannot know which model the request would use.", "Use another model or key, or extend `keys[].models`."),
    error("no_tls", "400", &["no_tls"],
        "A request in clear text came to a TLS listener.", "Use `https://`."),
    error("no_websocket", "426", &["websocket_unsupported"],
        "A client asked for a WebSocket at a path without one, over HTTP/2, or with a handshake that is none.", "Use `/v1/responses` over HTTP/1.1, or HTTP with `stream: true`, as most clients do by themselves."),
    error("object_absent", "400, 404", &[],
        "No account has the object, of which the gateway does not know where it is. The provider's own answer is passed on.", "Check the id."),
    error("object_not_found", "404", &[],
        "The file, upload, batch or response does not exist, or belongs to another key.", "Use the key that made it. For objects with no known owner, see `objects.unknown`."),
    error("objects_apart", "400", &["objects_apart"],
        "The request names objects that are stored in different accounts.", "Create them anew, for one request or in one conversation."),
    error("override_refused", "403", &["override_refused"],
        "The caller may not set this `x-signalbox-…` header.", "Remove the header, or extend `keys[].allow`."),
    error("request_inexpressible", "400", &["unsupported_parameter"],
        "The API of the backends cannot express the request, and no other pool of the route was left.", "Remove the field that `error.param` names, or add a pool that speaks the API itself."),
    error("socket_closing", "400", &["websocket_connection_limit_reached"],
        "The gateway stops and ends its WebSockets. Only within one.", "Connect again."),
    error("state_not_found", "400, 404", &["previous_response_not_found"],
        "The stored response, item or conversation has expired, gave way to newer ones, was deleted, never was, or belongs to another key. 400 for `previous_response_id`.",
        "Send all earlier items in `input`. To keep more for longer, raise `responses.store` and `responses.ttl`."),
    error("too_many_turns", "429", &["rate_limit_exceeded"],
        "Too many turns wait on one WebSocket. Only within one.", "Wait for answers, or open another connection."),
    error("unknown_path", "404", &["unknown_url"],
        "The path is not part of the API, or can be read in several ways.", "Use a path below `/v1` without encoding, empty segments and `..`. The client's base URL is `http://host:4100/v1`."),
    error("unknown_request", "404", &["request_not_found"],
        "Feedback names a request that is not remembered, is another caller's, or was judged before.", "Send the id from `x-signalbox-id` soon after the answer, and once."),
    error("unsupported_endpoint", "404", &["unsupported_endpoint"],
        "No pool serves this endpoint.", "Add the endpoint to a pool's `speaks`."),
    Error { kind: "unauthorized", status: "401", class: "authentication_error", codes: &["invalid_api_key"],
        meaning: "The API key is missing, unknown or revoked.", remedy: "Send a valid key as `Authorization: Bearer …`." },
    error("upstream_refused", "4xx", &[],
        "The engine rejected the request. Its own answer is passed on.", "Correct the request as the engine's message says."),
    error("context_length_exceeded (engine)", "400, 413, 422", &[],
        "The engine rejected the prompt as too long, and no pool with a longer context was left. Its own answer is passed on.", "As above; set the pool's `context` so that the gateway knows before it asks."),
];

/// Errors that blame an engine or a provider: `error.type` is `upstream_error`, and `error.code` the kind.
#[rustfmt::skip]
pub(super) const UPSTREAM: [Error; 19] = [
    error("answer_cut", "502", &[], "A whole answer broke off.", "Look at the engine's log."),
    error("connection_lost", "502", &[], "The engine closed the connection before it answered.", "Look at the engine's log: it may have crashed."),
    error("deadline", "504", &[], "The answer took longer than `timeouts.total`.", "Raise `timeouts.total`, or shorten answers."),
    error("endpoint_missing", "404, 405, 501", &[], "The engine answered as a server without the endpoint.", "Check the backend's `url`; remove the endpoint from the pool's `speaks`."),
    error("first_token_timeout", "504", &[], "No backend gave a first token in time.", "Look at queues and breakers; add capacity."),
    error("model_missing", "400, 404, 422", &[], "The engine does not have the model that the policy names.", "Correct the backend's `model`."),
    error("request_unsupported", "4xx, 501", &[], "The engine answered that it has not what the request names, or does not support it.", "Correct the request as the engine's message says."),
    error("stream_cut", "502, in the stream", &[], "The engine's stream broke off and could not be resumed.", "Send the request again; look at the engine's log."),
    error("stream_stalled", "504, in the stream", &[], "The engine's stream fell silent for `timeouts.idle` and could not be resumed.", "Look at the engine; raise `timeouts.idle` for models that pause."),
    error("upstream_account", "502", &[], "The provider refused the operator's account, credits or choice of a model (402, and 4xx that say so).", "Operator: look at the account at the provider. The message names pool and account."),
    error("upstream_auth", "502", &[], "The provider refused the operator's key (401, 403).", "Operator: correct the account's key. The message names pool and account."),
    error("upstream_error", "5xx", &[], "The engine failed, or reported an error in its stream.", "Look at the engine's log."),
    error("upstream_full", "503", &[], "The engine had no room, and no other backend could be asked.", "Send the request again; add capacity."),
    error("upstream_garbage", "502", &[], "The engine's answer is not what the API defines.", "Check the backend's `url`: it should be an OpenAI-compatible API."),
    error("upstream_not_found", "404", &[], "The engine answered 404.", "Check the object's id, and the backend's `url`."),
    error("upstream_not_ready", "409, 421, 423, 425, 429, 5xx", &[], "The engine or its model is not there at present: it loads, sleeps or restarts.", "Send the request again after some seconds."),
    error("upstream_rate_limited", "413, 429, 5xx", &[], "The engine or provider refused for its own limits.", "Wait as `Retry-After` says; set `accounts.NAME.limits`."),
    error("upstream_timeout", "408", &[], "The engine answered 408.", "Send the request again; look at the engine's limits."),
    error("upstream_unreachable", "503", &[], "No connection to the engine (502 in observe mode).", "Check the engine, its address and the network."),
];

/// Refusals and failures of the gateway itself: `error.type` is `gateway_error`, and `error.code` the kind, unless stated.
#[rustfmt::skip]
pub(super) const GATEWAY: [Error; 11] = [
    error("internal", "500", &[], "A defect of the gateway. 503 in observe mode without a target.", "Report it, with the log."),
    error("loop", "508", &[], "The request passed this gateway already, or eight gateways: a backend's address leads back here.", "Operator: correct the address of the backend."),
    error("no_backend", "503", &[], "The route's pools have no backend that may serve the request.", "Look at the breakers: `signalbox top`."),
    error("not_cached", "504", &[], "`Cache-Control: only-if-cached` was sent, and no kept answer exists.", "Send the request without it."),
    Error { kind: "over_budget", status: "429", class: "insufficient_quota, or tokens", codes: &["insufficient_quota", "rate_limit_exceeded"],
        meaning: "The team's budget is used up, or what is left is reserved by requests in flight (`rate_limit_exceeded`).",
        remedy: "Wait as `Retry-After` says; send a smaller `max_tokens`; raise the budget." },
    error("overloaded", "503", &["overloaded"], "A queue is full, or `limits.in_flight` or `limits.bodies` is reached.", "Retry after `Retry-After`; add capacity."),
    error("queue_timeout", "503", &[], "No backend had room within the wait that the route allows.", "Retry after `Retry-After`; add capacity."),
    Error { kind: "rate_limited", status: "429", class: "requests, or tokens", codes: &["rate_limit_exceeded"],
        meaning: "The key's `rpm`, `tpm` or `concurrency` is reached.", remedy: "Retry after `Retry-After`. Without that header the request alone is over `tpm`." },
    error("slo_unattainable", "429", &[], "No backend would give a first token within the route's `bound.ttft`.", "Retry after `Retry-After`; add capacity, or relax the bound."),
    error("stopped", "–", &[], "The process ended before the answer did. Only metrics and the journal have this kind.", "Raise `limits.drain`."),
    error("too_slow", "503, in the stream", &[], "A shared answer was read too slowly and held up its other readers.", "Read answers as they come, or send `Cache-Control: no-cache`."),
];

/// The generated part of its page.
pub(super) fn text() -> String {
    let section = |errors: &[Error]| {
        let rows = errors.iter().map(|it| {
            let quoted = |text: &&str| format!("`{text}`");
            let codes = it.codes.iter().map(quoted).collect::<Vec<_>>().join(", ");
            let kind =
                it.kind.split_once(' ').map_or_else(|| quoted(&it.kind), |(kind, note)| format!("`{kind}` {note}"));
            let class = if it.class.is_empty() { String::new() } else { format!(" (`error.type` {})", it.class) };
            [kind, it.status.to_owned(), codes, format!("{}{class}", it.meaning), it.remedy.to_owned()]
        });
        table(["Kind", "Status", "`error.code`", "Meaning", "Remedy"], rows)
    };
    format!(
        "## Errors of the request\n\n`error.type` is `invalid_request_error` unless stated; an empty code is `null`.\n\n{}\n\
         ## Errors of engines and providers\n\n`error.type` is `upstream_error` and `error.code` the kind, unless stated. Where the engine's own error answer is \
         readable, it is passed on as it came.\n\n{}\n\
         ## Refusals and errors of the gateway\n\n`error.type` is `gateway_error` and `error.code` the kind, unless stated.\n\n{}",
        section(&CLIENT),
        section(&UPSTREAM),
        section(&GATEWAY)
    )
}
