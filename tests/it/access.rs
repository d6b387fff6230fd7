//! Ways around what a key may do, tried over raw sockets: methods, paths, forms, queries, headers, and other keys' objects.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::{fmt::Write as _, path::Path};

use serde_json::{Value, json};

use crate::{
    keys::keys,
    support::{
        client::{self, http, raw},
        gateway::{Gateway, Start},
        mock::{Mock, Plan, Seen, chat_events},
        until,
    },
};

const PROVIDER: &str = "sk-of-the-operator";
const CHAT: &str = "/v1/chat/completions";

/// A gateway before one engine that speaks everything and is shown a key.
fn policy(mock: &Mock, more: &str) -> String {
    format!(
        "accounts: {{ own: {{ keys: [{PROVIDER}] }} }}\n\
         engines: {{ e: {{ url: \"{}\", account: own, scrape: false }} }}\n\
         pools: {{ p: {{ backends: [{{ engine: e }}], speaks: [chat, completions, embeddings, responses, messages, audio, images, \
         rerank, moderations, files, batches] }} }}\nmodels: {{ auto: {{ to: p }}, secret: {{ to: p }} }}\n{more}",
        mock.url()
    )
}

/// A gateway whose key `some` may use the model `auto` only, and `all` every one.
async fn limited(mock: &Mock) -> Gateway {
    Gateway::start(&policy(mock, &keys(&[("some", ", models: [auto]"), ("all", "")]))).await
}

async fn echo() -> Mock {
    Mock::start(|seen| Plan::json(200, &json!({ "id": "x", "path": seen.path, "choices": [] }))).await
}

/// Sends a request exactly as it is written, with `headers`, a line each.
async fn send(gateway: &Gateway, key: &str, start: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let head =
        format!("{start} HTTP/1.1\r\nhost: g\r\nauthorization: Bearer {key}\r\n{headers}content-length: {length}\r\n");
    raw(gateway.listen(), format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer}"))
}

/// The body of a raw answer.
fn body(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("no JSON ({error}): {answer}"))
}

fn chat(model: &str) -> String {
    json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] }).to_string()
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn only_the_methods_of_the_api_go_upstream() {
    // An engine that answers TRACE as it should, or shows what it was sent in any other way.
    let mock = Mock::start(|seen| Plan::text(200, "message/http", format!("{:?}", seen.headers))).await;
    let gateway = limited(&mock).await;
    for method in ["TRACE", "TRACK", "PUT", "PATCH", "OPTIONS", "PROPFIND", "DEBUG", "post", "GETX", "X-A"] {
        for path in
            [CHAT, "/v1/files", "/v1/responses/r", "/v1/models", "/v1/route/explain", "/metrics", "/health", "/x"]
        {
            for key in ["all", "nobody"] {
                let answer = send(&gateway, key, &format!("{method} {path}"), "", "").await;
                assert_eq!(status(&answer), 405, "{method} {path}: {answer}");
                assert!(answer.to_lowercase().contains("\r\nallow: "), "{method} {path}: {answer}");
                assert_eq!(body(&answer)["error"]["code"], "method_not_allowed", "{method} {path}");
                assert!(!answer.contains(PROVIDER));
            }
        }
    }
    let connect = send(&gateway, "all", "CONNECT 127.0.0.1:1", "", "").await;
    assert_eq!(status(&connect), 405, "{connect}");
    assert!(
        send(&gateway, "all", "GET /v1/chat/completions", "", "").await.to_lowercase().contains("\r\nallow: post\r\n")
    );
    assert!(mock.seen().is_empty(), "{:?}", mock.seen());
    for method in ["GET", "HEAD", "POST", "DELETE"] {
        let answer = send(&gateway, "all", &format!("{method} /v1/moderations"), "", "").await;
        assert_eq!(status(&answer), 200, "{method}: {answer}");
    }
    assert_eq!(mock.seen().len(), 4);
}

#[tokio::test]
async fn an_observed_gateway_is_not_asked_to_trace() {
    let observed = Mock::start(|seen| Plan::text(200, "message/http", format!("{:?}", seen.headers))).await;
    let none = "pools: { p: { model: m, backends: [\"http://127.0.0.1:9/v1\"] } }\n";
    let gateway = Start::with(none).arg("--observe").arg(&observed.url()).start().await;
    for start in ["TRACE /v1/chat/completions", "TRACE /x", "TRACK /x", "CONNECT 127.0.0.1:1"] {
        let answer = send(&gateway, "theirs", start, "", "").await;
        assert_eq!(status(&answer), 405, "{start}: {answer}");
    }
    assert!(observed.seen().is_empty());
    for method in ["PUT", "PATCH", "OPTIONS"] {
        assert_eq!(status(&send(&gateway, "theirs", &format!("{method} /x"), "", "").await), 200, "{method}");
    }
}

