//! Objectives: requests that count, policies with error budget conditions, and alerts in a real Prometheus.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{
    cli,
    client::{Answer, Sse, answer, http, json},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen, chat_events, polite},
    package_dir,
    prometheus::Prometheus,
    until,
};

/// TTFT beyond the objective of these tests, and well within any deadline of the gateway.
const LATE: Duration = Duration::from_millis(900);

fn chat(model: &str, said: &str) -> Value {
    json!({ "model": model, "stream": true, "messages": [{ "role": "user", "content": said }] })
}

async fn ask(gateway: &Gateway, body: &Value, headers: &[(&str, &str)]) -> Answer {
    let request = json(http().post(gateway.at("/v1/chat/completions")), body);
    answer(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))).await
}

/// Standing of an objective of a pool or a route.
fn slo<'a>(state: &'a Value, of: &str, name: &str, objective: &str) -> &'a Value {
    let named = |all: &'a Value, key: &str, name: &str| {
        let found = all.as_array().and_then(|all| all.iter().find(|one| one[key] == *name));
        found.unwrap_or_else(|| panic!("no {name}"))
    };
    named(&named(&state[of], "name", name)["slo"], "objective", objective)
}

/// `[good, total]`.
fn counts(slo: &Value) -> [u64; 2] {
    ["good", "total"].map(|key| slo[key].as_u64().expect("a count"))
}

/// An engine that behaves as a header of each request says.
fn obedient(name: &'static str) -> impl Fn(&Seen) -> Plan {
    move |seen| match seen.header("x-do").unwrap_or_default() {
        "fail" if name == "a" => Plan::error(500, "broken"),
        "fall" => Plan::error(502, "broken"),
        "refuse" => Plan::error(400, "no such field"),
        "hold" => Plan::stream().events(&chat_events(["a", "b"])[..2]).gate(1).events(chat_events(["b"])).done(),
        _ => polite(seen),
    }
}

