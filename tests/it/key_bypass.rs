//! Attempts to bypass the limits of a key over raw sockets: methods, paths, forms, queries, headers, and other keys' objects.
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

/// A gateway in front of one engine that supports every endpoint and gets a key.
fn policy(mock: &Mock, more: &str) -> String {
    format!(
        "accounts: {{ own: {{ keys: [{PROVIDER}] }} }}\n\
         engines: {{ e: {{ url: \"{}\", account: own, scrape: false }} }}\n\
         pools: {{ p: {{ backends: [{{ engine: e }}], speaks: [chat, completions, embeddings, responses, messages, audio, images, \
         rerank, moderations, files, batches] }} }}\nmodels: {{ auto: {{ to: p }}, secret: {{ to: p }} }}\n{more}",
        mock.url()
    )
}

/// A gateway whose key `some` may use only the model `auto`, and `all` every model.
async fn limited(mock: &Mock) -> Gateway {
    Gateway::start(&policy(mock, &keys(&[("some", ", models: [auto]"), ("all", "")]))).await
}

async fn echo() -> Mock {
    let choice = json!({ "index": 0, "message": { "role": "assistant", "content": "a" }, "text": "a" });
    Mock::start(move |seen| {
        Plan::json(200, &json!({ "id": "x", "path": seen.path, "choices": [choice], "content": [], "output": [] }))
    })
    .await
}

/// Sends a request byte for byte, with `headers`, one per line.
async fn send(gateway: &Gateway, key: &str, start: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let head = format!(
        "{start} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n{headers}content-length: {length}\r\n"
    );
    raw(gateway.listen(), format!("{head}connection: close\r\n\r\n{body}").as_bytes()).await
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer}"))
}

/// Body of a raw answer.
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
async fn the_forwarded_request_is_the_classified_one() {
    let mock = echo().await;
    let gateway = Gateway::start(&policy(&mock, "")).await;
    for path in
        ["/v1/files/file-1_a~b:c=@d", "/v1/files/a..b/.c", "/v1/responses/resp_A.1/input_items?x=%2e%2e/y&z=a+b"]
    {
        assert_eq!(body(&send(&gateway, "-", &format!("GET {path}"), "", "").await)["path"], path);
    }
    assert_eq!(body(&send(&gateway, "-", "GET http://localhost/v1/files/f", "", "").await)["path"], "/v1/files/f");
    for path in ["/v1/files/a%20b", "/v1/files/a,b", "/v1/files/...", "/v1/files/\u{e9}", "/v1/files/a|b"] {
        assert!((400..500).contains(&status(&send(&gateway, "-", &format!("GET {path}"), "", "").await)), "{path}");
    }
    assert_eq!(mock.seen().len(), 4);
}

