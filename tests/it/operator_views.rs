//! Views and changes of operators: the audit log, the search over decisions, the policy with its file, explanations.

use std::fs;

use http::Method;
use serde_json::{Value, json};

use crate::{
    keys::keys,
    support::{
        client::{self, Answer, answer, get, http, post},
        gateway::{Gateway, Start},
        mock::{Mock, polite},
        until,
    },
};

const TOKEN: &str = "correct-horse";
/// A key whose secret is its id.
const SECRET: &str = "web-battery-staple";

async fn asked(method: Method, url: &str, user: &str) -> Answer {
    answer(http().request(method, url).basic_auth(user, Some(TOKEN))).await
}

#[tokio::test]
async fn every_change_is_in_the_audit_log() {
    let (mock, folder) = (Mock::start(polite).await, tempfile::tempdir().expect("a folder"));
    let policy = format!(
        "admin: {{ listen: \"127.0.0.1:0\", token: \"${{ADMIN}}\" }}\npools:\n  main: {{ model: m, backends: [\"{}\"] }}\n\
         usage: {{ path: \"{}\" }}\nmanaged_keys: {{ path: keys.json }}\n",
        mock.url(),
        folder.path().display()
    );
    let mut gateway = Start::with(&policy).env("ADMIN", TOKEN).start().await;
    let backend = mock.url().replace("http://", "").replace("/v1", "");
    let drain = gateway.admin(&format!("/admin/backends/main/{backend}/drain"));
    assert_eq!(asked(Method::POST, &drain, "ann").await.status, 200);
    assert_eq!(asked(Method::POST, &gateway.admin("/admin/keys/none/revoke"), "").await.status, 404);
    let create = http().post(gateway.admin("/admin/keys")).bearer_auth(TOKEN);
    assert_eq!(answer(client::json(create, &json!({ "id": "trial" }))).await.status, 201);
    assert_eq!(answer(http().post(gateway.admin("/admin/reload"))).await.status, 401);
    let explain = http().post(gateway.admin("/admin/explain")).bearer_auth(TOKEN);
    answer(client::json(explain, &json!({ "request": { "model": "m", "messages": [] } }))).await;

    let prompt = http().post(gateway.admin("/admin/playground")).bearer_auth(TOKEN);
    let prompt = client::json(
        prompt,
        &json!({ "request": { "model": "m", "messages": [{ "role": "user", "content": "of no concern" }] } }),
    );
    assert_eq!(answer(prompt).await.status, 401, "it has no key");
    gateway.sighup();
    until("the reload", async || {
        let log = asked(Method::GET, &gateway.admin("/admin/audit"), "").await.json();
        log[0]["who"] == "SIGHUP"
    })
    .await;
    assert_eq!(get(&gateway.admin("/admin/audit")).await.status, 401, "which is no attempt");

    let hash = asked(Method::GET, &gateway.admin("/admin/policy"), "").await.json()["hash"].clone();
    let wanted = [
        ("SIGHUP", "reload policy", hash.as_str().expect("a hash"), "ok"),
        ("token", "send prompt", "chat m", "refused 401"),
        ("token", "create key", "trial", "ok"),
        ("token", "revoke key", "none", "refused 404"),
        ("ann", "drain backend", &*format!("main/{backend}"), "ok"),
    ];
    let rows = |log: &Value| -> Vec<[String; 4]> {
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let row = |row: &Value| ["who", "action", "target", "result"].map(|name| text(row, name));
        log.as_array().expect("a list").iter().map(row).collect()
    };
    let all = asked(Method::GET, &gateway.admin("/admin/audit"), "").await.json();
    let (refused, log): (Vec<_>, Vec<_>) =
        all.as_array().expect("a list").iter().cloned().partition(|row| row["who"] == "unknown");
    let log = json!(log);
    assert_eq!(
        rows(&json!(refused)),
        [["unknown", "POST", "/admin/reload", "refused 401"].map(str::to_owned)],
        "{all}"
    );
    let peers: Vec<_> = all.as_array().expect("a list").iter().map(|row| row["peer"].as_str()).collect();
    assert_eq!(peers, [&[None], &[Some("127.0.0.1"); 5][..]].concat(), "{all}");
    let wanted: Vec<_> = wanted.iter().map(|(a, b, c, d)| [*a, *b, *c, *d].map(str::to_owned)).collect();
    assert_eq!(rows(&log), wanted, "{log}");
    let one = asked(Method::GET, &gateway.admin("/admin/audit?limit=1"), "").await.json();
    assert_eq!(rows(&one), wanted[..1]);
    let history = asked(Method::GET, &gateway.admin("/admin/history"), "").await.json();
    let marks = history["events"].as_array().expect("events").iter().filter(|event| event["kind"] == "action");
    let marks: Vec<_> = marks.filter_map(|event| event["text"].as_str()).collect();
    assert_eq!(marks, [format!("ann: drain backend main/{backend}"), "token: create key trial".to_owned()]);
    assert!(gateway.log().contains("audit: drain backend"), "{}", gateway.log());
    gateway.sigterm();
    gateway.wait_exit().await;
    let file = fs::read_to_string(folder.path().join("audit.jsonl")).expect("a file");
    assert_eq!(file.lines().count(), 6, "{file}");
    assert!(!file.contains(TOKEN) && !file.contains("concern"), "{file}");
}

