//! Endpoints that engines serve: learned without generating, overridden by the policy.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{
    cli::{Ran, run},
    client,
    gateway::Gateway,
    mock::{Mock, Plan, Seen, polite},
    until,
};

const NATIVE: [&str; 4] = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/tokenize"];

/// An engine that serves the Messages and Responses APIs too.
async fn native(decide: impl Fn(&Seen) -> Plan + Send + Sync + 'static) -> Mock {
    let mock = Mock::start(decide).await;
    mock.set_apis(NATIVE);
    mock
}

fn message(seen: &Seen) -> Plan {
    match &*seen.path {
        "/v1/messages" => Plan::json(
            200,
            &json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": seen.model(),
                "content": [{ "type": "text", "text": "native" }], "stop_reason": "end_turn", "stop_sequence": null,
                "usage": { "input_tokens": 3, "output_tokens": 1 },
            }),
        ),
        _ => polite(seen),
    }
}

fn ask(model: &str) -> Value {
    json!({ "model": model, "max_tokens": 5, "messages": [{ "role": "user", "content": "Hi" }] })
}

/// Endpoints of a pool in the admin state.
async fn speaks(gateway: &Gateway, pool: &str) -> Vec<String> {
    let state = client::get(&gateway.admin("/admin/state")).await.json();
    let pools = state["pools"].as_array().cloned().unwrap_or_default();
    let found = pools.iter().find(|it| it["name"] == pool).map(|it| it["speaks"].clone()).unwrap_or_default();
    serde_json::from_value(found).unwrap_or_default()
}

fn has_native(speaks: &[String]) -> bool {
    ["messages", "responses"].iter().all(|name| speaks.iter().any(|it| it == name))
}

/// Runs `signalbox check` on the policy in a folder.
async fn check(folder: &Path, flags: &'static [&'static str]) -> Ran {
    let folder = folder.to_owned();
    let run = move || run(&folder, ["check", "policy.yaml"].into_iter().chain(flags.iter().copied()));
    tokio::task::spawn_blocking(run).await.expect("it ran")
}

/// Waits until every path of the mock was probed.
async fn probed(mock: &Mock) {
    let asked = |mock: &Mock| mock.probes().iter().filter(|seen| seen.method == "POST").count();
    until("all paths to be probed", async || asked(mock) >= 6).await;
}

#[tokio::test]
async fn a_pool_speaks_what_all_of_its_engines_serve() {
    let (a, b, plain) = (native(message).await, native(message).await, Mock::start(polite).await);
    let gateway = Gateway::start(&format!(
        "pools:\n  both: {{ model: m, backends: [\"{}\", \"{}\"] }}\n  mixed: {{ model: n, backends: [\"{}\", \"{}\"] }}\n  \
         stated: {{ model: o, speaks: [chat], backends: [\"{}\"] }}\n",
        a.url(),
        b.url(),
        a.url(),
        plain.url(),
        b.url()
    ))
    .await;
    until("both engines to be known", async || has_native(&speaks(&gateway, "both").await)).await;
    probed(&plain).await;
    assert_eq!(speaks(&gateway, "mixed").await, ["chat", "completions", "embeddings"]);
    assert_eq!(speaks(&gateway, "stated").await, ["chat"]);
    let answer = client::post(&gateway.at("/v1/messages"), &ask("m")).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["content"][0]["text"]), (200, &json!("native")));
    assert!(a.probes().iter().filter(|it| it.method == "POST").all(|it| &*it.body == b"[]"), "nothing to generate");
    let state = client::get(&gateway.admin("/admin/state")).await.json();
    let engine = &state["pools"][0]["backends"][0]["endpoints"];
    assert_eq!(*engine, json!(["chat", "responses", "messages", "tokenize"]));
}

#[tokio::test]
async fn an_engine_is_probed_again_when_it_comes_back() {
    let engine = Mock::start(polite).await;
    let gateway = Gateway::start(&format!("pools: {{ p: {{ model: m, backends: [\"{}\"] }} }}\n", engine.url())).await;
    probed(&engine).await;
    assert!(!has_native(&speaks(&gateway, "p").await));
    let address = engine.stop().await;
    let state = async || client::get(&gateway.admin("/admin/state")).await.json();
    until("the engine to be missed", async || state().await["pools"][0]["backends"][0]["state"] == "down").await;
    let upgraded = Mock::start_at(address, message).await;
    upgraded.set_apis(NATIVE);
    until("the new version to be known", async || has_native(&speaks(&gateway, "p").await)).await;
}

