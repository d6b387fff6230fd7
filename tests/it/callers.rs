//! Usage by caller, goodput of engines' work, and callers whose prompts defeat prefix caching.

use std::{io::ErrorKind, sync::Arc, time::Duration};

use serde_json::{Value, json};
use signalbox::{
    config::Config,
    fleet::{Registry, Snapshot},
    gateway::Parts,
    policy::{Policy, compile},
    types::Clock,
};

use super::{
    accounting::House,
    keys::{ask, keys, pool, used},
};
use crate::support::{
    client::{Sse, answer, get, http, json, post},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen, chat_events},
};

/// An answer to a prompt of 1000 tokens with this many cached ones.
fn cached(tokens: u64) -> Plan {
    let usage = json!({
        "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
        "prompt_tokens_details": { "cached_tokens": tokens }, "completion_tokens_details": { "reasoning_tokens": 20 },
    });
    let message = json!({ "index": 0, "message": { "role": "assistant", "content": "a" }, "finish_reason": "stop" });
    Plan::json(200, &json!({ "id": "x", "object": "chat.completion", "choices": [message], "usage": usage }))
}

fn chat(system: &str, said: &[&str]) -> Value {
    let mut messages = vec![json!({ "role": "system", "content": system })];
    messages.extend(said.iter().map(|text| json!({ "role": "user", "content": text })));
    json!({ "model": "auto", "messages": messages })
}