#[tokio::test]
async fn decisions_are_searched() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&format!("pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n", mock.url())).await;
    let mut ids = Vec::new();
    for (model, status) in [("m", 200), ("nothing", 404), ("m", 200)] {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hi" }] });
        let answer = post(&gateway.at("/v1/chat/completions"), &body).await;
        assert_eq!(answer.status, status);
        ids.push(answer.header("x-signalbox-id").to_owned());
        gateway.decision(ids.last().expect("an id")).await;
    }
    let found = async |query: &str| {
        let answer = gateway.get_json(&format!("/admin/decisions?{query}")).await;
        let rows = answer["decisions"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let rows = rows.iter().map(|row| row["id"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>();
        (rows, answer["more"] == true)
    };
    assert_eq!(found("pool=main&limit=1").await, (vec![ids[2].clone()], true));
    assert_eq!(found(&format!("pool=main&before={}", ids[2])).await, (vec![ids[0].clone()], false));
    assert_eq!(found("q=nothing%20404").await.0, [ids[1].clone()]);
    assert_eq!(found(&format!("q={}", ids[0])).await.0, [ids[0].clone()]);
    assert_eq!(get(&gateway.admin("/admin/decisions?colour=red")).await.status, 400);
    assert_eq!(gateway.get_json("/admin/decisions").await.as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn the_policy_is_shown_with_its_file_and_without_secrets() {
    let mock = Mock::start(polite).await;
    let policy = |key: &str, more: &str| {
        format!("pools:\n  main:\n    model: m\n    backends: [{{ url: \"{}\", key: {key} }}]\n{more}", mock.url())
    };
    let gateway = Gateway::start(&policy("sk-first-secret", "")).await;
    let first = gateway.get_json("/admin/policy").await;
    assert_eq!((&first["file"]["changed"], &first["file"]["problems"]), (&json!(false), &json!([])), "{first}");
    assert!(first["text"].as_str().is_some_and(|text| text.contains("model: m")), "{first}");
    assert!(first["file"]["diff"].is_null() && first["file"]["hash"] == first["hash"], "{first}");
    gateway.rewrite(&policy("sk-second-secret", "timeouts: { first_token: 9s }\n"));
    until("the reload", async || gateway.get_json("/admin/policy").await["hash"] != first["hash"]).await;
    gateway.rewrite(&policy("sk-third-secret", "timeouts: { first_tokn: 9s }\n"));
    let mut seen = Value::Null;
    until("the failed reload", async || {
        seen = gateway.get_json("/admin/policy").await;
        seen["history"].as_array().map_or(0, Vec::len) == 3
    })
    .await;
    let (file, history) = (&seen["file"], &seen["history"]);
    assert_eq!(file["changed"], json!(true));
    assert_eq!((&file["problems"][0]["line"], &file["problems"][0]["column"]), (&json!(5), &json!(13)), "{seen}");
    let diff = file["diff"].as_str().expect("a diff");
    assert!(
        diff.contains("-timeouts: { first_token: 9s }") && diff.contains("+timeouts: { first_tokn: 9s }"),
        "{diff}"
    );
    assert!(
        history[0]["hash"].is_null() && history[0]["what"].as_str().is_some_and(|it| it.contains("1 problem")),
        "{seen}"
    );
    assert_eq!((&history[1]["what"], &history[2]["what"]), (&json!("loaded"), &json!("loaded at the start")), "{seen}");
    assert!(!seen.to_string().contains("-secret"), "{seen}");
}

#[tokio::test]
async fn requests_are_explained_by_the_policy_in_force_or_a_pasted_one() {
    let mock = Mock::start(polite).await;
    let gateway = Start::with(&format!(
        "pools:\n  main: {{ model: m, backends: [\"{}\"], price: {{ input: 1, output: 2 }} }}\n",
        mock.url()
    ))
    .env("NEVER_READ", "sk-from-the-environment")
    .start()
    .await;
    let secret = gateway.dir().join("secret");
    fs::write(&secret, "sk-from-a-file").expect("a file");
    let explain = async |body: Value| post(&gateway.admin("/admin/explain"), &body).await;
    let request = json!({ "model": "m", "messages": [{ "role": "user", "content": "hello there" }] });
    let own = explain(json!({ "api": "chat", "request": request })).await;
    assert_eq!(own.status, 200, "{}", own.text());
    assert_eq!(own.json()["pools"][0]["pool"], "main");
    assert!(own.json()["expected_cost_usd"].as_f64().is_some_and(|usd| usd > 0.0), "{}", own.text());
    let pasted = format!(
        "pools:\n  other:\n    model: m\n    backends:\n      - {{ url: \"http://10.0.0.1/v1\", key: \"${{NEVER_READ}}\" }}\n      \
         - {{ url: \"http://10.0.0.2/v1\", key: {{ file: {} }} }}\n      - {{ dns: {{ name: engines.test, port: 8000 }} }}\n",
        secret.display()
    );
    let other = explain(json!({ "request": request, "policy": pasted })).await;
    assert_eq!(other.status, 200, "{}", other.text());
    assert_eq!(
        (other.json()["pools"][0]["pool"].clone(), other.json()["expected_cost_usd"].clone()),
        (json!("other"), Value::Null)
    );
    assert!(!other.text().contains("sk-from"), "{}", other.text());
    let cached = "pools: { main: { model: m, backends: [\"http://10.0.0.1/v1\"] } }\ncache: { exact: {}, semantic: { scope: shared } }\n";
    for (api, request, exact, semantic) in [
        ("chat", request.clone(), json!("temperature"), Value::Null),
        (
            "messages",
            json!({ "model": "m", "max_tokens": 9, "temperature": 0, "messages": [{ "role": "user", "content": "the weather today?" }] }),
            Value::Null,
            json!("volatile"),
        ),
    ] {
        let said = explain(json!({ "api": api, "request": request, "policy": cached })).await.json();
        assert_eq!(
            (&said["cache"]["exact"]["reason"], &said["cache"]["semantic"]["reason"]),
            (&exact, &semantic),
            "{said}"
        );
    }
    let broken =
        explain(json!({ "request": request, "policy": "pools: { main: { modell: \"${NEVER_READ}\" } }" })).await;
    assert_eq!(broken.status, 400);
    assert_eq!(broken.json()["problems"][0]["line"], 1, "{}", broken.text());
    assert!(!broken.text().contains("sk-from"), "{}", broken.text());
    let unknown =
        explain(json!({ "request": { "model": "none", "messages": [{ "role": "user", "content": "hi" }] } })).await;
    assert_eq!(
        (unknown.status.as_u16(), unknown.json()["error"]["status"].clone()),
        (400, json!(404)),
        "{}",
        unknown.text()
    );
    assert_eq!(explain(json!({ "request": request, "policy": "#".repeat(2 << 20) })).await.status, 413);
    assert_eq!(explain(json!({ "request": request, "colour": 1 })).await.status, 400);
    assert!(mock.seen().iter().all(|seen| !seen.path.contains("chat/completions")), "nothing was sent");
    assert_eq!(gateway.get_json("/admin/state").await["requests"]["total"], 0, "nothing was counted");
}

#[tokio::test]
async fn a_prompt_is_sent_through_the_api() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&format!(
        "pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n{}",
        mock.url(),
        keys(&[(SECRET, "")])
    ))
    .await;
    let url = gateway.admin("/admin/playground");
    let hi = json!([{ "role": "user", "content": "hi" }]);
    for (api, request, word) in [
        ("chat", json!({ "model": "m", "stream": true, "messages": hi }), "chat.completion.chunk"),
        ("messages", json!({ "model": "m", "stream": true, "max_tokens": 9, "messages": hi }), "message_stop"),
        ("responses", json!({ "model": "m", "stream": true, "input": "hi" }), "response.completed"),
    ] {
        let sent = post(&url, &json!({ "api": api, "request": request, "key": SECRET })).await;
        assert!(sent.status == 200 && sent.text().contains(word), "{api}: {}", sent.text());
        let id = sent.header("x-signalbox-id").to_owned();
        let line = gateway.decision(&id).await;
        assert_eq!((&line["key"], &line["outcome"]), (&json!(SECRET), &json!("ok")), "{line}");
    }
    let request = json!({ "model": "m", "messages": hi });
    let without = post(&url, &json!({ "request": request })).await;
    assert_eq!(without.status, 401, "the operator's credential is no key of the API");
    assert!(!without.headers.contains_key("www-authenticate"), "a browser would ask for a password");
    for wrong in
        [json!({ "api": "embeddings", "request": request }), json!({ "request": request, "key": "a\nb" }), json!({})]
    {
        assert_eq!(post(&url, &wrong).await.status, 400, "{wrong}");
    }
    let foreign = http().post(&url).header("origin", "http://evil.example");
    assert_eq!(answer(client::json(foreign, &json!({ "request": request, "key": SECRET }))).await.status, 403);
    let form = http().post(&url).header("content-type", "text/plain").body("{}");
    assert_eq!(answer(form).await.status, 415);
    assert_eq!(mock.seen().iter().filter(|seen| seen.path.contains("chat/completions")).count(), 3);
    let log = gateway.get_json("/admin/audit").await.to_string();
    assert!(log.contains("messages m") && !log.contains(SECRET), "{log}");
}
