//! Backends that are discovered while the gateway runs: by DNS, from files, and over the admin API.
#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};

use crate::support::{
    cli,
    client::{Answer, answer, get, http, json as with_json, post},
    dns::Dns,
    gateway::{Gateway, Start},
    mock::{Mock, Plan, Seen, chat_events, polite},
    until,
};

fn chat(stream: bool) -> Value {
    json!({ "model": "m", "stream": stream, "messages": [{ "role": "user", "content": "hi" }] })
}

/// Engines at 127.0.0.1, .2, … on one port, as DNS names them.
async fn engines<const COUNT: usize>() -> [Mock; COUNT] {
    let first = Mock::start(polite).await;
    let port = first.addr().port();
    let mut all = vec![first];
    for host in 2..=COUNT {
        all.push(Mock::start_at(SocketAddr::from(([127, 0, 0, host as u8], port)), polite).await);
    }
    all.try_into().unwrap_or_else(|_| unreachable!("as many as were asked for"))
}

fn hosts<'a>(mocks: impl IntoIterator<Item = &'a Mock>) -> Vec<IpAddr> {
    mocks.into_iter().map(|mock| mock.addr().ip()).collect()
}

/// A pool whose backends are the addresses of `engines.test`, resolved every 100 ms.
fn by_name(dns: &Dns, port: u16) -> String {
    format!(
        "pools:\n  main:\n    model: m\n    backends:\n      - dns: {{ name: engines.test, port: {port}, every: 100ms, \
         empty_after: 300ms, server: \"{}\" }}\n        max_concurrency: 64\n",
        dns.addr()
    )
}

/// Names of the backends in `/admin/state` with their origin, and of those that leave with their state.
async fn fleet(gateway: &Gateway) -> (BTreeSet<(String, String)>, BTreeSet<(String, String)>) {
    let state = gateway.get_json("/admin/state").await;
    let of = |list: &str, field: &str| {
        let all = state["pools"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|pool| pool[list].as_array().into_iter().flatten());
        all.map(|it| [&it["name"], &it[field]].map(|value| value.as_str().unwrap_or_default().to_owned()).into())
            .collect()
    };
    (of("backends", "origin"), of("leaving", "state"))
}

async fn serves(gateway: &Gateway, mocks: &[&Mock]) {
    let wanted: BTreeSet<String> = mocks.iter().map(|mock| mock.addr().to_string()).collect();
    until(&format!("the backends {wanted:?}"), async || {
        let (serving, _) = fleet(gateway).await;
        serving.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>() == wanted
    })
    .await;
}

async fn ask(gateway: &Gateway) -> Answer {
    post(&gateway.at("/v1/chat/completions"), &chat(false)).await
}

/// Output of a command.
fn run<'a>(arguments: impl IntoIterator<Item = &'a str>) -> String {
    let cli::Ran { out, err, .. } = cli::run(std::path::Path::new("."), arguments);
    out + &err
}

async fn change(gateway: &Gateway, method: &str, path: &str, body: &Value) -> Answer {
    let request = http().request(method.parse().unwrap(), gateway.admin(&format!("/admin/backends{path}")));
    answer(with_json(request, body)).await
}

/// Fifty requests a second until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU32>,
    task: tokio::task::JoinHandle<Vec<String>>,
}