#[tokio::test]
async fn failures_not_caused_by_clients_count_once_per_route_and_pool() {
    let (a, b) = (Mock::start(obedient("a")).await, Mock::start(obedient("b")).await);
    let policy = |target: &str| {
        format!(
            "engines:\n  a: {{ url: \"{}\", max_concurrency: 1 }}\n\
             pools:\n  \
             a: {{ model: m, objectives: [{{ availability: 90% }}, {{ when: prompt.tokens < 1000, ttft: {{ p95: 1h }} }}], backends: [{{ engine: a }}] }}\n  \
             b: {{ model: n, objectives: [{{ availability: {target} }}], backends: [\"{}\"] }}\n\
             models:\n  \
             auto: {{ to: a, fallback: [b], spill: off, objectives: [{{ availability: 99% }}, {{ ttft: {{ p50: 1h }} }}] }}\n  \
             alone: {{ to: a, queue: 0s, objectives: [{{ availability: 99.5% }}] }}\n\
             cache: {{ exact: {{ ttl: 1h }} }}\n",
            a.url(),
            b.url()
        )
    };
    let gateway = Gateway::start(&policy("90%")).await;
    let state = async || gateway.get_json("/admin/state").await;
    // Availability of a, b, auto, alone.
    let expect = async |what: &str, expected: [[u64; 2]; 4]| {
        let mut reported = [[0; 2]; 4];
        until(what, async || {
            let state = state().await;
            let of = [("pools", "a"), ("pools", "b"), ("routes", "auto"), ("routes", "alone")];
            reported = of.map(|(of, name)| counts(slo(&state, of, name, "availability")));
            reported.iter().zip(&expected).all(|(reported, expected)| reported[1] >= expected[1])
        })
        .await;
        assert_eq!(reported, expected, "{what}");
    };
    expect("nothing yet", [[0, 0]; 4]).await;

    let mut kept = chat("auto", "one");
    kept["temperature"] = 0.into();
    assert_eq!(ask(&gateway, &kept, &[]).await.header("x-signalbox-cache"), "miss");
    expect("an answer", [[1, 1], [0, 0], [1, 1], [0, 0]]).await;
    assert_eq!(ask(&gateway, &kept, &[]).await.header("x-signalbox-cache"), "hit-exact");
    expect("the same again, for its route alone", [[1, 1], [0, 0], [2, 2], [0, 0]]).await;

    let answer = ask(&gateway, &chat("auto", "two"), &[("x-do", "fail")]).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-signalbox-pool")), (200, "b"));
    expect("a failure that another pool made good", [[1, 2], [1, 1], [3, 3], [0, 0]]).await;
    assert_eq!(ask(&gateway, &chat("auto", "three"), &[("x-do", "refuse")]).await.status, 400);
    assert_eq!(ask(&gateway, &chat("auto", "four"), &[("x-do", "fall")]).await.status, 502);
    expect("one by its client's fault, and one by everybody's", [[1, 3], [1, 2], [3, 4], [0, 0]]).await;

    let request = json(http().post(gateway.at("/v1/chat/completions")), &chat("auto", "five"));
    let held = Sse::send(request.header("x-do", "hold")).await;
    assert_eq!((held.status.as_u16(), held.header("x-signalbox-pool")), (200, "a"));
    assert_eq!(ask(&gateway, &chat("alone", "six"), &[]).await.status, 503);
    expect("one that found no room", [[1, 4], [1, 2], [3, 4], [0, 1]]).await;
    drop(held);
    let room = |now: &Metrics| now.sum("signalbox_backend_in_flight", &[r#"pool="a""#]) < 0.5;
    gateway.wait_metrics("room again", room).await;
    assert_eq!(ask(&gateway, &chat("alone", "seven"), &[]).await.status, 200);
    expect("one whose client left, and one after it", [[2, 5], [1, 2], [3, 4], [1, 2]]).await;

    let now = state().await;
    // What failed before its first token had none in time; the hit had its own.
    assert_eq!(
        counts(slo(&now, "pools", "a", "ttft_p95_under_1000")),
        [3, 6],
        "the one that was left had its first token"
    );
    assert_eq!(counts(slo(&now, "routes", "auto", "ttft_p50")), [4, 5]);
    let availability = slo(&now, "pools", "a", "availability");
    for window in ["5m", "1h", "6h", "3d"] {
        let burn = availability["burn"][window].as_f64().expect("a rate");
        assert!((burn - 3.0 / 5.0 / 0.1).abs() < 1e-6, "{availability}");
    }
    assert_eq!((&availability["target"], &availability["state"]), (&json!(0.9), &json!("ok")), "three are too few");
    assert!(availability["budget_left"].as_f64() > Some(0.9), "{availability}");

    // The objectives that stay go on, those that change begin anew.
    let before = now["hash"].clone();
    gateway.rewrite(&policy("95%"));
    until("the new policy", async || state().await["hash"] != before).await;
    expect("the counts after a reload", [[2, 5], [0, 0], [3, 4], [1, 2]]).await;
    let metrics = gateway.metrics().await;
    let a = [r#"pool="a""#, r#"objective="availability""#];
    assert!((metrics.sum("signalbox_slo_requests_total", &a) - 5.0).abs() < 0.1);
    assert!((metrics.sum("signalbox_slo_good_total", &a) - 2.0).abs() < 0.1);
    assert!((metrics.sum("signalbox_slo_state", &[&a[..], &[r#"state="ok""#]].concat()) - 1.0).abs() < 0.1);
}

#[tokio::test]
async fn a_pool_that_says_nothing_has_failed_where_another_answers_beside_it() {
    let (a, b) = (Mock::start(|_: &Seen| Plan::silence()).await, Mock::start(polite).await);
    let gateway = Gateway::start(&format!(
        "pools:\n  \
         a: {{ model: m, objectives: [{{ availability: 99% }}], backends: [\"{}\"] }}\n  \
         b: {{ model: n, objectives: [{{ availability: 99% }}], backends: [\"{}\"] }}\n\
         models: {{ auto: {{ to: a, fallback: [b], hedge: off, timeouts: {{ first_token: 200ms }}, objectives: [{{ availability: 99% }}] }} }}\n",
        a.url(),
        b.url()
    ))
    .await;
    assert_eq!(ask(&gateway, &chat("auto", "hi"), &[]).await.header("x-signalbox-pool"), "b");
    let mut reported = [[0; 2]; 3];
    until("its end", async || {
        let state = gateway.get_json("/admin/state").await;
        let of = [("pools", "a"), ("pools", "b"), ("routes", "auto")];
        reported = of.map(|(of, name)| counts(slo(&state, of, name, "availability")));
        reported[2][1] > 0
    })
    .await;
    assert_eq!(reported, [[0, 1], [1, 1], [1, 1]]);
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_token_misses_the_objective() {
    let mock = Mock::start(|_: &Seen| Plan::silence()).await;
    let gateway = Gateway::start(&format!(
        "pools: {{ a: {{ model: m, backends: [\"{}\"], objectives: [{{ ttft: {{ p50: 1us, p95: 1h }} }}, {{ availability: 99% }}] }} }}\n",
        mock.url()
    ))
    .await;
    let asking = tokio::spawn(answer(json(http().post(gateway.at("/v1/chat/completions")), &chat("m", "hi"))));
    mock.wait_seen(1).await;
    asking.abort();
    let mut reported = [[0; 2]; 3];
    until("its end", async || {
        let state = gateway.get_json("/admin/state").await;
        reported =
            ["ttft_p50", "ttft_p95", "availability"].map(|objective| counts(slo(&state, "pools", "a", objective)));
        reported[0][1] > 0
    })
    .await;
    assert_eq!(reported, [[0, 1], [0, 0], [0, 0]]);
}

/// Sends requests continuously, several at a time, until dropped.
struct Load(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Load {
    fn of(gateway: &Gateway, workers: usize, model: &'static str) -> Self {
        let (on, url) = (Arc::new(AtomicBool::new(true)), gateway.at("/v1/chat/completions"));
        let worker = |_| {
            let (on, url, client) = (on.clone(), url.clone(), http());
            tokio::spawn(async move {
                while on.load(Relaxed) {
                    answer(json(client.post(&url), &chat(model, "hi"))).await;
                }
            })
        };
        let workers = (0..workers).map(worker).collect();
        Self(on, workers)
    }

    /// Sends no more, and waits for the requests in progress.
    async fn end(mut self) {
        self.0.store(false, Relaxed);
        for worker in std::mem::take(&mut self.1) {
            worker.await.expect("a worker ends");
        }
    }
}

/// An engine that is slow while the flag is set.
async fn moody() -> (Mock, Arc<AtomicBool>) {
    let slow = Arc::new(AtomicBool::new(true));
    let flag = slow.clone();
    let plan = move |seen: &Seen| if flag.load(Relaxed) { polite(seen).after(LATE) } else { polite(seen) };
    (Mock::start(plan).await, slow)
}

#[tokio::test]
async fn a_route_leaves_a_pool_that_burns_and_comes_back() {
    let ((small, slow), large) = (moody().await, Mock::start(polite).await);
    let gateway = Gateway::start(&format!(
        "pools:\n  \
         small: {{ model: s, objectives: [{{ ttft: {{ p95: 500ms }} }}], backends: [\"{}\"] }}\n  \
         large: {{ model: l, backends: [\"{}\"] }}\n\
         models:\n  probe: {{ to: small }}\n  auto:\n    routes:\n      \
         - {{ name: away, when: 'pool.small.slo == \"burning\" && pool.small.burn > 2 && route.home.slo == \"ok\"', to: large }}\n      \
         - {{ name: home, to: small, objectives: [{{ availability: 99% }}] }}\n",
        small.url(),
        large.url()
    ))
    .await;
    let way = async || {
        let answer = ask(&gateway, &chat("auto", "where to?"), &[]).await;
        assert_eq!(answer.status, 200);
        (answer.header("x-signalbox-route").to_owned(), answer.header("x-signalbox-pool").to_owned())
    };
    assert_eq!(way().await, ("home".to_owned(), "small".to_owned()));
    let asked = AtomicUsize::new(0);
    until("the pool to burn", async || {
        asked.fetch_add(1, Relaxed);
        way().await == ("away".to_owned(), "large".to_owned())
    })
    .await;
    assert!(asked.into_inner() >= 5, "fewer than five late requests burn nothing");
    let (state, before) = (gateway.get_json("/admin/state").await, small.seen().len());
    assert_eq!(slo(&state, "pools", "small", "ttft_p95")["state"], "burning");
    assert_eq!(way().await.0, "away");
    assert_eq!(small.seen().len(), before, "it is left alone");

    slow.store(false, Relaxed);
    let load = Load::of(&gateway, 4, "probe");
    until("the pool to be back", async || way().await == ("home".to_owned(), "small".to_owned())).await;
    load.end().await;
}

/// An engine whose answers to `slow` take a while as a whole, and stall twice as a stream.
fn stalling(seen: &Seen) -> Plan {
    const STALL: Duration = Duration::from_millis(200);
    if !seen.json()["messages"].to_string().contains("slow") {
        return polite(seen);
    }
    let stalls = |plan: Plan, event: String| plan.pause(STALL).event(&event);
    if seen.streams() {
        chat_events(["a", "b", "c"]).into_iter().fold(Plan::stream(), stalls).done()
    } else {
        polite(seen).after(LATE)
    }
}

#[tokio::test]
async fn whole_answers_gaps_and_failures_have_objectives() {
    let mock = Mock::start(stalling).await;
    let gateway = Gateway::start(&format!(
        "pools:\n  main:\n    model: m\n    backends: [\"{}\"]\n    objectives:\n      \
         - {{ e2e: {{ p95: 500ms }} }}\n      - {{ gap: {{ p95: 150ms }} }}\n      - {{ stutter: 1% }}\n      - {{ error_rate: 1% }}\n\
         models: {{ auto: {{ to: main, objectives: [{{ for: batch }}] }} }}\n",
        mock.url()
    ))
    .await;
    let whole = |said: &str| json!({ "model": "auto", "messages": [{ "role": "user", "content": said }] });
    for at in 0..5 {
        assert_eq!(ask(&gateway, &whole(&format!("slow {at}")), &[]).await.status, 200);
    }
    for said in ["one", "two", "three"] {
        assert_eq!(ask(&gateway, &whole(said), &[]).await.status, 200);
    }
    assert_eq!(ask(&gateway, &chat("auto", "slow stream"), &[]).await.status, 200);
    let settled = |now: &Metrics| now.sum("signalbox_requests_total", &[r#"outcome="ok""#]) > 8.5;
    gateway.wait_metrics("all to be settled", settled).await;

    let state = gateway.get_json("/admin/state").await;
    let pool = |objective: &str| slo(&state, "pools", "main", objective);
    assert_eq!(counts(pool("e2e_p95")), [3, 9], "five slow ones as a whole, and a stream of six hundred milliseconds");
    assert_eq!(pool("e2e_p95")["state"], "burning");
    assert_eq!(counts(pool("gap_p95")), [0, 1], "only a stream has gaps");
    let [good, gaps] = counts(pool("stutter"));
    assert!(gaps >= 2 && good < gaps, "of two stalls or more: {}", pool("stutter"));
    assert_eq!(counts(pool("error_rate")), [9, 9]);
    assert_eq!(counts(slo(&state, "routes", "auto", "e2e_p95")), [9, 9]);
    assert_eq!(counts(slo(&state, "routes", "auto", "availability")), [9, 9]);
    let troubles = state["health"]["troubles"].to_string();
    assert!(troubles.contains("e2e_p95 burns"), "{troubles}");
    let good = gateway.metrics().await.sum("signalbox_goodput_ratio", &[r#"pool="main""#]);
    assert!(good < 0.9, "late answers are not good ones: {good}");
    let stalled = state["decisions"].as_array().and_then(|all| all.iter().find(|it| it["largest_gap_ms"].is_number()));
    let largest = stalled.and_then(|it| it["largest_gap_ms"].as_f64()).expect("a stream with gaps");
    assert!(largest >= 190.0, "{largest}");
}

#[tokio::test]
async fn an_objective_missed_four_times_as_often_as_it_may_is_missing() {
    let mock = Mock::start(obedient("a")).await;
    let gateway = Gateway::start(&format!(
        "error_budgets: {{ window: 7d, fast: {{ rate: 10 }}, missing: {{ rate: 2 }} }}\n\
         pools: {{ main: {{ model: m, objectives: [{{ error_rate: 5% }}], backends: [\"{}\"] }} }}\n\
         models: {{ auto: {{ to: main, hedge: off }} }}\n",
        mock.url()
    ))
    .await;
    for at in 0..40 {
        let what = if at % 5 == 4 { "fail" } else { "answer" };
        ask(&gateway, &chat("auto", &format!("question {at}")), &[("x-do", what)]).await;
    }
    let mut state = Value::Null;
    until("the objective to be missing", async || {
        state = gateway.get_json("/admin/state").await;
        slo(&state, "pools", "main", "error_rate")["state"] == "missing"
    })
    .await;
    let main = slo(&state, "pools", "main", "error_rate");
    assert!(main["burn"]["7d"].as_f64().is_some_and(|rate| rate > 3.0), "{main}");
    let troubles = state["health"]["troubles"].as_array().expect("troubles");
    let words = "pool main: error_rate was missed 4.0 times as often as it may over the last hour";
    let missed = troubles.iter().find(|it| it["words"].as_str().is_some_and(|it| it.starts_with(words)));
    assert_eq!(missed.map(|it| &it["level"]), Some(&json!("warn")), "{troubles:?}");
    let metrics = gateway.metrics().await;
    let missing = [r#"objective="error_rate""#, r#"state="missing""#];
    assert!((metrics.sum("signalbox_slo_state", &missing) - 1.0).abs() < 1e-9);
    assert!(metrics.sum("signalbox_slo_burn_rate", &[r#"window="7d""#]) > 3.0);
}

#[test]
fn rules_have_the_windows_and_rates_of_the_policy() {
    let policy = "error_budgets: { window: 30d, fast: { over: 2h, rate: 10 }, slow: { over: 1d, rate: 3 }, missing: { over: 3h } }\n\
         pools: { main: { model: m, objectives: [{ for: voice }], backends: [http://127.0.0.1:9/v1] } }\n";
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("policy.yaml"), policy).expect("a file");
    let ran = cli::run(dir.path(), ["rules", "policy.yaml"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let out = ran.out;
    for part in [
        "# pool main: ttft_p95 (95 %), tpot_p95 (95 %), availability (99.5 %)",
        "objective:signalbox_slo_burn_rate:10m >= objective:signalbox_slo_target_ratio:fast",
        "objective:signalbox_slo_burn_rate:1d >= objective:signalbox_slo_target_ratio:slow",
        "objective:signalbox_slo_burn_rate:3h > 1",
        "[30d]",
    ] {
        assert!(out.contains(part), "{part} is missing in:\n{out}");
    }
}

/// The alert rules with windows of seconds in place of minutes and hours.
fn hasty(rules: &str) -> String {
    let windows = [("[5m]", "[6s]"), ("[30m]", "[8s]"), ("[1h]", "[18s]"), ("[6h]", "[24s]"), ("[3d]", "[30s]")];
    windows.iter().fold(rules.to_owned(), |text, (long, short)| {
        assert!(text.contains(long), "no window of {long}");
        text.replace(long, short)
    })
}

#[tokio::test]
async fn a_real_prometheus_alerts_while_a_budget_burns() {
    let (mock, slow) = moody().await;
    let gateway = Gateway::start(&format!(
        "pools: {{ small: {{ model: s, objectives: [{{ ttft: {{ p95: 500ms }} }}], backends: [\"{}\"] }} }}\n\
         models: {{ auto: {{ to: small, objectives: [{{ availability: 99.9% }}] }} }}\n",
        mock.url()
    ))
    .await;
    let file = package_dir().join("examples/observability/rules/objectives.yml");
    let rules = std::fs::read_to_string(file).expect("the rules");
    let Some(prometheus) = Prometheus::with_rules(&gateway, &hasty(&rules)).await else { return };
    let [fast, slowly] = ["SignalboxBudgetBurnsFast", "SignalboxBudgetBurnsSlowly"].map(str::to_owned);
    // Its counts begin with the gateway's.
    prometheus.wait("sum(signalbox_slo_requests_total)", |count| count < 0.5).await;

    let load = Load::of(&gateway, 4, "auto");
    prometheus.wait_alerts("both alerts", |firing| firing.contains(&fast) && firing.contains(&slowly)).await;
    let burns = async |expected: bool| {
        let reported = async || {
            let state = gateway.get_json("/admin/state").await;
            (slo(&state, "pools", "small", "ttft_p95")["state"] == "burning") == expected
        };
        until("the gateway to say the same", reported).await;
    };
    // Prometheus counts what it sees for a little more than it is, and may be one request ahead.
    burns(true).await;
    let state = gateway.get_json("/admin/state").await;
    assert_eq!(slo(&state, "routes", "auto", "availability")["state"], "ok", "late is not failed");

    slow.store(false, Relaxed);
    prometheus.wait_alerts("the alerts to clear", <[String]>::is_empty).await;
    // It may be missed for a while yet: more good requests decide that.
    burns(false).await;
    load.end().await;

    // Over the true window both work out the same from the same counts.
    let state = gateway.get_json("/admin/state").await;
    let reported = slo(&state, "pools", "small", "ttft_p95");
    let [_, total] = counts(reported);
    let requests = r#"signalbox_slo_requests_total{objective="ttft_p95"}"#;
    prometheus.wait(requests, |count| (count - total as f64).abs() < 0.5).await;
    let rules: Value = serde_saphyr::from_str(&rules).expect("YAML");
    let rules = rules["groups"][0]["rules"].as_array().expect("rules");
    let rule = rules.iter().find(|rule| rule["record"] == "objective:signalbox_slo_burn_rate:5m").expect("the rule");
    let query = format!("({}) and on (objective) {requests}", rule["expr"].as_str().expect("an expression"));
    let theirs = prometheus.wait(&query, |_| true).await;
    let ours = reported["burn"]["5m"].as_f64().expect("a rate");
    assert!(ours > 0.0 && (theirs / ours - 1.0).abs() < 0.02, "{theirs} and {ours}");
}