#[tokio::test]
async fn no_query_or_field_leads_around_models() {
    let mock = echo().await;
    let gateway = limited(&mock).await;
    for query in [
        "model=secret",
        "MODEL=secret",
        "models=secret",
        "models[]=secret",
        "model%5B%5D=secret",
        "x=1&model=secret",
        "x=1;model=secret",
        "x=1%26model=secret",
        "%6dodel=secret",
        "%256dodel=secret",
        "%25256dodel=secret",
        "%2525252525256dodel=secret",
        "model+=secret",
        "%20model=secret",
        "m%00odel&fallback_model=secret",
        "%c1%adodel=secret&x=%ff",
    ] {
        let answer = send(&gateway, "some", &format!("POST {CHAT}?{query}"), JSON, &chat("auto")).await;
        assert_eq!(status(&answer), 403, "{query}: {answer}");
    }
    for field in [
        "\"models\":[\"secret\"]",
        "\"MODELS\":[\"secret\"]",
        "\"model \":\"secret\"",
        "\" model\":\"secret\"",
        "\"model\\u0000\":\"secret\"",
        "\"\\u006dodels\":[\"secret\"]",
        "\"fallbacks\":[\"secret\"]",
        "\"Fallbacks\":[{\"model\":\"secret\"}]",
        "\"fallback_models\":[\"secret\"]",
        "\"context_window_fallbacks\":[{\"auto\":[\"secret\"]}]",
        "\"model_id\":\"secret\"",
        "\"models[]\":\"secret\"",
    ] {
        let body = chat("auto").replacen('{', &format!("{{{field},"), 1);
        let answer = send(&gateway, "some", &format!("POST {CHAT}"), JSON, &body).await;
        assert_eq!(status(&answer), 403, "{field}: {answer}");
    }
    for field in [
        "\"model\":\"secret\"",
        "\"\\u006dodel\":\"secret\"",
        "\"mod\\u0065l\":\"secret\"",
        "\"\\u006d\\u006f\\u0064\\u0065\\u006C\":\"secret\"",
        "\"Model\":\"secret\"",
        "\"\\u004dODEL\":\"secret\"",
        "\"\\ud800model\":\"secret\"",
    ] {
        for body in [
            chat("auto").replacen('{', &format!("{{{field},"), 1),
            chat("auto").trim_end_matches('}').to_owned() + "]," + field + "}",
        ] {
            let answer = send(&gateway, "some", &format!("POST {CHAT}"), JSON, &body).await;
            assert_eq!(status(&answer), 400, "{field}: {answer}");
        }
    }
    assert!(mock.seen().is_empty(), "{:?}", mock.seen());
    let plain = send(&gateway, "some", &format!("POST {CHAT}?beta=true&x=%20"), JSON, &chat("auto")).await;
    assert_eq!(status(&plain), 200, "{plain}");
    let all = send(&gateway, "all", &format!("POST {CHAT}?model=x"), JSON, &chat("auto")).await;
    assert_eq!(status(&all), 200, "a key that may use every model may name one anywhere: {all}");
}

/// A form with the model `auto`, and `part` before or after it.
fn form(part: &str, first: bool) -> String {
    let model = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nauto\r\n";
    let file = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nsound\r\n";
    let part = if part.is_empty() { String::new() } else { format!("--b\r\n{part}\r\n\r\nsecret\r\n") };
    if first { format!("{part}{model}{file}--b--\r\n") } else { format!("{model}{file}{part}--b--\r\n") }
}

const FORM: &str = "content-type: multipart/form-data; boundary=b\r\n";
const SOUND: &str = "POST /v1/audio/transcriptions";

