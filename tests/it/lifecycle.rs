//! The process from its start, with and without a policy, to its shutdown.

use std::{net::TcpListener, process::Command};

use serde_json::{Value, json};

use crate::support::{
    client::{Answer, End, Sse, get, h2c, http, json, post},
    gateway::{Gateway, Start},
    mock::{Mock, Plan, Seen, chat_events, polite},
    until, untried,
};

fn chat(model: &str, stream: bool) -> Value {
    json!({ "model": model, "stream": stream, "max_tokens": 5, "messages": [{ "role": "user", "content": "hi" }] })
}

async fn before(mock: &Mock, more: &str) -> Gateway {
    Gateway::start(&format!("pools:\n  main: {{ model: m, backends: [\"{}\"] }}\n{more}", mock.url())).await
}

fn held(seen: &Seen) -> Plan {
    if seen.streams() {
        Plan::stream().events(&chat_events(["a"])[..2]).gate(1).events(&chat_events(["b"])[1..]).done()
    } else {
        polite(seen).behind(1)
    }
}

#[tokio::test]
async fn a_drain_finishes_what_is_under_way_and_takes_nothing_new() {
    let mock = Mock::start(held).await;
    let mut gateway = before(&mock, "").await;
    let url = gateway.at("/v1/chat/completions");
    assert_eq!(get(&gateway.admin("/readyz")).await.json()["status"], "ready");
    // The page listens, and a client keeps an idle connection: neither may hold up the end.
    let _page = Sse::send(http().get(gateway.admin("/admin/events"))).await;
    let idle = http();
    idle.get(gateway.at("/health")).send().await.unwrap().bytes().await.unwrap();
    let mut streams = Vec::new();
    let clients = [http(), h2c()];
    for number in 0..5 {
        streams.push(Sse::send(json(clients[number % 2].post(&url), &chat("m", true))).await);
    }
    let wholes: Vec<_> = (0..5)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { post(&url, &chat("m", false)).await })
        })
        .collect();
    mock.wait_seen(10).await;
    gateway.sigterm();
    until("readiness to turn off", async || get(&gateway.admin("/readyz")).await.status == 503).await;
    assert_eq!(get(&gateway.admin("/health")).await.status, 200);
    assert_eq!(gateway.get_json("/admin/state").await["draining"], true);
    until("new connections to be refused", async || {
        let refused = http().get(gateway.at("/health")).send().await;
        refused.is_err_and(|error| error.is_connect())
    })
    .await;
    assert_eq!(gateway.metrics().await.sum("signalbox_in_flight", &[]) as u32, 10);
    mock.open(1);
    for mut stream in streams {
        let (text, end) = stream.text().await;
        assert!(text == "ab" && matches!(end, End::Clean), "{text:?} {end:?}");
    }
    for whole in wholes {
        assert_eq!(whole.await.unwrap().status, 200);
    }
    let status = gateway.wait_exit().await;
    assert_eq!(status.code(), Some(0), "{}", gateway.log());
}

#[tokio::test]
async fn a_lame_duck_is_unready_and_still_accepts_requests() {
    let mock = Mock::start(polite).await;
    let mut gateway = before(&mock, "limits: { lame_duck: 3s }\n").await;
    gateway.sigterm();
    until("readiness to turn off", async || get(&gateway.at("/readyz")).await.status == 503).await;
    let answer = post(&gateway.at("/v1/chat/completions"), &chat("m", false)).await;
    assert_eq!((answer.status.as_u16(), answer.header("connection")), (200, "close"), "{}", answer.text());
    let status = gateway.wait_exit().await;
    assert_eq!(status.code(), Some(0), "{}", gateway.log());
}

#[tokio::test]
async fn requests_beyond_the_drain_limit_are_cut_and_logged() {
    let mock = Mock::start(held).await;
    let mut gateway = before(&mock, "limits: { drain: 200ms }\njournal: { path: journal.jsonl }\n").await;
    let mut streams = Vec::new();
    for client in [http(), h2c()] {
        let mut stream = Sse::send(json(client.post(gateway.at("/v1/chat/completions")), &chat("m", true))).await;
        stream.event().await.unwrap();
        streams.push(stream);
    }
    gateway.sigterm();
    for mut stream in streams {
        let (_, end) = stream.rest().await;
        assert!(matches!(end, End::Broken(_)), "{end:?}");
        mock.gone().await;
    }
    assert_eq!(gateway.wait_exit().await.code(), Some(1));
    gateway.wait_log("limits.drain").await;
    let journal = std::fs::read_to_string(gateway.dir().join("journal.jsonl")).unwrap();
    assert_eq!(journal.lines().count(), 2, "what is cut is noted too: {journal}");
    for line in journal.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["outcome"], &line["attempts"][0]["outcome"]),
            (&json!("stopped"), &json!("stopped")),
            "{line}"
        );
    }
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let mock = Mock::start(held).await;
    let mut gateway = before(&mock, "").await;
    let mut stream = Sse::post(&gateway.at("/v1/chat/completions"), &chat("m", true)).await;
    gateway.sigterm();
    gateway.wait_log("again to stop at once").await;
    gateway.sigterm();
    assert_eq!(gateway.wait_exit().await.code(), Some(130));
    assert!(matches!(stream.rest().await.1, End::Broken(_)));
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for key in ["listen", "admin"] {
        let policy = format!("pools: {{ p: {{ backends: [http://127.0.0.1:9/v1], model: m }} }}\n{key}: {address}\n");
        let Err(log) = Start::with(&policy).attempt().await else { panic!("it started") };
        assert!(log.contains(&format!("cannot listen on {address}")) && log.contains(&format!("'{key}'")), "{log}");
        assert!(log.contains("exit status: 1"), "{log}");
    }
}