fn rules() -> String {
    let rule = |number| format!("Rule {number}: be kind to those who ask {}. ", number * 7919 % 1013);
    (0..120).map(rule).collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn usage_is_counted_by_key_and_shown_to_operators_only() {
    let mock =
        Mock::start(|seen: &Seen| if seen.header("x-fail").is_some() { Plan::error(400, "no") } else { cached(800) })
            .await;
    let list = keys(&[("web", ""), ("batch", "")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "web", &chat("be brief", &["hi"]), &[]).await.status, 200);
    }
    assert_eq!(ask(&gateway, "batch", &chat("be brief", &["hi"]), &[("x-fail", "1")]).await.status, 400);
    assert_eq!(ask(&gateway, "nobody's", &chat("be brief", &["hi"]), &[]).await.status, 401);
    let all = |now: &Metrics| now.sum("signalbox_key_requests_total", &[]) > 4.5;
    let now = gateway.wait_metrics("all to be counted", all).await;
    // A sum of nothing is -0.
    let of = |name: &str, labels: &[&str]| (now.sum(name, labels) * 1e6).round() / 1e6 + 0.0;
    let web = r#"key="web""#;
    assert_eq!(of("signalbox_key_requests_total", &[web, r#"outcome="ok""#]).to_string(), "3");
    assert_eq!(of("signalbox_key_requests_total", &[r#"key="none""#, r#"outcome="unauthorized""#]).to_string(), "1");
    assert_eq!(of("signalbox_key_requests_total", &[r#"key="batch""#]).to_string(), "1");
    assert_eq!(of("signalbox_key_requests_total", &[r#"key="batch""#, r#"outcome="ok""#]).to_string(), "0");
    for (kind, tokens) in [("prompt", "3000"), ("cached", "2400"), ("completion", "150"), ("reasoning", "60")] {
        assert_eq!(of("signalbox_key_tokens_total", &[web, &format!("kind=\"{kind}\"")]).to_string(), tokens, "{kind}");
    }
    for (kind, tokens) in [("prompt", "3000"), ("reported", "2400")] {
        let of_kind = &[web, &*format!("kind=\"{kind}\"")];
        assert_eq!(of("signalbox_key_prefix_tokens_total", of_kind).to_string(), tokens, "{kind}");
    }
    assert_eq!(now.sum("signalbox_key_prefix_tokens_total", &[r#"key="batch""#]).abs().to_string(), "0");
    let cost = of("signalbox_key_cost_usd_total", &[web]);
    assert!(cost > 0.0 && (cost - of("signalbox_cost_usd_total", &[])).abs() < 1e-9, "{cost}");
    assert_eq!(of("signalbox_work_tokens_total", &[r#"kind="prompt""#, r#"use="good""#]).to_string(), "600");

    // What others use is none of a caller's business.
    let public = answer(http().get(gateway.at("/metrics")).bearer_auth("web")).await.text();
    assert!(public.contains("signalbox_requests_total") && !public.contains("signalbox_key_"), "{public}");

    // A key that leaves the policy leaves no series.
    gateway.rewrite(&format!("{}{}", keys(&[("batch", "")]), pool(&mock, "")));
    gateway
        .wait_metrics("the key to be gone", |now| now.sum("signalbox_key_tokens_total", &[r#"key="web""#]) < 0.5)
        .await;
}

#[tokio::test]
async fn prompts_that_diverge_early_are_reported_by_key_and_position() {
    let mock = Mock::start(|_: &Seen| cached(0)).await;
    let list = keys(&[("dated", ""), ("steady", "")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    let rules = rules();
    for number in 0..14 {
        let dated = format!("It is 2026-11-22T10:{number:02}:00Z. {rules}");
        assert_eq!(ask(&gateway, "dated", &chat(&dated, &["hi"]), &[]).await.status, 200);
        let question = format!("question {number}: {}", "why? ".repeat(number));
        assert_eq!(ask(&gateway, "steady", &chat(&rules, &[&question]), &[]).await.status, 200);
    }
    let reported = gateway.get_json("/admin/prompt-cache").await;
    let callers = reported["callers"].as_array().expect("callers");
    let [dated, steady] = &callers[..] else { panic!("{reported:#}") };
    assert_eq!((&dated["key"], &dated["requests"], &dated["departed"]), (&json!("dated"), &json!(14), &json!(13)));
    let place = &dated["departures"][0];
    assert_eq!((&place["where"], &place["requests"]), (&json!("system"), &json!(13)));
    assert!(place["to_byte"].as_u64().expect("a byte") <= 128, "{place:#}");
    assert!(dated["advice"].as_str().expect("advice").contains("in the system prompt"), "{dated:#}");
    assert_eq!((&dated["reported_cached_share"], &dated["new"]), (&json!(0.0), &json!(1)));
    assert_eq!((&steady["key"], &steady["departed"], &steady["alike"]), (&json!("steady"), &json!(0), &json!(13)));
    assert!(!reported.to_string().contains("Rule"), "no text of a prompt may be reported");
    let now = gateway.metrics().await;
    let counted = |labels: &[&str]| now.sum("signalbox_prompt_prefix_changes_total", labels);
    assert!((counted(&[r#"key="dated""#, r#"where="system""#]) - 13.0).abs() < 0.5);
    assert!((counted(&[]) - 13.0).abs() < 0.5);
    assert_eq!(get(&gateway.at("/admin/prompt-cache")).await.status, 404, "it is for operators alone");
}

#[tokio::test]
async fn prefix_stability_covers_callers_without_keys_and_anthropic_breakpoints() {
    let mock = Mock::start(|_: &Seen| {
        let usage = json!({ "input_tokens": 900, "cache_read_input_tokens": 100, "output_tokens": 5 });
        let content = json!([{ "type": "text", "text": "a" }]);
        Plan::json(
            200,
            &json!({ "id": "x", "type": "message", "role": "assistant", "content": content, "usage": usage }),
        )
    })
    .await;
    let policy = format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false }} }}\n\
         pools: {{ main: {{ model: m, speaks: [messages], backends: [{{ engine: e }}] }} }}\nmodels: {{ auto: {{ to: main }} }}\n",
        mock.url()
    );
    let gateway = Gateway::start(&policy).await;
    for number in 0..14 {
        let text = format!("The user is {number:04}. {}", rules());
        let system = json!([{ "type": "text", "text": text, "cache_control": { "type": "ephemeral" } }]);
        let said = json!([{ "role": "user", "content": "hi" }]);
        let body = json!({ "model": "auto", "max_tokens": 5, "system": system, "messages": said });
        let answer = post(&gateway.at("/v1/messages"), &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let reported = gateway.get_json("/admin/prompt-cache").await;
    let caller = &reported["callers"][0];
    assert_eq!((&caller["key"], &caller["departures"][0]["before_breakpoint"]), (&json!("none"), &json!(13)));
    assert_eq!(caller["reported_cached_share"], 0.1);
    assert!(caller["advice"].as_str().expect("advice").contains("cache_control"), "{caller:#}");
    let cached = gateway.metrics().await.sum("signalbox_key_tokens_total", &[r#"key="none""#, r#"kind="cached""#]);
    assert!((cached - 1400.0).abs() < 0.5, "{cached}");
}

#[tokio::test]
async fn predicted_cached_tokens_are_no_work_without_reports() {
    let mock = Mock::start(|seen: &Seen| used(seen, 2000, 10)).await;
    let gateway = Gateway::start(&format!("{}{}", keys(&[("web", "")]), pool(&mock, ""))).await;
    let prompts = |now: &Metrics| now.sum("signalbox_work_tokens_total", &[r#"kind="prompt""#]);
    assert_eq!(ask(&gateway, "web", &chat(&rules(), &["hi"]), &[]).await.status, 200);
    let first = prompts(&gateway.wait_metrics("work", |now| prompts(now) > 0.5).await);
    assert!((first - 2000.0).abs() < 0.5, "{first}");
    assert_eq!(ask(&gateway, "web", &chat(&rules(), &["hi"]), &[]).await.status, 200);
    let answered = |now: &Metrics| now.sum("signalbox_work_tokens_total", &[r#"kind="completion""#]) > 19.5;
    let both = prompts(&gateway.wait_metrics("more work", answered).await);
    assert!(both < 2500.0, "most of the second prompt was cached: {both}");
}

fn policy(text: &str) -> Policy {
    let config = Config::parse("test.yaml", text, &|_| None, &|_| Err(ErrorKind::NotFound.into())).expect("a policy");
    compile(&config).expect("a policy")
}

#[test]
fn as_many_keys_as_there_may_be_are_renamed() {
    let engine = "engines: { e: { url: \"http://127.0.0.1:9\", scrape: false } }\n\
                  pools: { main: { model: m, backends: [{ engine: e }] } }\nmodels: { auto: { to: main } }\n";
    let (parts, registry) = (Parts::new(Clock::start()), Registry::default());
    for name in ["old", "new"] {
        let ids: Vec<_> = (0..4096).map(|number| format!("{name}{number}")).collect();
        let list: Vec<_> = ids.iter().map(|id| (&**id, "")).collect();
        let policy = policy(&format!("{}{engine}", keys(&list)));
        let _serving = parts.serving(Snapshot::new(policy, &registry), |_| Arc::default());
        let counted = parts.metrics.keys();
        assert!(counted.len() == 4096 && counted.iter().all(|(id, _)| id.starts_with(name)), "{}", counted.len());
    }
}

#[tokio::test]
async fn prefixes_of_a_removed_key_are_not_reported() {
    let engine = "engines: { e: { url: \"http://127.0.0.1:9\", scrape: false } }\n\
                  pools: { main: { model: m, backends: [{ engine: e }] } }\nmodels: { auto: { to: main } }\n";
    let [before, after] = ["web", "batch"].map(|id| format!("{}{engine}", keys(&[(id, "")])));
    let house = House::new(&before);
    let body = axum::body::Body::from(chat(&rules(), &["hi"]).to_string());
    let request = ::http::Request::post("/v1/chat/completions").header("authorization", "Bearer web").body(body);
    (house.walk)(request.expect("a request")).await;
    let reported = |text: &str| house.parts.accounting.prefix_stability.report(&policy(text)).len();
    assert_eq!(
        (reported(&before), reported(&after)),
        (1, 0),
        "a request under the old policy may come after the new one"
    );
    house.parts.accounting.prefix_stability.apply_policy(&policy(&after));
    assert_eq!(reported(&before), 0);
}

#[tokio::test]
async fn work_is_good_late_or_wasted() {
    let stream = |events: Vec<String>| {
        let usage = json!({ "prompt_tokens": 40, "completion_tokens": 8, "total_tokens": 48 });
        let last = json!({ "id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage });
        Plan::stream().events(events).event(&last.to_string()).done()
    };
    let mock = Mock::start(move |seen: &Seen| {
        let begun = || Plan::stream().events(&chat_events(["some words that take tokens", "b"])[..2]);
        match seen.header("x-do").unwrap_or_default() {
            "late" => stream(chat_events(["a", "b"])).after(Duration::from_millis(400)),
            "hang" => begun().hang(),
            "cut" => begun().cut(),
            _ => stream(chat_events(["a", "b"])),
        }
    })
    .await;
    let policy = format!(
        "engines: {{ e: {{ url: \"{}\", scrape: false }} }}\n\
         pools: {{ main: {{ model: m, objectives: [{{ ttft: {{ p50: 300ms }} }}], backends: [{{ engine: e }}] }} }}\n\
         models: {{ auto: {{ to: main, hedge: off }} }}\n",
        mock.url()
    );
    let gateway = Gateway::start(&policy).await;
    let body = json!({ "model": "auto", "stream": true, "messages": [{ "role": "user", "content": "hi" }] });
    let send = async |what: &str| {
        Sse::send(json(http().post(gateway.at("/v1/chat/completions")), &body).header("x-do", what)).await
    };
    let work = |now: &Metrics, of: &str| now.sum("signalbox_work_tokens_total", &[r#"pool="main""#, of]);
    send("").await.rest().await;
    let now = gateway.wait_metrics("good work", |now| work(now, r#"use="good""#) > 0.5).await;
    assert!((work(&now, r#"use="good""#) - 48.0).abs() < 0.5 && now.sum("signalbox_goodput_ratio", &[]) > 0.99);
    send("late").await.rest().await;
    let now = gateway.wait_metrics("late work", |now| work(now, r#"use="late""#) > 0.5).await;
    assert!((work(&now, r#"use="late""#) - 48.0).abs() < 0.5 && (work(&now, r#"use="good""#) - 48.0).abs() < 0.5);
    assert!((now.sum("signalbox_goodput_ratio", &[]) - 0.5).abs() < 0.01);
    drop(send("hang").await);
    let wasted = |now: &Metrics| work(now, r#"use="wasted""#);
    let now = gateway.wait_metrics("what was left is wasted", |now| wasted(now) > 0.5).await;
    assert!(now.sum("signalbox_work_tokens_total", &[r#"kind="completion""#, r#"use="wasted""#]) > 0.5);
    drop(send("cut").await);
    gateway.wait_metrics("what broke off failed", |now| work(now, r#"use="failed""#) > 0.5).await;
}
