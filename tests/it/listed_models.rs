//! Models that engines list, load and unload: backends come and go with them, and a model in memory is preferred.
#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    keys::{chat, code, keys, used},
    support::{
        client,
        gateway::Gateway,
        mock::{Mock, Plan, Seen},
        until,
    },
};

/// An engine that serves the models of a list, which it can change.
struct Engine {
    mock: Mock,
    models: Arc<Mutex<Vec<String>>>,
}

fn model_of(seen: &Seen) -> String {
    seen.json()["model"].as_str().unwrap_or_default().to_owned()
}

impl Engine {
    async fn start(models: &[&str]) -> Self {
        let own: Arc<Mutex<Vec<String>>> = Arc::default();
        let there = own.clone();
        let mock = Mock::start(move |seen| {
            if there.lock().unwrap().contains(&model_of(seen)) {
                used(seen, 10, 5)
            } else {
                Plan::error(404, "The model does not exist.")
            }
        })
        .await;
        let engine = Self { mock, models: own };
        engine.set(models);
        engine
    }

    fn set(&self, models: &[&str]) {
        *self.models.lock().unwrap() = models.iter().map(ToString::to_string).collect();
        self.mock.set_models(models.iter().copied());
    }

    fn asked_for(&self) -> Vec<String> {
        let mut all: Vec<_> = self.mock.seen().iter().map(model_of).collect();
        all.sort();
        all.dedup();
        all
    }
}

async fn ask(gateway: &Gateway, model: &str) -> client::Answer {
    client::post(&gateway.at("/v1/chat/completions"), &chat(model, 5)).await
}