#[tokio::test]
async fn no_form_has_a_second_model() {
    let mock = echo().await;
    let gateway = limited(&mock).await;
    let file = "Content-Disposition: form-data; name=";
    for head in [
        format!("{file}\"model\""),
        format!("{file}\"Model\""),
        format!("{file}\"MODEL\""),
        format!("{file}model"),
        format!("{file}'model'"),
        format!("{file}\" model\""),
        format!("{file}\"model \""),
        format!("{file}\"mo\\del\""),
        format!("{file}\"%6dodel\""),
        format!("{file}\"model[]\""),
        format!("{file}\"model[0]\""),
        format!("{file}\"model\\0\""),
        format!("{file}\"model\"; filename=\"m.txt\""),
        format!("{file}\"x\"; name=\"model\""),
        format!("{file}\"model\"; name=\"x\""),
        format!("{file}\"x\"; NAME=\"model\""),
        format!("{file}\"x\"; name*=utf-8''model"),
        "Content-Disposition: form-data; name*=utf-8''model".to_owned(),
        "Content-Disposition: form-data; name*0=mo; name*1=del".to_owned(),
        "Content-Disposition: form-data; filename=\"a\\\"; name=\"model\"".to_owned(),
        "Content-Disposition: form-data; filename*=utf-8''x; filename*=utf-8''y; name=\"x\"".to_owned(),
        "Content-Disposition: form-data;\r\n name=\"model\"".to_owned(),
        "Content-Disposition: form-data;\r\n\tname=\"model\"".to_owned(),
        "Content-Disposition : form-data; name=\"model\"".to_owned(),
        "Content-Disposition: attachment; name=\"model\"".to_owned(),
        "X: y\nContent-Disposition: form-data; name=\"model\"".to_owned(),
        "X: y\rContent-Disposition: form-data; name=\"model\"".to_owned(),
        format!("{file}\"x\"\r\nContent-Disposition: form-data; name=\"model\""),
        format!("{file}\"_charset_\""),
        format!("{file}\"x\"\r\nContent-Transfer-Encoding: quoted-printable"),
    ] {
        for first in [true, false] {
            let answer = send(&gateway, "some", SOUND, FORM, &form(&head, first)).await;
            assert_eq!(status(&answer), 400, "{head}: {answer}");
        }
    }
    for name in ["models", "fallback_model", "model_id", "fallbacks[]"] {
        let answer = send(&gateway, "some", SOUND, FORM, &form(&format!("{file}\"{name}\""), false)).await;
        assert_eq!(status(&answer), 403, "{name}: {answer}");
    }
    // Other places for a part: before the first boundary, after the last, behind one that is not at a line's beginning or not ended as it should be.
    let hidden = "Content-Disposition: form-data; name=\"model\"\r\n\r\nsecret";
    let plain = form("", false);
    for body in [
        format!("--a\r\n{hidden}\r\n{plain}"),
        format!("\r\n{plain}"),
        format!("{plain}--b\r\n{hidden}\r\n--b--\r\n"),
        plain.replace("sound", &format!("sound--b\r\n{hidden}")),
        plain.replace("sound", &format!("sound\n--b\n{}", hidden.replace("\r\n", "\n"))),
        plain.replace("sound", &format!("sound\r\n--b \r\n{hidden}")),
        plain.replace("sound", &format!("sound\r\n--bx\r\n{hidden}")),
        plain.replace("sound", &format!("sound\r--b\r{hidden}")),
        plain.replace("--b--\r\n", ""),
        plain.replace("--b--", "--b-"),
        plain.replace("\r\n", "\n"),
        chat("auto"),
        String::new(),
    ] {
        let answer = send(&gateway, "some", SOUND, FORM, &body).await;
        assert_eq!(status(&answer), 400, "{body}: {answer}");
    }
    assert!(mock.seen().is_empty(), "{:?}", mock.seen());
    let taken = send(&gateway, "some", SOUND, FORM, &form(&format!("{file}language; filename*=utf-8''x"), true)).await;
    assert_eq!(status(&taken), 200, "{taken}");
}

