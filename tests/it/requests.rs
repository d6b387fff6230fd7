//! Requests upstream: the client's bytes with only the necessary changes, under the gateway's authority, framed anew, exactly once.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use serde_json::json;

use crate::support::{
    client::{self, End, Sse, http, raw},
    gateway::{Gateway, Start},
    mock::{Mock, Plan, Seen, polite},
};

const CHAT: &str = "/v1/chat/completions";

/// One pool with this backend, as written in a policy; clients may request any model.
fn policy(backend: &str, more: &str) -> String {
    format!(
        "pools:\n  p:\n    speaks: [chat, completions, embeddings, responses, audio, files, images]\n    backends: [{backend}]\n\
         models: {{ \"*\": {{ to: p }} }}\n{more}"
    )
}

/// A mock with a gateway whose backend has these further settings.
async fn bed(settings: &str) -> (Mock, Gateway) {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&policy(&format!("{{ url: \"{}\"{settings} }}", mock.url()), "")).await;
    (mock, gateway)
}

/// Sends `body` byte for byte, and returns the request that the mock received.
async fn sent(mock: &Mock, gateway: &Gateway, path: &str, body: &str) -> Seen {
    let before = mock.seen().len();
    let request = http().post(gateway.at(path)).header("content-type", "application/json").body(body.to_owned());
    let answer = client::answer(request).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = mock.seen();
    assert_eq!(seen.len(), before + 1);
    seen[before].clone()
}