async fn listed(gateway: &Gateway) -> Vec<String> {
    let list = client::get(&gateway.at("/v1/models")).await.json();
    let names = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[tokio::test]
async fn backends_come_and_go_with_the_models_of_their_engines() {
    let (a, b) = (Engine::start(&["qwen-a", "other"]).await, Engine::start(&["qwen-b", "qwen-a"]).await);
    let gateway = Gateway::start(&format!(
        "pools: {{ qwen: {{ serves: \"qwen-*\", backends: [\"{}\", \"{}\"] }} }}\n",
        a.mock.url(),
        b.mock.url()
    ))
    .await;
    assert_eq!(listed(&gateway).await, ["auto", "qwen-a", "qwen-b"], "at once after the start");
    for model in ["qwen-a", "qwen-b", "auto"] {
        let answer = ask(&gateway, model).await;
        assert_eq!(answer.status, 200, "{model}: {}", answer.text());
    }
    assert_eq!(code(&ask(&gateway, "other").await), (404, "model_not_found".to_owned()));
    assert!(!a.asked_for().iter().chain(&b.asked_for()).any(|model| model == "auto" || model == "other"));

    // One engine unloads a model, and no request fails: neither before the gateway knows nor after.
    a.set(&["qwen-c"]);
    for number in 0..10 {
        let answer = ask(&gateway, "qwen-a").await;
        assert_eq!(answer.status, 200, "request {number}: {}", answer.text());
    }
    until("the new list", async || listed(&gateway).await == ["auto", "qwen-a", "qwen-b", "qwen-c"]).await;
    for _ in 0..6 {
        assert_eq!(ask(&gateway, "qwen-a").await.status, 200);
        assert_eq!(ask(&gateway, "qwen-c").await.status, 200);
    }
    let state = gateway.get_json("/admin/state").await;
    let backends = state["pools"][0]["backends"].as_array().unwrap();
    let models: Vec<_> = backends.iter().map(|backend| backend["model"].as_str().unwrap()).collect();
    assert_eq!(models, ["qwen-c", "qwen-b", "qwen-a"]);
    gateway.wait_log("lists other models now").await;

    // The last engine with a model unloads it: the model no longer exists.
    b.set(&[]);
    until("the last list", async || listed(&gateway).await == ["auto", "qwen-c"]).await;
    assert_eq!(code(&ask(&gateway, "qwen-b").await), (404, "model_not_found".to_owned()));
    assert_eq!(ask(&gateway, "auto").await.status, 200);
    a.set(&[]);
    until("nothing", async || listed(&gateway).await == ["auto"]).await;
    assert_eq!(code(&ask(&gateway, "auto").await), (503, "no_backend".to_owned()));
    b.set(&["qwen-b"]);
    until("its return", async || ask(&gateway, "qwen-b").await.status == 200).await;
}

#[tokio::test]
async fn keys_and_reloads_apply_to_listed_models() {
    let engine = Engine::start(&["base", "sql-lora"]).await;
    let with = |key: &str| {
        format!(
            "{}pools: {{ any: {{ backends: [{{ url: \"{}\", serves: \"*\" }}] }} }}\n",
            keys(&[("k", key)]),
            engine.mock.url()
        )
    };
    let gateway = Gateway::start(&with(", models: [base]")).await;
    let ask = async |model: &str| {
        let request = crate::support::client::json(
            crate::support::client::http().post(gateway.at("/v1/chat/completions")),
            &chat(model, 5),
        );
        client::answer(request.bearer_auth("k")).await.status.as_u16()
    };
    assert_eq!((ask("base").await, ask("sql-lora").await), (200, 403));
    gateway.rewrite(&with(", models: [base, sql-lora]"));
    gateway.wait_metrics("a reload", |now| now.sum("signalbox_config_reloads_total", &["result=\"ok\""]) > 0.5).await;
    assert_eq!((ask("base").await, ask("sql-lora").await), (200, 200), "a reload keeps the lists");
}

/// An engine without metrics that reports the models in memory at `path`, in `form`.
async fn loader(path: &'static str, form: fn(&[String]) -> Value) -> (Mock, Arc<Mutex<Vec<String>>>) {
    let loaded: Arc<Mutex<Vec<String>>> = Arc::default();
    let mock = Mock::start(|seen| used(seen, 10, 5).after(Duration::from_millis(300))).await;
    let there = loaded.clone();
    mock.on_probe(move |seen| seen.path.ends_with(path).then(|| Plan::json(200, &form(&there.lock().unwrap()))));
    (mock, loaded)
}

fn ollama(loaded: &[String]) -> Value {
    json!({ "models": loaded.iter().map(|name| json!({ "name": format!("{name}:latest"), "size": 1 })).collect::<Vec<_>>() })
}

fn llama_swap(loaded: &[String]) -> Value {
    json!({ "running": loaded.iter().map(|name| json!({ "model": name, "state": "ready" })).collect::<Vec<_>>() })
}

/// Expected milliseconds to load the model on each candidate, in the order of the policy, and the chosen backend.
async fn loads(gateway: &Gateway) -> (Vec<Option<f64>>, String) {
    let explained = client::post(&gateway.at("/v1/route/explain"), &chat("m", 5)).await.json();
    let pool = &explained["pools"][0];
    let candidates = pool["candidates"].as_array().unwrap();
    (candidates.iter().map(|it| it["load_ms"].as_f64()).collect(), pool["backend"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn an_engine_with_the_model_in_memory_is_preferred() {
    let (a, in_a) = loader("/api/ps", ollama).await;
    let (b, in_b) = loader("/running", llama_swap).await;
    let gateway =
        Gateway::start(&format!("pools: {{ main: {{ model: m, backends: [\"{}\", \"{}\"] }} }}\n", a.url(), b.url()))
            .await;
    in_b.lock().unwrap().push("m".to_owned());
    until("the load on the first", async || loads(&gateway).await == (vec![Some(8000.0), None], "main-2".into())).await;
    for _ in 0..5 {
        assert_eq!(ask(&gateway, "m").await.status, 200);
    }
    assert_eq!((a.seen().len(), b.seen().len()), (0, 5));
    in_b.lock().unwrap()[0] = "another".to_owned();
    in_a.lock().unwrap().push("m".to_owned());
    until("the load on the second", async || loads(&gateway).await == (vec![None, Some(8000.0)], "main-1".into()))
        .await;
    assert_eq!(ask(&gateway, "m").await.status, 200);
    assert_eq!((a.seen().len(), b.seen().len()), (1, 5));
}

#[tokio::test]
async fn the_time_to_load_a_model_is_learned() {
    let (engine, _loaded) = loader("/api/ps", ollama).await;
    let gateway =
        Gateway::start(&format!("pools: {{ main: {{ model: m, backends: [\"{}\"] }} }}\n", engine.url())).await;
    until("the load", async || loads(&gateway).await.0 == [Some(8000.0)]).await;
    let mut body = chat("m", 5);
    body["stream"] = true.into();
    let answer = client::post(&gateway.at("/v1/chat/completions"), &body).await;
    assert_eq!(answer.status, 200);
    // The engine reports the model as not loaded again.
    until("what was learned", async || matches!(loads(&gateway).await.0[..], [Some(load)] if load < 1000.0)).await;
    let (load, _) = loads(&gateway).await;
    assert!(load[0].is_some_and(|load| load > 100.0), "{load:?}");
    let shown = gateway.decision(answer.header("x-signalbox-id")).await;
    assert!((shown["attempts"][0]["candidates"][0]["load_ms"].as_f64().unwrap() - 8000.0).abs() < 1.0, "{shown}");
}

#[tokio::test]
async fn an_engine_draws_no_requests_by_the_names_it_lists() {
    let premium = Mock::start(|seen| used(seen, 10, 5)).await;
    let (one, other) = (Engine::start(&["claude-x", "opus", "shared"]).await, Engine::start(&["shared"]).await);
    let gateway = Gateway::start(&format!(
        "pools:\n  premium: {{ model: opus, backends: [\"{}\"] }}\n  one: {{ serves: \"*\", backends: [\"{}\"] }}\n  \
         other: {{ serves: \"*\", backends: [\"{}\"] }}\nmodels: {{ \"claude-*\": {{ to: premium }} }}\n",
        premium.url(),
        one.mock.url(),
        other.mock.url()
    ))
    .await;
    for model in ["claude-x", "opus"] {
        assert_eq!(ask(&gateway, model).await.status, 200);
    }
    assert_eq!((premium.seen().len(), one.asked_for().len()), (2, 0));
    assert_eq!(ask(&gateway, "shared").await.status, 200);
    gateway.wait_log("several pools list 'shared'").await;
}