#[tokio::test]
async fn a_form_has_one_boundary_and_its_own_places() {
    let mock = echo().await;
    let gateway = limited(&mock).await;
    let other =
        format!("--c\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsecret\r\n--c--\r\n{}", form("", true));
    for kind in [
        "multipart/form-data; boundary=b; boundary=c",
        "multipart/form-data; boundary=c; boundary=b",
        "multipart/form-data; boundary=b; Boundary=c",
        "multipart/form-data; boundary*=utf-8''c; boundary=b",
        "multipart/form-data; boundary*0=c; boundary=b",
        "multipart/form-data; boundary=\"b\\\"; boundary=\"c\"",
        "multipart/form-data; boundary=b, multipart/form-data; boundary=c",
        "multipart/form-data; boundary=b; charset=utf-7",
        "multipart/form-data; boundary=b c",
        "multipart/form-data; boundary=",
        "multipart/form-data",
        "multipart/mixed; boundary=b",
        "multipart/related; boundary=b",
        "application/json, multipart/form-data; boundary=b",
        "application/json; boundary=b",
        "application/x-www-form-urlencoded; x=multipart/form-data; boundary=b",
        "\u{ff}",
    ] {
        for body in [form("", true), other.clone(), chat("auto")] {
            let answer = send(&gateway, "some", SOUND, &format!("content-type: {kind}\r\n"), &body).await;
            assert_eq!(status(&answer), 400, "{kind}: {answer}");
        }
    }
    for (first, second) in [(FORM, FORM), (FORM, JSON), (JSON, FORM), (JSON, JSON)] {
        for (start, body) in [(SOUND, form("", true)), ("POST /v1/chat/completions", chat("auto"))] {
            let answer = send(&gateway, "some", start, &format!("{first}{second}"), &body).await;
            assert_eq!(status(&answer), 400, "{first}{second}: {answer}");
        }
    }
    for path in [
        CHAT,
        "/v1/completions",
        "/v1/embeddings",
        "/v1/responses",
        "/v1/messages",
        "/v1/audio/speech",
        "/v1/images/generations",
        "/v1/rerank",
        "/v1/moderations",
        "/v1/batches",
        "/v1/files/f",
        "/v1/uploads/u/complete",
    ] {
        for body in [form("", true), chat("auto")] {
            let answer = send(&gateway, "all", &format!("POST {path}"), FORM, &body).await;
            assert!([400, 404].contains(&status(&answer)), "{path}: {answer}");
        }
    }
    assert!(mock.seen().is_empty(), "{:?}", mock.seen());
    for path in ["/v1/audio/translations", "/v1/images/edits", "/v1/images/variations", "/v1/files"] {
        let answer = send(&gateway, "all", &format!("POST {path}"), FORM, &form("", true)).await;
        assert_eq!(status(&answer), 200, "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_body_is_read_in_one_way() {
    let mock = echo().await;
    let gateway = limited(&mock).await;
    // JSON that is a form, too, with a model of its own.
    for body in [
        r#"{"model":"auto","messages":[1],"x":"&model=secret&"}"#,
        r#"{"model":"auto","messages":[1],"x":";model=secret;"}"#,
        r#"{"model":"auto","messages":[1],"x":"&%6dodel=secret&"}"#,
        r#"{"model":"auto","messages":[1],"x":"&+Model=secret&"}"#,
        r#"{"model":"auto","messages":[1],"x":"&model[]=secret&"}"#,
    ] {
        for kind in ["application/x-www-form-urlencoded", "application/X-WWW-Form-URLEncoded; charset=utf-8"] {
            let answer =
                send(&gateway, "some", &format!("POST {CHAT}"), &format!("content-type: {kind}\r\n"), body).await;
            assert_eq!(status(&answer), 400, "{body}: {answer}");
        }
    }
    for (encoding, refused) in
        [("gzip", 400), ("identity\r\ncontent-encoding: gzip", 400), ("identity, gzip", 400), ("br", 400), ("x", 415)]
    {
        for start in [format!("POST {CHAT}"), "POST /v1/responses".to_owned()] {
            let headers = format!("{JSON}content-encoding: {encoding}\r\n");
            assert_eq!(status(&send(&gateway, "some", &start, &headers, &chat("auto")).await), refused, "{encoding}");
        }
    }
    // Not JSON here, but perhaps to a server that is more lenient.
    for body in ["[{\"model\":\"secret\"}]", "model=secret", "{model:'secret'}"] {
        for kind in ["text/plain", "application/json"] {
            let answer = send(&gateway, "all", "POST /v1/responses", &format!("content-type: {kind}\r\n"), body).await;
            assert_eq!(status(&answer), 400, "{body}: {answer}");
        }
    }
    assert!(mock.seen().is_empty(), "{:?}", mock.seen());
    // A byte order mark hides no model.
    let headers = format!("{JSON}x-marked: 1\r\n");
    let marked = format!("\u{feff}{}", chat("secret"));
    let plain = send(&gateway, "some", &format!("POST {CHAT}"), &headers, &chat("secret")).await;
    let marked = send(&gateway, "some", &format!("POST {CHAT}"), &headers, &marked).await;
    assert_eq!(status(&plain), status(&marked));
    assert!(mock.seen().is_empty() && status(&marked) != 200, "{marked}");
    // What was read as JSON in UTF-8 goes on as that, whatever it was called.
    for (kind, sent) in [
        ("application/json", "application/json"),
        ("application/json; charset=utf-8", "application/json; charset=utf-8"),
        ("application/json; charset=utf-7", "application/json"),
        ("text/plain", "application/json"),
        ("application/x-www-form-urlencoded", "application/json"),
    ] {
        let answer =
            send(&gateway, "some", &format!("POST {CHAT}"), &format!("content-type: {kind}\r\n"), &chat("auto")).await;
        assert_eq!(status(&answer), 200, "{kind}: {answer}");
        assert_eq!(mock.seen().last().unwrap().header("content-type"), Some(sent), "{kind}");
    }
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

#[tokio::test]
async fn a_key_uses_its_endpoints_only() {
    let mock = echo().await;
    let list = keys(&[("few", ", endpoints: [chat, embeddings]"), ("all", "")]);
    let gateway = Gateway::start(&policy(&mock, &list)).await;
    for start in [
        "POST /v1/completions",
        "POST /v1/responses",
        "GET /v1/responses/r",
        "POST /v1/messages",
        "POST /v1/messages/batches",
        "POST /v1/audio/speech",
        "POST /v1/images/generations",
        "POST /v1/files",
        "DELETE /v1/files/f",
        "POST /v1/uploads",
        "POST /v1/batches",
        "POST /v1/route/explain?endpoint=completions",
    ] {
        let answer = send(&gateway, "few", start, JSON, &chat("auto").replace("messages", "prompt")).await;
        assert_eq!(status(&answer), 403, "{start}: {answer}");
        let said = body(&answer)["error"]["message"].to_string();
        assert!(said.contains("it may use 'chat', 'embeddings'"), "{start}: {said}");
    }
    assert!(mock.seen().is_empty());
    assert_eq!(status(&send(&gateway, "few", &format!("POST {CHAT}"), JSON, &chat("auto")).await), 200);
    assert_eq!(status(&send(&gateway, "few", "GET /v1/models", "", "").await), 200);
    assert_eq!(status(&send(&gateway, "all", "POST /v1/rerank", JSON, &chat("auto")).await), 200);
}

/// A provider that numbers the objects it creates, and returns any object.
fn provider(seen: &Seen) -> Plan {
    let path = seen.path.split('?').next().unwrap_or_default();
    let created = |prefix: &str| {
        let id = format!("{prefix}{}", seen.header("x-client-request-id").unwrap_or("0"));
        Plan::json(200, &json!({ "object": "x", "metadata": { "id": "file-fake" }, "id": id, "output_file_id": null }))
    };
    match (&*seen.method, path) {
        ("POST", "/v1/files") => created("file-"),
        ("POST", "/v1/uploads") => created("upload_"),
        ("POST", "/v1/batches" | "/v1/messages/batches") => created("batch_"),
        ("POST", "/v1/responses") if seen.streams() => {
            let id = format!("resp_{}", seen.header("x-client-request-id").unwrap_or("0"));
            let event = |kind: &str| json!({ "type": kind, "response": { "id": id, "usage": null } }).to_string();
            let text = json!({ "type": "response.output_text.delta", "delta": "a" }).to_string();
            Plan::stream().event(&event("response.created")).event(&text).event(&event("response.completed"))
        }
        ("POST", "/v1/responses") => created("resp_"),
        ("POST", path) if path.ends_with("/complete") => {
            Plan::json(200, &json!({ "id": "upload_1", "file": { "id": "file-complete" } }))
        }
        ("GET", path) if path.contains("batch_") => {
            Plan::json(200, &json!({ "id": "batch_1", "output_file_id": "file-output", "error_file_id": "file-error" }))
        }
        _ => {
            let choice = json!({ "index": 0, "message": { "role": "assistant", "content": "a" } });
            Plan::json(200, &json!({ "id": "file-claimed", "reached": true, "choices": [choice] }))
        }
    }
}

async fn make(gateway: &Gateway, key: &str, path: &str, number: u32, body: &Value) {
    let request =
        client::json(http().post(gateway.at(path)), body).bearer_auth(key).header("x-client-request-id", number);
    let answer = client::answer(request).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
}

/// Creates every kind of object: files, uploads, batches, responses, streamed and not, each with the number 1.
async fn make_all(gateway: &Gateway, key: &str) {
    let form = client::answer(
        http()
            .post(gateway.at("/v1/files"))
            .bearer_auth(key)
            .header("x-client-request-id", "1")
            .header("content-type", "multipart/form-data; boundary=b")
            .body("--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nx\r\n--b--\r\n"),
    );
    assert_eq!(form.await.status, 200);
    make(gateway, key, "/v1/uploads", 1, &json!({ "filename": "a" })).await;
    make(gateway, key, "/v1/batches", 1, &json!({ "input_file_id": "file-1" })).await;
    make(gateway, key, "/v1/messages/batches", 2, &json!({ "requests": [] })).await;
    make(gateway, key, "/v1/responses", 1, &json!({ "model": "auto", "input": "a" })).await;
    make(gateway, key, "/v1/responses", 2, &json!({ "model": "auto", "input": "a", "stream": true })).await;
}

/// Requests for another key's objects.
const THEIRS: [(&str, &str); 24] = [
    ("GET /v1/files/file-1", ""),
    ("GET /v1/files/FILE-1", ""),
    ("HEAD /v1/files/file-1", ""),
    ("GET /v1/files/file-1/content", ""),
    ("DELETE /v1/files/file-1", ""),
    ("POST /v1/files/file-1/x", "{}"),
    ("GET /v1/files/file-1?x=1", ""),
    ("POST /v1/uploads/upload_1/parts", "{}"),
    ("POST /v1/uploads/upload_1/complete", "{}"),
    ("POST /v1/uploads/upload_1/cancel", ""),
    ("GET /v1/batches/batch_1", ""),
    ("POST /v1/batches/batch_1/cancel", ""),
    ("GET /v1/messages/batches/batch_2/results", ""),
    ("GET /v1/batches/batch_2", ""),
    ("GET /v1/responses/resp_1", ""),
    ("GET /v1/responses/resp_2/input_items", ""),
    ("DELETE /v1/responses/resp_2", ""),
    ("POST /v1/responses/resp_1/cancel", ""),
    ("POST /v1/responses", r#"{"model":"auto","input":"a","previous_response_id":"resp_1"}"#),
    ("POST /v1/responses", r#"{"model":"auto","input":"a","pr\u0065vious_response_id":"resp\u005f1"}"#),
    ("POST /v1/responses", r#"{"model":"auto","input":[{"content":[{"type":"input_file","file_id":"file-1"}]}]}"#),
    ("POST /v1/responses", r#"{"model":"auto","input":"a","tools":[{"container":{"file_ids":["file-1"]}}]}"#),
    ("POST /v1/batches", r#"{"input_file_id":"file-1"}"#),
    (
        "POST /v1/chat/completions",
        r#"{"model":"auto","messages":[{"role":"user","content":[{"type":"file","file":{"f\u0069le_id":"file-1"}}]}]}"#,
    ),
];

async fn statuses(gateway: &Gateway, key: &str) -> Vec<u16> {
    let mut all = Vec::new();
    for (start, body) in THEIRS {
        let headers = if body.is_empty() { "" } else { JSON };
        all.push(status(&send(gateway, key, start, headers, body).await));
    }
    all
}

#[tokio::test]
async fn objects_are_there_for_the_key_that_made_them() {
    let mock = Mock::start(provider).await;
    let list = keys(&[("one", ""), ("two", "")]);
    let gateway = Gateway::start(&policy(&mock, &list)).await;
    make_all(&gateway, "one").await;
    let before = mock.seen().len();
    assert_eq!(statuses(&gateway, "two").await, [404; THEIRS.len()]);
    // Unknown ones are as if there were none, and what an answer merely mentions is not its caller's.
    for path in ["/v1/files/file-9", "/v1/files/file-fake", "/v1/responses/resp_9", "/v1/files/file-output"] {
        assert_eq!(status(&send(&gateway, "two", &format!("GET {path}"), "", "").await), 404, "{path}");
    }
    for path in
        ["/v1/files", "/v1/files?limit=1", "/v1/batches", "/v1/uploads", "/v1/messages/batches", "/v1/responses"]
    {
        for (method, key) in [("GET", "two"), ("HEAD", "two"), ("DELETE", "two"), ("GET", "one")] {
            // `HEAD` of an endpoint that generates is a check of the address.
            let want = if (method, path) == ("HEAD", "/v1/responses") { 405 } else { 403 };
            assert_eq!(
                status(&send(&gateway, key, &format!("{method} {path}"), "", "").await),
                want,
                "{method} {path}"
            );
        }
    }
    assert_eq!(mock.seen().len(), before, "none of it may reach the provider");
    assert_eq!(statuses(&gateway, "one").await, [200; THEIRS.len()]);

    // What came of a batch and of an upload is their owner's.
    for id in ["file-output", "file-error", "file-complete"] {
        let start = format!("GET /v1/files/{id}/content");
        assert_eq!(status(&send(&gateway, "two", &start, "", "").await), 404, "{id}");
        assert_eq!(status(&send(&gateway, "one", &start, "", "").await), 200, "{id}");
    }
    // An id that is made again stays its first owner's.
    make(&gateway, "two", "/v1/files", 1, &json!({})).await;
    assert_eq!(status(&send(&gateway, "two", "GET /v1/files/file-1", "", "").await), 404);
    assert_eq!(status(&send(&gateway, "one", "GET /v1/files/file-1", "", "").await), 200);

    let missing = body(&send(&gateway, "two", "GET /v1/files/file-1", "", "").await);
    let as_openai = json!({ "error": { "message": "No such File object: file-1", "type": "invalid_request_error", "param": "id", "code": null } });
    assert_eq!(missing, as_openai);
    let missing = body(&send(&gateway, "two", "GET /v1/messages/batches/batch_2", "", "").await);
    assert_eq!(
        (&missing["type"], &missing["error"]["type"]),
        (&json!("error"), &json!("not_found_error")),
        "as Anthropic"
    );
    // An object that is not stored has no owner.
    assert_eq!(
        status(&send(&gateway, "two", "POST /v1/responses/input_tokens", JSON, "{\"model\":\"auto\"}").await),
        200
    );
}

#[tokio::test]
async fn owners_outlive_reloads_and_restarts() {
    let mock = Mock::start(provider).await;
    let folder = tempfile::tempdir().unwrap();
    let list = keys(&[("one", ""), ("two", "")]);
    let with = |folder: &Path, more: &str| {
        policy(&mock, &format!("{list}usage: {{ path: \"{}\" }}\n{more}", folder.display()))
    };
    let mut gateway = Gateway::start(&with(folder.path(), "")).await;
    make_all(&gateway, "one").await;
    gateway.rewrite(&with(folder.path(), "limits: { in_flight: 99 }\n"));
    let reloaded = client::answer(http().post(gateway.admin("/admin/reload"))).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text());
    assert_eq!(statuses(&gateway, "two").await, [404; THEIRS.len()]);
    gateway.sigterm();
    assert!(gateway.wait_exit().await.success());

    let mut gateway = Gateway::start(&with(folder.path(), "")).await;
    assert_eq!(statuses(&gateway, "two").await, [404; THEIRS.len()]);
    assert_eq!(statuses(&gateway, "one").await, [200; THEIRS.len()]);
    // Without a word they are written within seconds.
    make(&gateway, "two", "/v1/files", 7, &json!({})).await;
    let objects = folder.path().join("objects.jsonl");
    let written = || std::fs::read_to_string(&objects).unwrap_or_default().contains("\"two\"");
    until("the owner to be written", async || written()).await;
    gateway.kill().await;
    let gateway = Gateway::start(&with(folder.path(), "")).await;
    assert_eq!(status(&send(&gateway, "two", "GET /v1/files/file-7", "", "").await), 200);
    assert_eq!(status(&send(&gateway, "one", "GET /v1/files/file-7", "", "").await), 404);
}

#[tokio::test]
async fn unknown_objects_are_sent_on_where_the_policy_allows_it() {
    let mock = Mock::start(provider).await;
    let list = keys(&[("one", ""), ("two", "")]);
    let gateway = Gateway::start(&policy(&mock, &format!("{list}objects: {{ unknown: allow }}\n"))).await;
    make_all(&gateway, "one").await;
    assert_eq!(statuses(&gateway, "two").await, [404; THEIRS.len()], "what is known stays its owner's");
    assert_eq!(status(&send(&gateway, "two", "GET /v1/files/file-9", "", "").await), 200);
    // Reading an object does not make the caller its owner.
    assert_eq!(status(&send(&gateway, "one", "GET /v1/files/file-claimed", "", "").await), 200);
    assert_eq!(status(&send(&gateway, "two", "GET /v1/files", "", "").await), 403, "lists show what is others'");

    let open = Gateway::start(&policy(&mock, "")).await;
    assert_eq!(statuses(&open, "-").await, [200; THEIRS.len()], "without keys everything is everybody's");
    assert_eq!(status(&send(&open, "-", "GET /v1/files", "", "").await), 200);
}