#[tokio::test]
async fn bodies_are_forwarded_byte_for_byte() {
    let (mock, gateway) = bed("").await;
    let chat = "\n{ \"messages\":[ {\"role\":\"user\",\"content\":\"\u{e4}\\u00e4 \\ud83d\"} ],\n\t\"x\": 1e400, \"seed\":-0.0,\
                \"model\" : \"chat\" , \"stream_options\":{\"x\":1},\"top_k\":3 } \n";
    assert_eq!(sent(&mock, &gateway, CHAT, chat).await.body, chat);
    let embed = r#"{"input":[[1,2],[3]], "model":"embed","encoding_format":"base64"}"#;
    let seen = sent(&mock, &gateway, "/v1/embeddings", embed).await;
    assert_eq!((seen.path.as_str(), &*seen.body), ("/v1/embeddings", embed.as_bytes()));
    let asked = r#"{"model":"chat","stream":true,"stream_options":{ "include_usage" : true },"messages":[1]}"#;
    assert_eq!(sent(&mock, &gateway, CHAT, asked).await.body, asked, "usage was asked for by the client");
    let seen = sent(&mock, &gateway, "/v1/completions?beta=1&x=%20", r#"{"model":"chat","prompt":"a"}"#).await;
    assert_eq!(seen.path, "/v1/completions?beta=1&x=%20");
}

#[tokio::test]
async fn the_model_is_renamed_and_nothing_else() {
    let (mock, gateway) = bed(", model: org/new-name:7b").await;
    let before =
        "{\"messages\":[{\"content\":\"\\\"model\\\":\\\"any\\\"\"}],  \"model\" :\t\"any\",\"x\":{\"model\":\"any\"}}";
    let after = before.replacen("\t\"any\"", "\t\"org/new-name:7b\"", 1);
    assert_eq!(sent(&mock, &gateway, CHAT, before).await.body, after);
}

#[tokio::test]
async fn usage_is_asked_for_in_streams() {
    let (mock, gateway) = bed("").await;
    for (before, after) in [
        (
            r#"{"model":"chat","stream":true,"messages":[1]}"#,
            r#"{"model":"chat","stream":true,"messages":[1],"stream_options":{"include_usage":true}}"#,
        ),
        (
            r#"{"model":"chat","stream_options":{"include_usage":false,"x":[1]},"stream":true,"messages":[1]}"#,
            r#"{"model":"chat","stream_options":{"include_usage":true,"x":[1]},"stream":true,"messages":[1]}"#,
        ),
    ] {
        assert_eq!(sent(&mock, &gateway, CHAT, before).await.body, after);
    }
}

#[tokio::test]
async fn fields_are_dropped_and_filled_in() {
    let settings = ", drop: [top_k, stream_options], defaults: { max_tokens: 2048, stop: [\"x\"] }";
    let (mock, gateway) = bed(settings).await;
    let seen = sent(&mock, &gateway, CHAT, r#"{"top_k":5,"model":"chat","messages":[1],"stream":true}"#).await;
    assert_eq!(seen.body, r#"{"model":"chat","messages":[1],"stream":true,"max_tokens":2048,"stop":["x"]}"#);
    let full = r#"{"model":"chat","messages":[1],"max_tokens":1,"stop":null}"#;
    assert_eq!(sent(&mock, &gateway, CHAT, full).await.body, full, "what the client sent stays");
}

#[tokio::test]
async fn an_adapter_is_reached_under_its_own_name_only() {
    let mock = Mock::start(polite).await;
    let url = mock.url();
    let policy = format!(
        "engines: {{ g: {{ url: \"{url}\" }} }}\npools:\n  p:\n    backends:\n      - {{ engine: g, model: base }}\n      \
         - {{ engine: g, model: legal-lora, adapter: true, as: legal }}\n"
    );
    let gateway = Gateway::start(&policy).await;
    for (asked, upstream) in [("legal", "legal-lora"), ("base", "base"), ("auto", "base")] {
        let answer = client::post(&gateway.at(CHAT), &json!({ "model": asked, "messages": [1] })).await;
        assert_eq!(answer.header("x-signalbox-model"), upstream);
        assert_eq!(mock.seen().last().unwrap().model(), upstream, "{asked}");
    }
    let answer = client::post(&gateway.at(CHAT), &json!({ "model": "legal-lora", "messages": [1] })).await;
    assert_eq!(answer.status, 404, "the upstream's name of an adapter is none of the clients' business");
    let models = client::get(&gateway.at("/v1/models")).await.json();
    let names: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
    assert_eq!(names, ["auto", "base", "legal"]);
}

#[tokio::test]
async fn azure_is_addressed_by_deployment_with_its_own_key() {
    let mock = Mock::start(polite).await;
    let policy = format!(
        "accounts: {{ az: {{ keys: [\"${{AZURE_KEY}}\"] }} }}\n\
         engines: {{ az: {{ url: \"http://{}\", dialect: azure, api_version: \"2024-10-21\", account: az }} }}\n\
         pools:\n  p:\n    backends: [{{ engine: az, deployment: gpt4o-prod }}]\n\
         models: {{ gpt-4o: {{ to: p }} }}\n",
        mock.addr()
    );
    let gateway = Start::with(&policy).env("AZURE_KEY", "azure-secret").start().await;
    let body = r#"{"model":"gpt-4o","messages":[1]}"#;
    let request = http().post(gateway.at("/v1/chat/completions?x=1")).bearer_auth("mine").body(body);
    assert_eq!(client::answer(request).await.status, 200);
    let seen = &mock.seen()[0];
    assert_eq!(seen.path, "/openai/deployments/gpt4o-prod/chat/completions?api-version=2024-10-21&x=1");
    assert_eq!((seen.header("api-key"), seen.header("authorization")), (Some("azure-secret"), None));
    assert_eq!(seen.body, body);
}

#[tokio::test]
async fn keys_of_an_account_are_all_used_and_none_is_shown() {
    let mock = Mock::start(polite).await;
    let policy = format!(
        "accounts: {{ a: {{ keys: [\"${{KEY_1}}\", \"${{KEY_2}}\"] }} }}\n\
         engines: {{ e: {{ url: \"{}\", account: a }} }}\n\
         pools: {{ p: {{ model: m, backends: [{{ engine: e }}] }} }}\n",
        mock.url()
    );
    let gateway = Start::with(&policy).env("KEY_1", "sk-secret-1").env("KEY_2", "sk-secret-2").start().await;
    let client = http();
    // That one of two keys is drawn 64 times in a row does not happen.
    for _ in 0..64 {
        let body = json!({ "model": "m", "messages": [1] });
        let request = client::json(client.post(gateway.at(CHAT)), &body).bearer_auth("of-the-client");
        let answer = client::answer(request).await;
        assert!(!format!("{:?}{}", answer.headers, answer.text()).contains("sk-secret"));
    }
    let mut used: Vec<_> = mock.seen().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used, ["Bearer sk-secret-1", "Bearer sk-secret-2"]);
    let state = gateway.get_json("/admin/state").await.to_string();
    let decisions = gateway.get_json("/admin/decisions").await.to_string();
    assert!(![state, decisions, gateway.log()].concat().contains("sk-secret"));
}

#[tokio::test]
async fn authority_and_hops_stay_here_both_ways() {
    let mock = Mock::start(|_| {
        Plan::chat("hi")
            .header("set-cookie", "a=b")
            .header("connection", "keep-alive, x-hop")
            .header("keep-alive", "timeout=5")
            .header("x-hop", "1")
            .header("proxy-authenticate", "Basic")
            .header("x-request-id", "upstreams")
            .header("x-signalbox-pool", "forged")
            .header("x-ratelimit-remaining-tokens", "7")
    })
    .await;
    let gateway = Gateway::start(&policy(&format!("\"{}\"", mock.url()), "")).await;
    let body = json!({ "model": "m", "messages": [1] });
    let mut request = client::json(http().post(gateway.at(CHAT)), &body);
    for (name, value) in [
        ("authorization", "Bearer mine"),
        ("x-api-key", "mine"),
        ("api-key", "mine"),
        ("cookie", "mine"),
        ("proxy-authorization", "mine"),
        ("connection", "x-private"),
        ("x-private", "1"),
        ("te", "trailers"),
        ("x-signalbox-pool", "p"),
        ("accept-encoding", "gzip"),
        ("traceparent", "00-1"),
        ("x-request-id", "client-1"),
        ("openai-beta", "kept"),
    ] {
        request = request.header(name, value);
    }
    let answer = client::answer(request).await;
    let seen = &mock.seen()[0];
    let mut names: Vec<_> = seen.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    let wanted = [
        "accept",
        "content-length",
        "content-type",
        "host",
        "openai-beta",
        "traceparent",
        "x-request-id",
        "x-signalbox-passed",
    ];
    assert_eq!(names, wanted, "{:?}", seen.headers);
    assert_eq!(seen.header("host").unwrap(), mock.addr().to_string());
    assert_eq!(seen.header("x-request-id"), Some("client-1"));

    for name in ["set-cookie", "connection", "keep-alive", "x-hop", "proxy-authenticate"] {
        assert_eq!(answer.header(name), "", "{name}");
    }
    assert_eq!((answer.header("x-request-id"), answer.header("x-signalbox-id")), ("client-1", "client-1"));
    assert_eq!((answer.header("x-signalbox-pool"), answer.header("x-ratelimit-remaining-tokens")), ("p", "7"));
    assert_eq!(answer.headers.get_all("x-signalbox-pool").iter().count(), 1);
}

#[tokio::test]
async fn requests_get_an_id_and_keep_a_sound_one() {
    let (mock, gateway) = bed("").await;
    let body = json!({ "model": "chat", "messages": [1] });
    let answer = client::post(&gateway.at(CHAT), &body).await;
    let id = answer.header("x-request-id").to_owned();
    assert!(id.starts_with("sb-") && mock.seen()[0].header("x-request-id") == Some(&id), "{id}");
    assert_eq!(gateway.get_json(&format!("/admin/decisions/{id}")).await["status"], 200);
    for unsound in ["two words", &"x".repeat(200)] {
        let request = client::json(http().post(gateway.at(CHAT)), &body).header("x-request-id", unsound);
        assert!(client::answer(request).await.header("x-request-id").starts_with("sb-"));
    }
}

#[tokio::test]
async fn a_form_is_renamed_and_a_binary_answer_passes() {
    let noise: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let served = noise.clone();
    let mock = Mock::start(move |_| Plan::text(200, "audio/mpeg", served.clone()).cut_every(9_999)).await;
    let gateway = Gateway::start(&policy(&format!("{{ url: \"{}\", model: w-1 }}", mock.url()), "")).await;
    let form = |model: &str| {
        let field = format!("--b0\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n{model}\r\n");
        let file = b"--b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\nContent-Type: audio/wav\r\n\r\n";
        [field.as_bytes(), file, &noise, b"\r\n--b0--\r\n"].concat()
    };
    let kind = "multipart/form-data; boundary=b0";
    let url = gateway.at("/v1/audio/transcriptions");
    let answer = client::answer(http().post(&url).header("content-type", kind).body(form("whisper"))).await;
    let seen = &mock.seen()[0];
    assert_eq!((seen.header("content-type"), seen.path.as_str()), (Some(kind), "/v1/audio/transcriptions"));
    assert!(seen.body == form("w-1"), "only the model's name may change");
    assert!(answer.header("content-type") == "audio/mpeg" && answer.body == noise);
    let speech = json!({ "model": "tts", "input": "hello", "voice": "x" });
    let answer = client::post(&gateway.at("/v1/audio/speech"), &speech).await;
    assert!(mock.seen()[1].model() == "w-1" && answer.body == noise);
}

#[tokio::test]
async fn a_binary_answer_that_stalls_is_broken_off() {
    let mock = Mock::start(|_| Plan::text(200, "audio/mpeg", "some").gate(1).body("thing")).await;
    let gateway = Gateway::start(&policy(&format!("\"{}\"", mock.url()), "timeouts: { idle: 300ms }\n")).await;
    let mut answer = Sse::post(&gateway.at("/v1/audio/speech"), &json!({ "model": "tts", "input": "a" })).await;
    let (got, end) = answer.rest().await;
    assert!(got == ["some"] && matches!(end, End::Broken(_)), "{got:?} {end:?}");
    assert_eq!(mock.gone().await.model(), "tts", "the engine is let go");
}

#[tokio::test]
async fn files_pass_with_their_query() {
    let mock = Mock::start(|seen| Plan::json(200, &json!({ "path": seen.path, "method": seen.method }))).await;
    let gateway = Gateway::start(&policy(&format!("\"{}\"", mock.url()), "")).await;
    let answer = client::get(&gateway.at("/v1/files?limit=2&after=file%2D1&x=a+b")).await;
    assert_eq!(answer.json(), json!({ "path": "/v1/files?limit=2&after=file%2D1&x=a+b", "method": "GET" }));
    let answer = client::answer(http().delete(gateway.at("/v1/files/file-1"))).await;
    assert_eq!(answer.json(), json!({ "path": "/v1/files/file-1", "method": "DELETE" }));
    assert!(mock.seen().iter().all(|seen| seen.body.is_empty()));
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_and_is_no_garbage() {
    let mock = Mock::start(|_| Plan::status(200).header("content-type", "application/json")).await;
    let policy = format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false }} }}\npools: {{ p: {{ speaks: [batches], backends: [{{ engine: e }}] }} }}\n",
        mock.url()
    );
    let gateway = Gateway::start(&policy).await;
    for _ in 0..4 {
        assert_eq!(client::answer(http().head(gateway.at("/v1/batches"))).await.status, 200);
    }
    assert_eq!(gateway.get_json("/admin/state").await["pools"][0]["backends"][0]["state"], "up");
}

