//! Notifications of budgets and objectives at a receiver that fails at first.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use serde_json::{Value, json};

use crate::{
    keys::{ask, chat, keys, pool, used},
    support::{
        cli::run,
        gateway::Gateway,
        mock::{Mock, Plan, Seen},
        until,
    },
};

/// A receiver that answers its first `failures` requests with 503.
async fn receiver(failures: usize) -> Mock {
    let count = Arc::new(AtomicUsize::new(0));
    Mock::start(move |_| {
        let is_early = count.fetch_add(1, Relaxed) < failures;
        Plan::json(if is_early { 503 } else { 200 }, &json!({}))
    })
    .await
}

fn hook(mock: &Mock) -> String {
    format!("http://{}/hook/s3cr3t-path", mock.addr())
}

fn kinds(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|seen| seen.json()["type"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn thresholds_of_a_budget_are_sent_signed_and_again_until_they_arrive() {
    let engine = Mock::start(|seen| used(seen, 10, 5)).await;
    let (json_hook, slack) = (receiver(1).await, receiver(0).await);
    let policy = format!(
        "notifications: {{ to: [{{ webhook: \"{}\", secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw }}, {{ webhook: \"{}\", format: slack }}] }}\n\
         teams: {{ search: {{ budget: {{ tokens: 60, per: day }} }} }}\n{}{}",
        hook(&json_hook),
        hook(&slack),
        keys(&[("a", ", team: search")]),
        pool(&engine, "")
    );
    let gateway = Gateway::start(&policy).await;
    let body = chat("auto", 5);
    for _ in 0..2 {
        assert_eq!(ask(&gateway, "a", &body, &[]).await.status, 200);
    }
    let seen = json_hook.wait_seen(2).await;
    assert_eq!(kinds(&seen), ["budget.threshold", "budget.threshold"], "one attempt failed");
    let headers = |seen: &Seen| {
        ["webhook-id", "webhook-timestamp", "webhook-signature"].map(|name| seen.header(name).unwrap().to_owned())
    };
    let [id, _, signature] = headers(&seen[0]);
    assert!(id.starts_with("msg_") && signature.starts_with("v1,"), "{id} {signature}");
    assert_eq!(id, headers(&seen[1])[0], "attempts have one id");
    let data: Value = seen[1].json()["data"].clone();
    assert_eq!(
        ["owner", "name", "threshold", "spent", "budget", "unit", "per"].map(|key| data[key].clone()),
        [json!("team"), json!("search"), json!(0.5), json!(30), json!(60), json!("tokens"), json!("day")]
    );
    let text = slack.wait_seen(1).await[0].json()["text"].as_str().unwrap().to_owned();
    assert!(text.contains("the team 'search' has reached 50 %: 30 of 60 tokens per day"), "{text}");

    for _ in 0..2 {
        assert_eq!(ask(&gateway, "a", &body, &[]).await.status, 200);
    }
    let seen = json_hook.wait_seen(3).await;
    let last = seen.last().unwrap().json()["data"]["threshold"].as_f64();
    assert!(last == Some(1.0) || last == Some(0.8), "{last:?}");
    let sent = |metrics: &crate::support::gateway::Metrics| {
        metrics.sum("signalbox_notifications_total", &["result=\"sent\""]) > 3.5
    };
    gateway.wait_metrics("the events to be counted", sent).await;
    assert!(!gateway.log().contains("s3cr3t-path"), "the URL is a secret: {}", gateway.log());
}

#[tokio::test]
async fn an_objective_that_burns_is_sent() {
    let engine = Mock::start(|_| Plan::error(500, "broken")).await;
    let hook_at = receiver(0).await;
    let policy = format!(
        "notifications: {{ to: [{{ webhook: \"{}\", events: [objective] }}] }}\n\
         pools: {{ main: {{ model: m, objectives: [{{ availability: 99% }}], backends: [\"{}\"] }} }}\n\
         models: {{ auto: {{ to: main }} }}\n",
        hook(&hook_at),
        engine.url()
    );
    let gateway = Gateway::start(&policy).await;
    until("the objective to be sent", async || {
        for _ in 0..20 {
            ask(&gateway, "", &chat("auto", 5), &[]).await;
        }
        !hook_at.seen().is_empty()
    })
    .await;
    let event = hook_at.seen()[0].json();
    assert_eq!(event["data"]["scope"], "pool", "{event}");
    assert_eq!((&event["data"]["name"], &event["data"]["objective"]), (&json!("main"), &json!("availability")));
}

#[tokio::test]
async fn receivers_are_tried_from_the_command_line() {
    let (works, fails) = (receiver(0).await, receiver(9).await);
    let folder = tempfile::tempdir().unwrap();
    let policy = format!(
        "notifications: {{ to: [{{ webhook: \"{}\" }}, {{ webhook: \"{}\", format: slack }}] }}\npools: {{ main: {{ backends: [\"http://127.0.0.1:9/v1\"] }} }}\n",
        hook(&works),
        hook(&fails)
    );
    std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
    let path = folder.path().to_owned();
    let ran = tokio::task::spawn_blocking(move || run(&path, ["notify", "policy.yaml"])).await.unwrap();
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains(": delivered") && ran.out.contains("not delivered: it answered 503"), "{}", ran.out);
    assert_eq!(kinds(&works.seen()), ["test"]);
}
