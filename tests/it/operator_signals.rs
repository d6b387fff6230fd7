//! Problems that an operator sees: in the log at the default level, in the access log, on the page and in `signalbox top`; and the error that
//! callers get in place of a provider's refusal.

use serde_json::{Value, json};

use crate::{
    keys::{ask, chat, code, keys, pool, used},
    support::{
        client::{self, Sse, http},
        gateway::{Gateway, Start},
        mock::{Mock, Plan, Seen, chat_events, polite},
        until,
    },
};

/// Lines of the gateway's log that contain all of these words.
fn lines(gateway: &Gateway, words: &[&str]) -> usize {
    gateway.log().lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

/// A provider that accepts only the key `good` for requests.
fn picky(seen: &Seen) -> Plan {
    match seen.header("authorization") {
        Some("Bearer good") => used(seen, 10, 5),
        Some(key) if key.contains("forbidden") => Plan::error(403, &format!("not for you: {key}")),
        key => Plan::error(401, &format!("Incorrect API key provided: {}", key.unwrap_or_default())),
    }
}

/// A provider that also refuses other keys for its list of models.
async fn provider() -> Mock {
    let mock = Mock::start(picky).await;
    mock.on_probe(picky_probe);
    mock
}

fn picky_probe(seen: &Seen) -> Option<Plan> {
    (seen.header("authorization") != Some("Bearer good")).then(|| picky(seen))
}

fn accounts(mock: &Mock, key: &str) -> String {
    format!(
        "accounts: {{ paid: {{ keys: [{key}] }} }}\n\
         engines: {{ e: {{ url: \"{}\", account: paid, scrape: false }} }}\n\
         pools: {{ main: {{ model: m, backends: [{{ engine: e }}] }} }}\nmodels: {{ auto: {{ to: main }} }}\n",
        mock.url()
    )
}

async fn send(gateway: &Gateway) -> client::Answer {
    client::post(&gateway.at("/v1/chat/completions"), &chat("auto", 5)).await
}

#[tokio::test]
async fn a_provider_s_refusal_of_the_operator_s_key_is_not_the_caller_s_401() {
    let mock = provider().await;
    for (key, status) in [("sk-wrong", 401), ("sk-forbidden", 403)] {
        let gateway = Gateway::start(&accounts(&mock, key)).await;
        for stream in [false, true] {
            let mut body = chat("auto", 5);
            body["stream"] = stream.into();
            let answer = client::post(&gateway.at("/v1/chat/completions"), &body).await;
            assert_eq!(code(&answer), (502, "upstream_auth".to_owned()));
            let text = answer.text();
            assert!(text.contains("'paid'") && text.contains("'main'") && text.contains(&status.to_string()), "{text}");
            assert!(!text.contains(key) && !text.contains("Incorrect") && !text.contains("not for you"), "{text}");
            assert!(answer.headers.get("www-authenticate").is_none());
        }
    }
    // Without an account the pool alone is named.
    let own = format!(
        "pools: {{ main: {{ model: m, backends: [{{ url: \"{}\", key: sk-own }}] }} }}\nmodels: {{ auto: {{ to: main }} }}\n",
        mock.url()
    );
    let gateway = Gateway::start(&own).await;
    let answer = send(&gateway).await;
    assert_eq!(code(&answer), (502, "upstream_auth".to_owned()));
    assert!(
        answer.text().contains("the key for the pool 'main'") && !answer.text().contains("sk-own"),
        "{}",
        answer.text()
    );
    let metrics = gateway.metrics().await;
    assert!(metrics.sum("signalbox_engine_breaker_opened_total", &[]) < 0.5, "the engine itself has not failed");
}

#[tokio::test]
async fn another_account_may_answer_what_one_is_refused_for() {
    let (mock, other) = (provider().await, provider().await);
    for bad in ["sk-wrong", "sk-forbidden"] {
        let text = format!(
            "accounts: {{ bad: {{ keys: [{bad}] }}, well: {{ keys: [good] }} }}\n\
             engines: {{ a: {{ url: \"{0}\", account: bad, scrape: false }}, b: {{ url: \"{1}\", account: well, scrape: false }} }}\n\
             pools: {{ first: {{ model: m, backends: [{{ engine: a }}] }}, second: {{ model: m, backends: [{{ engine: b }}] }} }}\n\
             models: {{ auto: {{ to: first, fallback: [second] }} }}\n",
            mock.url(),
            other.url(),
        );
        let gateway = Gateway::start(&text).await;
        for _ in 0..3 {
            let answer = send(&gateway).await;
            assert_eq!(
                (answer.status.as_u16(), answer.header("x-signalbox-pool")),
                (200, "second"),
                "{}",
                answer.text()
            );
        }
    }
}

/// The credential of the first backend in the state, and the health problems.
async fn shown(gateway: &Gateway) -> (Value, String) {
    let state = gateway.get_json("/admin/state").await;
    (state["pools"][0]["backends"][0]["credential"].clone(), state["health"].to_string())
}

#[tokio::test]
async fn keys_are_tried_before_a_request_comes_and_a_refused_one_is_seen() {
    let mock = provider().await;
    let gateway = Gateway::start(&accounts(&mock, "sk-wrong")).await;
    until("the key to be known as refused", async || shown(&gateway).await.0["refused"] == 1).await;
    let (credential, health) = shown(&gateway).await;
    let reported = ["account", "refused", "of", "status"].map(|name| credential[name].clone());
    assert_eq!(reported, [json!("paid"), json!(1), json!(1), json!(401)]);
    assert!(credential["for_s"].as_f64().unwrap() >= 0.0);
    assert!(health.contains("\"level\":\"bad\"") && health.contains("account paid: the key is refused"), "{health}");
    assert_eq!(
        lines(&gateway, &["WARN", "refuses key 1 of 1 of the account 'paid'", "status=401"]),
        1,
        "{}",
        gateway.log()
    );
    assert!(mock.seen().is_empty() && !gateway.log().contains("sk-wrong"));
    let own = gateway.admin("").trim_end_matches('/').to_owned();
    let top = std::process::Command::new(env!("CARGO_BIN_EXE_signalbox"));
    let screen = { top }.args(["top", "--once", "--admin", &own]).output().unwrap();
    let screen = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.contains("KEY REFUSED (401)") && screen.contains("account paid"), "{screen}");

    // Refusals of requests are reported once a minute, with their number; not once each.
    for _ in 0..5 {
        assert_eq!(send(&gateway).await.status, 502);
    }
    assert_eq!(lines(&gateway, &["WARN", "refuses key"]), 1, "{}", gateway.log());

    // Another key is tried when it comes, and clears the name.
    gateway.rewrite(&accounts(&mock, "good"));
    until("the key to be taken", async || {
        let (credential, health) = shown(&gateway).await;
        credential.is_null() && !health.contains("refused")
    })
    .await;
    assert_eq!(send(&gateway).await.status, 200);
}