#[tokio::test]
async fn no_path_leads_out_of_the_api() {
    let mock = Mock::start(|_| Plan::json(200, &json!({ "reached": true }))).await;
    let gateway = Gateway::start(&policy(&format!("\"{}\"", mock.url()), "")).await;
    for path in [
        "/v1/files/../../slots",
        "/v1/files/%2e%2E/%2e./slots",
        "/v1/files/./x",
        "/v1/files/..\\..\\slots",
        "/v1/files/..%2f..%2Fslots",
        "/v1/files/%5c..%5cslots",
        "/v1/responses/..",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = raw(gateway.listen(), request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 404") || answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
    }
    assert!(mock.seen().is_empty(), "{:?}", mock.seen());
    assert_eq!(client::get(&gateway.at("/v1/files/a..b/.c")).await.status, 200, "dots are no crime");
}

#[tokio::test]
async fn http2_clients_are_served() {
    let (mock, gateway) = bed("").await;
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    for stream in [false, true] {
        let body = json!({ "model": "chat", "stream": stream, "messages": [1] });
        let request = client::json(client.post(gateway.at(CHAT)), &body).header("cookie", "a=b");
        let response = request.send().await.unwrap();
        assert_eq!((response.version(), response.status().as_u16()), (http::Version::HTTP_2, 200));
        assert!(response.text().await.unwrap().contains(if stream { "[DONE]" } else { "Hello there" }));
    }
    assert!(mock.seen().iter().all(|seen| seen.header("cookie").is_none()));
}

#[tokio::test]
async fn a_long_prompt_passes() {
    let (mock, gateway) = bed(", model: other").await;
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "w\u{f6}rd ".repeat(60_000) }] });
    let seen = sent(&mock, &gateway, CHAT, &body.to_string()).await;
    assert!(seen.body.len() > 300_000);
    assert!(seen.body == body.to_string().replacen("\"m\"", "\"other\"", 1), "only the model's name may change");
}