impl Load {
    fn start(gateway: &Gateway) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopping, sending, url) = (stop.clone(), sent.clone(), gateway.at("/v1/chat/completions"));
        let task = tokio::spawn(async move {
            let (client, mut tick) = (http(), tokio::time::interval(Duration::from_millis(20)));
            let mut all = tokio::task::JoinSet::new();
            while !stopping.load(Relaxed) {
                tick.tick().await;
                let number = sending.fetch_add(1, Relaxed);
                let request = with_json(client.post(&url), &chat(number % 2 == 0));
                all.spawn(async move {
                    let response = request.send().await.map_err(|error| error.to_string())?;
                    let status = response.status();
                    let body = response.text().await.map_err(|error| error.to_string())?;
                    if status.is_success() && (body.contains("[DONE]") || body.contains("\"choices\"")) {
                        return Ok(());
                    }
                    Err(format!("{status}: {body}"))
                });
            }
            let failed: Vec<Result<(), String>> = all.join_all().await;
            failed.into_iter().filter_map(Result::err).collect()
        });
        Self { stop, sent, task }
    }

    fn sent(&self) -> u32 {
        self.sent.load(Relaxed)
    }

    /// Stops it and returns the failures.
    async fn stop(self) -> Vec<String> {
        self.stop.store(true, Relaxed);
        self.task.await.expect("the load")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_gains_and_loses_engines_without_a_failed_request() {
    let mocks = engines::<4>().await;
    let [one, two, three, four] = &mocks;
    let dns = Dns::start(0).await;
    dns.set("engines.test", hosts([one, two]));
    let gateway = Gateway::start(&by_name(&dns, one.addr().port())).await;
    // Resolved before the first request.
    assert_eq!(get(&gateway.admin("/readyz")).await.json()["status"], "ready");
    let load = Load::start(&gateway);
    let busy = async |mock: &Mock| {
        let before = mock.seen().len();
        mock.wait_seen(before + 5).await;
    };
    busy(one).await;
    busy(two).await;
    let origins = fleet(&gateway).await.0;
    assert!(origins.iter().all(|(_, origin)| origin == "dns engines.test"), "{origins:?}");

    dns.set("engines.test", hosts([one, two, three]));
    let since = std::time::Instant::now();
    serves(&gateway, &[one, two, three]).await;
    // The interval, the time in which changes are gathered, and what the test's own polls take.
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    busy(three).await;

    dns.set("engines.test", hosts([two, three]));
    serves(&gateway, &[two, three]).await;
    until("nothing runs there", async || one.under_way() == 0).await;
    let left = one.seen().len();
    busy(two).await;
    assert_eq!(one.seen().len(), left, "a removed engine gets no more requests");
    let name = one.addr().to_string();
    assert!(fleet(&gateway).await.1.contains(&(name, "removed".to_owned())));

    // Everything moves at once.
    dns.set("engines.test", hosts([four]));
    serves(&gateway, &[four]).await;
    busy(four).await;
    // A name server that fails changes nothing, nor does a short empty answer.
    dns.fail(true);
    gateway.wait_metrics("failures", |now| now.sum("signalbox_discovery_errors_total", &[]) > 2.0).await;
    busy(four).await;
    dns.set("engines.test", []);
    dns.fail(false);
    gateway.wait_log("has no addresses any more").await;
    dns.set("engines.test", hosts(&mocks));
    serves(&gateway, &[one, two, three, four]).await;
    busy(one).await;
    let sent = load.sent();
    let failures = load.stop().await;
    assert!(failures.is_empty(), "{} of {sent} failed: {failures:?}", failures.len());
    let metrics = gateway.metrics().await;
    assert!((metrics.sum("signalbox_discovery_endpoints", &["source=\"dns engines.test\""]) - 4.0).abs() < 0.5);
    assert!(metrics.sum("signalbox_discovery_last_success_timestamp_seconds", &[]) > 1.7e9);
}

/// Tokens of a long prompt that the gateway expects in the prefix cache of the only backend.
async fn expected_cached(gateway: &Gateway) -> u64 {
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": "to be or not to be ".repeat(400) }] });
    let answer = post(&gateway.at("/v1/chat/completions"), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let decision = gateway.decision(answer.header("x-request-id")).await;
    decision["attempts"][0]["candidates"][0]["cached_tokens"].as_u64().unwrap_or_else(|| panic!("{decision}"))
}

#[tokio::test]
async fn what_was_learned_of_an_address_returns_with_it() {
    let [one, two] = engines::<2>().await;
    let dns = Dns::start(0).await;
    dns.set("engines.test", hosts([&one]));
    let gateway = Gateway::start(&by_name(&dns, one.addr().port())).await;
    assert_eq!(expected_cached(&gateway).await, 0);
    let known = expected_cached(&gateway).await;
    assert!(known > 100, "{known}");
    dns.set("engines.test", hosts([&two]));
    serves(&gateway, &[&two]).await;
    assert_eq!(expected_cached(&gateway).await, 0, "another engine has another cache");
    dns.set("engines.test", hosts([&one]));
    serves(&gateway, &[&one]).await;
    // Tokens are counted by what was learned of the model meanwhile.
    let again = expected_cached(&gateway).await;
    assert!(again > 100, "{again} of {known}");
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_does_not_prevent_the_start() {
    let [one] = engines::<1>().await;
    let dns = Dns::start(1).await;
    let gateway = Gateway::start(&by_name(&dns, one.addr().port())).await;
    let ready = get(&gateway.admin("/readyz")).await;
    assert_eq!((ready.status.as_u16(), &ready.json()["pools_without_backends"]), (503, &json!(["main"])));
    let refused = ask(&gateway).await;
    assert_eq!(
        (refused.status.as_u16(), &refused.json()["error"]["code"]),
        (503, &json!("no_backend")),
        "{}",
        refused.text()
    );
    assert!(!refused.header("retry-after").is_empty());
    let state = gateway.get_json("/admin/state").await;
    assert!(state["health"].to_string().contains("pool main: no backends"), "{}", state["health"]);
    dns.set("engines.test", hosts([&one]));
    serves(&gateway, &[&one]).await;
    assert_eq!((get(&gateway.admin("/readyz")).await.status.as_u16(), ask(&gateway).await.status.as_u16()), (200, 200));
    // The last address is given up only when answers stay empty.
    dns.set("engines.test", []);
    serves(&gateway, &[]).await;
    assert_eq!(ask(&gateway).await.status, 503);
}

#[tokio::test]
async fn services_bring_their_ports_and_the_first_priority_counts() {
    let (one, two, spare) = (Mock::start(polite).await, Mock::start(polite).await, Mock::start(polite).await);
    let dns = Dns::start(0).await;
    for host in ["a.test", "b.test"] {
        dns.set(host, [one.addr().ip()]);
    }
    let [first, second, third] = [&one, &two, &spare].map(|mock| mock.addr().port());
    dns.set_services("_llm._tcp.test", [(0, 5, first, "a.test"), (0, 0, second, "B.test."), (10, 0, third, "a.test")]);
    let policy = format!(
        "pools:\n  main:\n    model: m\n    backends:\n      - dns: {{ name: _llm._tcp.test, kind: SRV, every: 100ms, server: \"{}\" }}\n",
        dns.addr()
    );
    let gateway = Gateway::start(&policy).await;
    serves(&gateway, &[&one, &two]).await;
    dns.set_services("_llm._tcp.test", [(10, 0, third, "a.test"), (20, 0, first, "a.test")]);
    serves(&gateway, &[&spare]).await;
    assert_eq!(ask(&gateway).await.status, 200);
}

#[tokio::test]
async fn a_file_of_endpoints_is_followed() {
    let (one, two) = (Mock::start(polite).await, Mock::start(polite).await);
    let gateway = Gateway::start("pools:\n  main:\n    model: m\n    backends: [{ file: endpoints.yaml }]\n").await;
    assert_eq!(ask(&gateway).await.status, 503);
    let file = gateway.dir().join("endpoints.yaml");
    let write = |text: &str| {
        let draft = file.with_extension("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(&draft, &file).unwrap();
    };
    write(&format!("- {}\n", one.url()));
    serves(&gateway, &[&one]).await;
    assert_eq!(ask(&gateway).await.status, 200);
    // As Prometheus and Consul write it.
    write(
        &json!([{ "targets": [one.addr().to_string(), two.addr().to_string()], "labels": { "job": "llm" } }])
            .to_string(),
    );
    serves(&gateway, &[&one, &two]).await;
    // A file that cannot be read changes nothing.
    write("- http://[\n");
    gateway.wait_log("lookup of ").await;
    serves(&gateway, &[&one, &two]).await;
    let checked = run(["check", gateway.config().to_str().unwrap()]);
    assert!(checked.contains("endpoints cannot be used: line 1"), "{checked}");
    write("[]");
    serves(&gateway, &[]).await;
}

/// Streams wait at gate 1 after their first token.
fn held(seen: &Seen) -> Plan {
    if seen.streams() {
        Plan::stream().events(&chat_events(["a"])[..2]).gate(1).events(&chat_events(["b"])[1..]).done()
    } else {
        polite(seen)
    }
}

#[tokio::test]
async fn operators_add_drain_and_remove_backends() {
    let (one, two) = (Mock::start(held).await, Mock::start(polite).await);
    let policy = format!(
        "discovery: {{ state: fleet.json }}\npools:\n  main: {{ model: m, backends: [\"{}\"] }}\n  other: {{ model: o, backends: [\"http://127.0.0.1:9/v1\"] }}\n",
        one.url()
    );
    let gateway = Gateway::start(&policy).await;
    let name = one.addr().to_string();

    // A stream keeps its engine while it drains.
    let stream = http().post(gateway.at("/v1/chat/completions"));
    let mut stream = with_json(stream, &chat(true)).send().await.unwrap();
    stream.chunk().await.unwrap();
    let body = json!({ "url": two.url(), "max_concurrency": 8 });
    let added = change(&gateway, "PUT", "/main/gpu-9", &body).await;
    assert_eq!((added.status.as_u16(), &added.json()["kept"]), (201, &json!(true)), "{}", added.text());
    let drained = change(&gateway, "POST", &format!("/main/{name}/drain"), &json!({})).await.json();
    assert_eq!((&drained["drained"], &drained["in_flight"]), (&json!(true), &json!(1)), "{drained}");
    let (serving, leaving) = fleet(&gateway).await;
    assert!(serving.contains(&("gpu-9".to_owned(), "admin".to_owned())), "{serving:?}");
    assert!(leaving.contains(&(name.clone(), "draining".to_owned())), "{leaving:?}");
    for _ in 0..4 {
        assert_eq!(ask(&gateway).await.header("x-signalbox-backend"), "gpu-9");
    }
    let listed = run(["backend", "list", "--admin", &gateway.admin("")]);
    assert!(listed.contains("draining") && listed.contains("admin") && listed.contains("policy"), "{listed}");
    one.open(1);
    let mut rest = String::new();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        rest += &String::from_utf8_lossy(&chunk);
    }
    assert!(rest.contains("[DONE]"), "{rest}");
    until("it is idle", async || fleet(&gateway).await.1.contains(&(name.clone(), "drained".to_owned()))).await;

    // A reload changes none of it, nor does a restart.
    gateway.sighup();
    gateway.wait_metrics("a reload", |now| now.sum("signalbox_config_reloads_total", &[]) > 0.5).await;
    assert_eq!(ask(&gateway).await.header("x-signalbox-backend"), "gpu-9");
    assert!(std::fs::read_to_string(gateway.dir().join("fleet.json")).unwrap().contains("gpu-9"));
    let again =
        Start::with(&policy.replace("fleet.json", gateway.dir().join("fleet.json").to_str().unwrap())).start().await;
    assert_eq!(ask(&again).await.header("x-signalbox-backend"), "gpu-9");

    // What cannot be done is said.
    for (method, path, body, status, words) in [
        ("PUT", "/none/x", json!({ "url": "http://127.0.0.1:1/v1" }), 404, "known are 'main', 'other'"),
        ("PUT", "/main/x", json!({ "url": "127.0.0.1:1" }), 400, "without `http://`"),
        ("PUT", "/main/x", json!({ "url": two.url() }), 409, "'gpu-9' already"),
        ("PUT", "/other/gpu-9", json!({ "url": "http://127.0.0.1:1/v1" }), 409, "was added to the pool 'main'"),
        ("PUT", &*format!("/main/{name}"), json!({ "url": "http://127.0.0.1:1/v1" }), 409, "another name"),
        ("DELETE", &*format!("/main/{name}"), json!({}), 409, "comes from the policy"),
        ("DELETE", "/main/none", json!({}), 404, "GET /admin/backends"),
        ("POST", "/main/none/drain", json!({}), 404, "no backend 'none'"),
        ("GET", "/main/gpu-9", json!({}), 405, ""),
    ] {
        let answer = change(&gateway, method, path, &body).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {}", answer.text());
        assert!(
            answer.json()["error"]["message"].as_str().unwrap().contains(words),
            "{method} {path}: {}",
            answer.text()
        );
    }
    let admin = gateway.admin("");
    let said = run(["backend", "undrain", "--admin", &admin, "main", &name]);
    assert!(said.contains("gets requests again"), "{said}");
    let said = run(["backend", "remove", "--admin", &admin, "main", "gpu-9"]);
    assert!(said.contains("is removed"), "{said}");
    // Callers do not see addresses, and operators may use what callers see.
    assert_eq!(ask(&gateway).await.header("x-signalbox-backend"), "main-1");
    assert!(run(["backend", "list", "--admin", &admin]).contains("main-1"));
    let said = run(["backend", "drain", "--admin", &admin, "main", "main-1"]);
    assert!(said.contains(&format!("'{name}' is drained")), "{said}");
    let said = run(["backend", "undrain", "--admin", &admin, "main", "main-1"]);
    assert!(said.contains("gets requests again"), "{said}");
    let said = run(["backend", "drain", "--admin", &admin, "main", "main-7"]);
    assert!(said.contains("`signalbox backend list` lists them"), "{said}");
    let said = run(["backend", "add", "--admin", &admin, "main", "b", &two.url(), "--set", "model=other"]);
    assert!(said.contains("is added"), "{said}");
}