#[tokio::test]
async fn a_broken_policy_is_reported_and_nothing_starts() {
    let Err(log) = Start::with("pools:\n  p: { backend: [http://h/v1] }\n").attempt().await else {
        panic!("it started")
    };
    assert!(log.contains("policy.yaml:2:8") && log.contains("did you mean `backends`"), "{log}");
    assert!(log.contains("exit status: 1"), "{log}");
    let journal =
        "pools: { p: { backends: [http://127.0.0.1:9/v1], model: m } }\njournal: { path: no/such/folder/j }\n";
    let Err(log) = Start::with(journal).attempt().await else { panic!("it started") };
    assert!(log.contains("no/such/folder/j") && log.contains("journal.path"), "{log}");
    assert!(log.contains("exit status: 1"), "{log}");
}

/// Simulated answers are marked everywhere.
async fn is_simulated(gateway: &Gateway) {
    gateway.wait_log("SIMULATED").await;
    let models = get(&gateway.at("/v1/models")).await.json();
    let models = models["data"].as_array().expect("a list");
    assert!(!models.is_empty() && models.iter().all(|model| model["owned_by"] == "signalbox-simulated"), "{models:?}");
    let answer = post(&gateway.at("/v1/chat/completions"), &chat("auto", false)).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-simulated")), (200, "true"));
    assert_eq!(gateway.get_json("/admin/state").await["simulated"], true);
}

#[tokio::test]
async fn the_banner_has_a_request_to_paste() {
    let gateway = Start::bare().arg("--simulate").start().await;
    is_simulated(&gateway).await;
    gateway.wait_log("Hello!").await;
    gateway.wait_log("    -d '").await;
    let log = gateway.log();
    let paste: Vec<&str> = log.lines().skip_while(|line| !line.contains("curl")).take(2).collect();
    assert_eq!(paste.len(), 2, "{log}");
    if Command::new("curl").arg("--version").output().is_err() {
        untried("no curl here: the banner's request was not tried");
        return;
    }
    let paste = paste.join("\n");
    let run = move || Command::new("sh").args(["-c", &paste]).output();
    let ran = tokio::task::spawn_blocking(run).await.unwrap().unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && out.trim_end().ends_with("data: [DONE]"), "{out}");
}

#[tokio::test]
async fn without_a_policy_engines_are_found_but_never_another_gateway() {
    const USUAL: [u16; 6] = [8000, 30000, 8080, 11434, 1234, 3000];
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    if let Some(port) = USUAL.into_iter().find(|port| !free(*port)) {
        untried(&format!("port {port} is in use here: finding engines was not tried"));
        return;
    }
    let behind = Mock::start(polite).await;
    let pools = format!("pools:\n  p: {{ model: m, backends: [\"{}\"] }}\n", behind.url());
    // While it has this port, no other run of this test goes on from here.
    let Ok(other) = Start::with(&format!("{pools}listen: 127.0.0.1:8000\n")).attempt().await else {
        untried("port 8000 was just taken: finding engines was not tried");
        return;
    };
    let simulated = Start::bare().start().await;
    is_simulated(&simulated).await;
    assert!(behind.seen().is_empty() && get(&other.at("/v1/models")).await.status == 200);

    let engine = Mock::start_at(([127, 0, 0, 1], 8080).into(), polite).await;
    engine.set_models(["tiny", "small"]);
    let gateway = Start::bare().start().await;
    gateway.wait_log("found on this machine: llamacpp at http://127.0.0.1:8080/v1").await;
    let models = get(&gateway.at("/v1/models")).await.json();
    let names: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["auto", "tiny", "small"]);
    let answer: Answer = post(&gateway.at("/v1/chat/completions"), &chat("auto", false)).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-simulated")), (200, ""));
    assert_eq!((engine.seen().len(), engine.seen()[0].model()), (1, "tiny"));
    // There is no file to load again, and it says so.
    let pressed = crate::support::client::answer(http().post(gateway.admin("/admin/reload"))).await;
    assert!(pressed.status == 400 && pressed.text().contains("no policy file"), "{}", pressed.text());
}