#[tokio::test]
async fn non_idempotent_requests_are_not_retried() {
    let mock = Mock::start(|seen| match seen.model() {
        "garbage" => Plan::text(200, "application/json", "no json"),
        "close" => Plan::close(),
        "error" => Plan::error(503, "busy"),
        "cut" => Plan::stream().cut(),
        _ => Plan::stream().event(r#"{"type":"error","message":"broken"}"#),
    })
    .await;
    let other = Mock::start(|_| Plan::json(200, &json!({ "id": "r" }))).await;
    let pool =
        |name: &str, mock: &Mock| format!("  {name}: {{ speaks: [responses], backends: [\"{}\"] }}\n", mock.url());
    let policy = format!(
        "pools:\n{}{}models: {{ \"*\": {{ to: first, fallback: [second], timeouts: {{ first_token: 1s }} }} }}\n",
        pool("first", &mock),
        pool("second", &other)
    );
    let models = [("garbage", false), ("close", false), ("error", false), ("cut", true), ("empty", true)];
    for (model, stream) in models {
        // Of its own each: one that failed a few times is not the first choice any more.
        let gateway = Gateway::start(&policy).await;
        let body = json!({ "model": model, "stream": stream, "input": "x", "store": true });
        let answer = client::post(&gateway.at("/v1/responses"), &body).await;
        assert!(answer.status.is_server_error(), "{model}: {}", answer.text());
    }
    let gateway = Gateway::start(&policy).await;
    assert_eq!((mock.seen().len(), other.seen().len()), (models.len(), 0));
    // What never left may go elsewhere.
    mock.stop().await;
    let answer = client::post(&gateway.at("/v1/responses"), &json!({ "model": "m", "input": "x" })).await;
    assert_eq!(answer.json()["id"], "r");
}

#[tokio::test]
async fn smuggled_requests_do_not_get_through() {
    let (mock, gateway) = bed("").await;
    let body = r#"{"model":"chat","messages":[1]}"#;
    let length = body.len();
    let inner = format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    let head = |headers: &str| format!("POST {CHAT} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let both = length + inner.len();
    let chunked_and = |headers: &str| head(headers) + &chunked + &inner;
    let attempts = [
        ("both lengths", chunked_and(&format!("content-length: {both}\r\ntransfer-encoding: chunked\r\n"))),
        ("both, the other way", chunked_and("transfer-encoding: chunked\r\ncontent-length: 4\r\n")),
        ("two lengths", head(&format!("content-length: {length}\r\ncontent-length: {both}\r\n")) + body + &inner),
        ("a list of lengths", head(&format!("content-length: {length}, {both}\r\n")) + body + &inner),
        ("a signed length", head(&format!("content-length: +{length}\r\n")) + body + &inner),
        ("an unknown coding", chunked_and("transfer-encoding: xchunked\r\n")),
        ("chunked not last", chunked_and("transfer-encoding: chunked, identity\r\n")),
        ("space before the colon", chunked_and("transfer-encoding : chunked\r\n")),
        ("a folded header", chunked_and("transfer-encoding:\r\n chunked\r\n")),
        ("a bare line feed", head(&format!("x: 1\ncontent-length: {length}\r\n")) + body + &inner),
        ("a bare carriage return", head(&format!("x: 1\rcontent-length: {length}\r\n")) + body + &inner),
        ("a NUL", head(&format!("x: \0\r\ncontent-length: {length}\r\n")) + body + &inner),
        ("a chunk size too large", head("transfer-encoding: chunked\r\n") + "fffffffffffffffff\r\n" + body + &inner),
        (
            "a chunk extension",
            head("transfer-encoding: chunked\r\n") + &format!("{length:x};a=b\r\n{body}\r\n0\r\n\r\n") + &inner,
        ),
    ];
    for (what, bytes) in attempts {
        let before = mock.seen().len();
        let answer = raw(gateway.listen(), bytes.as_bytes()).await;
        let answers = answer.matches("HTTP/1.1 ").count();
        let seen = mock.seen().split_off(before);
        assert!(answers <= 1 && seen.len() <= 1, "{what}: {} upstream, {answers} answers: {answer}", seen.len());
        assert_eq!(seen.len() == 1, answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
        for seen in seen {
            let framing = seen.headers.iter().filter(|(name, _)| {
                name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
            });
            assert_eq!((framing.count(), &*seen.body), (1, body.as_bytes()), "{what}: {:?}", seen.headers);
        }
    }
    let sound = raw(gateway.listen(), (head(&format!("content-length: {length}\r\n")) + body).as_bytes()).await;
    assert!(sound.starts_with("HTTP/1.1 200"), "{sound}");
}