#[tokio::test]
async fn a_key_that_works_again_clears_its_name() {
    let mock = Mock::start(|seen| match seen.header("x-client-request-id") {
        Some(_) => Plan::error(401, "no"),
        None => used(seen, 1, 1),
    })
    .await;
    let gateway = Gateway::start(&accounts(&mock, "good")).await;
    let request = client::json(http().post(gateway.at("/v1/chat/completions")), &chat("auto", 5));
    assert_eq!(client::answer(request.header("x-client-request-id", "refuse")).await.status, 502);
    assert_eq!(shown(&gateway).await.0["refused"], 1);
    assert_eq!(send(&gateway).await.status, 200);
    assert!(shown(&gateway).await.0.is_null());
    gateway.wait_log("accepts key 1 of 1 of the account 'paid' again").await;
}

#[tokio::test]
async fn a_provider_that_hangs_at_its_listing_holds_up_nothing() {
    let mock = Mock::start(polite).await;
    mock.on_probe(|_| Some(Plan::silence()));
    let gateway = Gateway::start(&accounts(&mock, "good")).await;
    assert_eq!(send(&gateway).await.status, 200);
    assert!(shown(&gateway).await.0.is_null());
    // The policy of a test has its keys in the file, which anyone may read.
    let others = lines(&gateway, &["WARN"]) - lines(&gateway, &["WARN", "may read it"]);
    assert_eq!(others, 0, "{}", gateway.log());
}

#[tokio::test]
async fn changes_of_reachability_are_logged_once() {
    let mock = Mock::start(polite).await;
    let text = pool(&mock, "").replace("scrape: false", "scrape: 100ms");
    let gateway = Gateway::start(&text).await;
    mock.set_metrics("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 0\n");
    until("the engine to be up", async || {
        gateway.get_json("/admin/state").await["pools"][0]["backends"][0]["state"] == "up"
    })
    .await;
    let down = ["WARN", "engine: 'e' cannot be reached"];
    assert_eq!(lines(&gateway, &down), 0, "{}", gateway.log());
    let address = mock.stop().await;
    gateway.wait_log(down[1]).await;
    assert_eq!(send(&gateway).await.status, 503);
    let _again = Mock::start_at(address, polite).await;
    gateway.wait_log("engine: 'e' can be reached again").await;
    assert_eq!(
        (lines(&gateway, &down), lines(&gateway, &["INFO", "can be reached again"])),
        (1, 1),
        "{}",
        gateway.log()
    );
}

#[tokio::test]
async fn requests_show_whether_an_unscraped_engine_is_reachable() {
    let mock = Mock::start(polite).await;
    let gateway = Gateway::start(&pool(&mock, "")).await;
    assert_eq!(send(&gateway).await.status, 200);
    let address = mock.stop().await;
    assert_eq!(send(&gateway).await.status, 503);
    gateway.wait_log("engine: 'e' cannot be reached").await;
    let _again = Mock::start_at(address, polite).await;
    until("it to be asked again", async || send(&gateway).await.status == 200).await;
    gateway.wait_log("engine: 'e' can be reached again").await;
}