#[tokio::test]
async fn check_shows_endpoints_and_leaves_accounts_alone() {
    let (own, hosted) = (native(polite).await, native(polite).await);
    own.set_models(["m"]);
    hosted.set_models(["m"]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("policy.yaml");
    let policy = format!(
        "accounts: {{ a: {{ keys: [k] }} }}\nengines: {{ hosted: {{ url: \"{}\", account: a }} }}\n\
         pools:\n  own: {{ model: m, backends: [\"{}\"] }}\n  hosted: {{ model: m, backends: [{{ engine: hosted }}] }}\n",
        hosted.url(),
        own.url()
    );
    std::fs::write(&path, policy).expect("a policy file");
    let ran = check(dir.path(), &["--probe", "--json"]).await;
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    let engines = found["probe"]["engines"].as_array().expect("engines");
    let of = |name: &str| engines.iter().find(|it| it["url"] == name).map(|it| it["endpoints"].clone());
    let want = json!({
        "chat": true, "completions": false, "embeddings": false, "responses": true, "messages": true, "tokenize": true,
        "rerank": false, "score": false, "classify": false, "pooling": false,
    });
    assert_eq!((of(&own.url()), of(&hosted.url())), (Some(want), Some(Value::Null)));
    assert!(hosted.probes().iter().all(|seen| seen.method == "GET"));
    let ran = check(dir.path(), &["--probe"]).await;
    assert!(ran.out.contains("chat responses messages tokenize"), "{}", ran.out);
}

#[tokio::test]
async fn models_are_listed_with_their_endpoints_context_and_names_behind_patterns() {
    let (own, open) = (native(polite).await, Mock::start(polite).await);
    let list = json!({ "object": "list", "data": [{ "id": "m", "max_model_len": 4096 }] });
    own.on_probe(move |seen| seen.path.ends_with("/models").then(|| Plan::json(200, &list)));
    open.set_models(["gpt-9", "other"]);
    let gateway = Gateway::start(&format!(
        "pools:\n  own: {{ model: m, backends: [\"{}\"] }}\n  open: {{ backends: [{{ url: \"{}\", strip: openai/ }}] }}\n\
         models: {{ chat: {{ to: own }}, \"openai/gpt-*\": {{ to: open }} }}\n",
        own.url(),
        open.url()
    ))
    .await;
    let get = async |path: &str, anthropic: bool| {
        let request = client::http().get(gateway.at(path));
        let request = if anthropic { request.header("anthropic-version", "2023-06-01") } else { request };
        client::answer(request).await
    };
    until("the engines to be known", async || {
        let models = get("/v1/models", false).await.json();
        let data = models["data"].as_array().cloned().unwrap_or_default();
        data.len() == 3 && data[0]["context_length"] == 4096
    })
    .await;
    let models = get("/v1/models", false).await.json();
    let ids: Vec<_> = models["data"].as_array().into_iter().flatten().map(|model| model["id"].as_str()).collect();
    assert_eq!(ids, [Some("chat"), Some("m"), Some("openai/gpt-9")], "`other` is not behind the pattern");
    let chat = &models["data"][0];
    assert!(chat["created"].as_i64().is_some_and(|created| created > 1_700_000_000), "{chat}");
    assert_eq!((&chat["max_model_len"], &chat["owned_by"]), (&json!(4096), &json!("signalbox")));
    // What is probed after these may be known as well.
    let first_five = |model: &Value| model["endpoints"].as_array().map(|all| json!(all[..5]));
    let want = Some(json!(["chat", "completions", "embeddings", "responses", "messages"]));
    assert_eq!(first_five(chat), want);
    assert_eq!(first_five(&get("/v1/models/openai/gpt-9", false).await.json()), want);

    let models = get("/v1/models?limit=1000", true).await.json();
    assert_eq!(
        (&models["has_more"], &models["first_id"], &models["last_id"]),
        (&json!(false), &json!("chat"), &json!("openai/gpt-9"))
    );
    let one = get("/v1/models/chat", true).await.json();
    assert_eq!((&one["type"], &one["display_name"], &one), (&json!("model"), &json!("chat"), &models["data"][0]));
    assert!(one["created_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{one}");
    let unknown = get("/v1/models/none", true).await;
    assert_eq!((unknown.status.as_u16(), &unknown.json()["type"]), (404, &json!("error")));
}