#[tokio::test]
async fn a_header_that_reflects_the_providers_key_is_left_out() {
    let mock = Mock::start(|seen| {
        let key = seen.header("authorization").unwrap_or_default().to_owned();
        let plan = match seen.path.as_str() {
            "/v1/files/f" => Plan::text(200, "application/octet-stream", "bytes"),
            _ if seen.streams() => Plan::stream().events(chat_events(["a"])).done(),
            _ => Plan::chat("a"),
        };
        plan.header("x-echo", &key).header("x-debug", &format!("h={key};")).header("x-plain", "kept")
    })
    .await;
    let gateway = Gateway::start(&policy(&mock, "")).await;
    let whole = send(&gateway, "-", &format!("POST {CHAT}"), JSON, &chat("auto")).await;
    let streamed = chat("auto").replace("\"model\"", "\"stream\":true,\"model\"");
    let streamed = send(&gateway, "-", &format!("POST {CHAT}"), JSON, &streamed).await;
    let file = send(&gateway, "-", "GET /v1/files/f", "", "").await;
    for answer in [whole, streamed, file] {
        assert_eq!(status(&answer), 200, "{answer}");
        assert!(!answer.contains(PROVIDER) && answer.contains("x-plain: kept"), "{answer}");
    }
    assert!(mock.seen().iter().all(|seen| seen.header("authorization").unwrap().contains(PROVIDER)));
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_around_models() {
    let mock = echo().await;
    let gateway = limited(&mock).await;
    let forms = |word: &str| {
        let first = &word[..1];
        let (hex, lower) = (format!("%{:02X}", first.as_bytes()[0]), format!("%{:02x}", first.as_bytes()[0]));
        let rest = &word[1..];
        [
            word.to_owned(),
            format!("{hex}{rest}"),
            format!("{lower}{rest}"),
            format!("%25{}{rest}", &hex[1..]),
            format!("%2525{}{rest}", &hex[1..]),
            format!("/{word}"),
            format!("./{word}"),
            format!("x/../{word}"),
            format!("x/%2e%2e/{word}"),
            format!("x/%252e%252e/{word}"),
            format!("x/..;/{word}"),
            format!("x/..;a=b/{word}"),
            format!(";x/{word}"),
            format!("x/..%2f{word}"),
            format!("x/..%5c{word}"),
            format!("x\\..\\{word}"),
            format!("%2f{word}"),
            format!("%5c{word}"),
            format!("\\{word}"),
            format!("{word};x=y"),
            format!("{word}%3bx"),
            format!("{word}/"),
            format!("{word}%2f"),
            format!("{word}%00"),
            format!("{word}%20"),
            format!("{word}+"),
            format!("{word}%23"),
            format!("{word}%3f"),
            format!("{word}."),
            format!("{word}.json"),
            word.to_uppercase(),
        ]
    };
    let body = chat("auto");
    for base in ["/v1/", "/v1/messages/", "/v1/responses/../", "/v1/audio/..;/", "/v1/chat/completions/../../", "/v2/"]
    {
        for word in forms("batches").into_iter().chain(forms("files")) {
            let answer = send(&gateway, "some", &format!("POST {base}{word}"), JSON, &body).await;
            assert!((400..500).contains(&status(&answer)), "{base}{word}: {answer}");
        }
    }
    for path in [
        "http://other/v1/batches",
        "http://other/v1/%62atches",
        "*",
        "//v1/batches",
        "/V1/batches",
        "/v1/v1/batches",
        "v1/batches",
    ] {
        let answer = send(&gateway, "some", &format!("POST {path}"), JSON, &body).await;
        assert!((400..500).contains(&status(&answer)), "{path}: {answer}");
    }
    assert!(mock.seen().is_empty(), "{:?}", mock.seen());
    assert_eq!(status(&send(&gateway, "some", "POST /v1/messages/count_tokens", JSON, &body).await), 200);
}

#[tokio::test]
async fn what_is_forwarded_is_what_was_classified() {
    let mock = echo().await;
    let gateway = Gateway::start(&policy(&mock, "")).await;
    for path in
        ["/v1/files/file-1_a~b:c=@d", "/v1/files/a..b/.c", "/v1/responses/resp_A.1/input_items?x=%2e%2e/y&z=a+b"]
    {
        assert_eq!(body(&send(&gateway, "-", &format!("GET {path}"), "", "").await)["path"], path);
    }
    assert_eq!(body(&send(&gateway, "-", "GET http://other/v1/files/f", "", "").await)["path"], "/v1/files/f");
    for path in ["/v1/files/a%20b", "/v1/files/a,b", "/v1/files/...", "/v1/files/\u{e9}", "/v1/files/a|b"] {
        assert!((400..500).contains(&status(&send(&gateway, "-", &format!("GET {path}"), "", "").await)), "{path}");
    }
    assert_eq!(mock.seen().len(), 4);
}

#[tokio::test]
async fn headers_that_change_what_a_request_is_stay_here() {
    let mock = Mock::start(|_| Plan::chat("a").header("etag", "\"e\"")).await;
    let gateway = Gateway::start(&policy(&mock, "cache: { exact: { ttl: 1h } }\n")).await;
    let names = [
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-original-url",
        "x-original-uri",
        "x-rewrite-url",
    ];
    let mut headers = String::from(JSON);
    for name in names {
        write!(headers, "{name}: *\r\n").unwrap();
    }
    let body = chat("auto").replacen('{', "{\"temperature\":0,", 1);
    let first = send(&gateway, "-", &format!("POST {CHAT}"), &headers, &body).await;
    assert!(first.contains("x-signalbox-cache: miss"), "{first}");
    let seen = &mock.seen()[0];
    assert!(names.iter().all(|name| seen.header(name).is_none()), "{:?}", seen.headers);
    let again = send(&gateway, "-", &format!("POST {CHAT}"), JSON, &body).await;
    assert!(again.contains("x-signalbox-cache: hit-exact"), "what does not go on makes no difference: {again}");
}