#[tokio::test]
async fn unreadable_metrics_are_logged_once() {
    let mock = Mock::start(polite).await;
    mock.set_metrics("<html>no metrics here</html>");
    let text = pool(&mock, "").replace("scrape: false", "scrape: 50ms");
    let gateway = Gateway::start(&text).await;
    gateway.wait_log("metrics of engine 'e' cannot be read").await;
    assert_eq!(lines(&gateway, &["WARN", "cannot be read"]), 1, "{}", gateway.log());
}

#[tokio::test]
async fn a_request_that_is_over_has_a_line_in_the_access_log() {
    let mock = Mock::start(|seen| match seen.header("x-client-request-id") {
        Some("hang") => Plan::stream().events(&chat_events(["secret answer", "b"])[..2]).hang(),
        Some("fail") => Plan::error(500, "broken"),
        _ => used(seen, 10, 5),
    })
    .await;
    let policy =
        format!("access_log: {{ format: json, path: access.log }}\n{}{}", keys(&[("web", "")]), pool(&mock, ""));
    let gateway = Gateway::start(&policy).await;
    let file = gateway.dir().join("access.log");
    let read = || std::fs::read_to_string(&file).unwrap_or_default();
    let mut body = chat("auto", 5);
    body["messages"][0]["content"] = "secret question".into();
    let url = gateway.at("/v1/chat/completions?api_key=hidden");
    let request = client::json(http().post(&url), &body).bearer_auth("web").header("x-request-id", "one");
    assert_eq!(client::answer(request).await.status, 200);
    assert_eq!(
        ask(&gateway, "web", &body, &[("x-client-request-id", "fail"), ("x-request-id", "two")]).await.status,
        500
    );
    assert_eq!(ask(&gateway, "wrong", &body, &[("x-request-id", "three")]).await.status, 401);
    body["stream"] = true.into();
    let request = client::json(http().post(&url), &body).bearer_auth("web").header("x-client-request-id", "hang");
    let mut stream = Sse::send(request.header("x-request-id", "four")).await;
    stream.event().await.unwrap();
    drop(stream);
    until("four lines", async || read().lines().count() == 4).await;
    let text = read();
    for hidden in ["secret", "hidden", "Bearer", "api_key"] {
        assert!(!text.contains(hidden), "{text}");
    }
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |id: &str| lines.iter().find(|line| line["id"] == id).unwrap();
    let one = line("one");
    for (name, value) in [
        ("key", json!("web")),
        ("method", json!("POST")),
        ("path", json!("/v1/chat/completions")),
        ("endpoint", json!("chat")),
        ("model", json!("auto")),
        ("route", json!("auto")),
        ("pool", json!("main")),
        ("status", json!(200)),
        ("outcome", json!("ok")),
        ("attempts", json!(1)),
        ("prompt_tokens", json!(10)),
        ("completion_tokens", json!(5)),
    ] {
        assert_eq!(one[name], value, "{name} of {one:#}");
    }
    assert!(one["backend"].is_string() && one["duration_ms"].as_f64().unwrap() > 0.0);
    assert!(one["time"].as_str().unwrap().ends_with('Z'));
    let said = |id: &str| (line(id)["status"].as_u64().unwrap(), line(id)["outcome"].as_str().unwrap().to_owned());
    assert_eq!(said("two"), (500, "upstream_error".to_owned()));
    assert_eq!(said("three"), (401, "unauthorized".to_owned()));
    assert_eq!(said("four"), (200, "client_gone".to_owned()));
    assert!(line("four")["ttft_ms"].as_f64().unwrap() > 0.0);
}

#[tokio::test]
async fn the_access_log_goes_to_the_standard_output_as_text() {
    let mock = Mock::start(|seen| used(seen, 10, 5)).await;
    let mut gateway = Start::with(&format!("access_log: {{}}\n{}", pool(&mock, ""))).start().await;
    assert_eq!(send(&gateway).await.status, 200);
    gateway.wait_log("Z POST /v1/chat/completions 200 ok id=sb-").await;
    assert_eq!(lines(&gateway, &["model=auto", "pool=main", "attempts=1", "completion_tokens=5", "duration_ms="]), 1);
    // A name that a client chose makes no second line.
    let odd = json!({ "model": "a\nb POST /x 200", "messages": [{ "role": "user", "content": "hi" }] });
    assert_eq!(client::post(&gateway.at("/v1/chat/completions"), &odd).await.status, 404);
    gateway.wait_log("model=\"a\\nb POST /x 200\"").await;
    gateway.sigterm();
    assert!(gateway.wait_exit().await.success());
}

#[tokio::test]
async fn a_faulty_access_log_is_reported_at_the_start() {
    let mock = Mock::start(polite).await;
    let Err(log) = Start::with(&format!("access_log: {{ format: xml }}\n{}", pool(&mock, ""))).attempt().await else {
        panic!("there is no such format")
    };
    assert!(log.contains("possible: `text`, `json`"), "{log}");
    let Err(log) =
        Start::with(&format!("access_log: {{ path: /no/such/folder/a.log }}\n{}", pool(&mock, ""))).attempt().await
    else {
        panic!("there is no such folder")
    };
    assert!(log.contains("access_log.path in the policy"), "{log}");
}
