//! Accounts at providers: limits are kept before the provider refuses, and a refused key is excluded.

use crate::{
    keys::{chat, code, used},
    support::{
        client::{self, Answer},
        gateway::Gateway,
        mock::{Mock, Plan},
    },
};

/// Two engines in one pool, the first of them through an account, and a pool with that one alone.
fn policy(paid: &Mock, own: &Mock, account: &str) -> String {
    format!(
        "limits: {{ queue: {{ wait: 50ms }} }}\naccounts: {{ paid: {{ {account} }} }}\n\
         engines:\n  paid: {{ url: \"{}\", account: paid, scrape: false }}\n  own: {{ url: \"{}\", scrape: false }}\n\
         pools:\n  both: {{ model: m, balance: round_robin, backends: [{{ engine: paid }}, {{ engine: own }}] }}\n  \
         one: {{ model: n, backends: [{{ engine: paid }}] }}\n  spare: {{ model: s, backends: [{{ engine: own }}] }}\n\
         models: {{ both: {{ to: both }}, one: {{ to: one }}, safe: {{ to: one, fallback: [spare] }} }}\n",
        paid.url(),
        own.url()
    )
}

async fn ask(gateway: &Gateway, model: &str) -> Answer {
    client::post(&gateway.at("/v1/chat/completions"), &chat(model, 5)).await
}

/// Refuses keys called bad.
async fn picky() -> Mock {
    Mock::start(|seen| match seen.header("authorization") {
        Some(key) if key.contains("bad") => Plan::error(401, "wrong key"),
        _ => used(seen, 10, 5),
    })
    .await
}

fn asked_with(mock: &Mock, key: &str) -> usize {
    let want = format!("Bearer {key}");
    mock.seen().iter().filter(|seen| seen.header("authorization") == Some(&want)).count()
}

#[tokio::test]
async fn an_account_without_room_is_passed_over_or_waited_for() {
    let (paid, own) = (Mock::start(|seen| used(seen, 10, 5)).await, Mock::start(|seen| used(seen, 10, 5)).await);
    let gateway = Gateway::start(&policy(&paid, &own, "keys: [k], limits: { rpm: 2 }")).await;
    for _ in 0..6 {
        assert_eq!(ask(&gateway, "both").await.status, 200);
    }
    assert_eq!((paid.seen().len(), own.seen().len()), (2, 4));
    assert_eq!(ask(&gateway, "safe").await.header("x-signalbox-pool"), "spare");
    let refused = ask(&gateway, "one").await;
    assert_eq!((code(&refused).0, code(&refused).1.as_str()), (503, "queue_timeout"));
    assert_eq!(paid.seen().len(), 2, "the provider is not asked what is known");
    let left = gateway.metrics().await.sum("signalbox_account_remaining", &["account=\"paid\"", "limit=\"requests\""]);
    assert!(left < 0.5, "{left}");
}

#[tokio::test]
async fn an_account_is_charged_by_the_usage() {
    let (paid, own) = (Mock::start(|seen| used(seen, 500, 100)).await, Mock::start(|seen| used(seen, 1, 1)).await);
    let gateway = Gateway::start(&policy(&paid, &own, "keys: [k], limits: { tpm: 1k }")).await;
    assert_eq!((ask(&gateway, "one").await.status.as_u16(), ask(&gateway, "one").await.status.as_u16()), (200, 200));
    assert_eq!(ask(&gateway, "one").await.status, 503, "1200 tokens were used");
    assert_eq!(paid.seen().len(), 2);
}

#[tokio::test]
async fn failed_requests_are_not_charged() {
    let paid = Mock::start(|_| Plan::error(400, "no")).await;
    let own = Mock::start(|seen| used(seen, 1, 1)).await;
    let gateway = Gateway::start(&policy(&paid, &own, "keys: [k], limits: { tpm: 1k }")).await;
    for _ in 0..20 {
        assert_eq!(ask(&gateway, "one").await.status, 400);
    }
    let left = gateway.metrics().await.sum("signalbox_account_remaining", &["limit=\"tokens\""]);
    assert!(left > 999.0, "{left}");
}

#[tokio::test]
async fn a_key_that_the_provider_refuses_is_left_out() {
    let (paid, own) = (picky().await, Mock::start(|seen| used(seen, 1, 1)).await);
    let with = |more: &str| format!("{}{more}", policy(&paid, &own, "keys: [sk-bad-1, sk-good-2, sk-good-3]"));
    let gateway = Gateway::start(&with("")).await;
    for _ in 0..6 {
        assert_eq!(ask(&gateway, "one").await.status, 200, "it goes on with another key");
    }
    assert_eq!(asked_with(&paid, "sk-bad-1"), 1);
    assert!(asked_with(&paid, "sk-good-2") >= 2 && asked_with(&paid, "sk-good-3") >= 2, "they take turns");
    let metrics = gateway.metrics().await;
    assert!((metrics.sum("signalbox_account_keys", &["state=\"ejected\""]) - 1.0).abs() < 0.5);
    assert!((metrics.sum("signalbox_account_keys", &["state=\"ready\""]) - 2.0).abs() < 0.5);
    assert!((metrics.sum("signalbox_account_keys_ejected_total", &["account=\"paid\""]) - 1.0).abs() < 0.5);
    gateway.wait_log("refuses key 1 of 3 of the account 'paid'").await;
    assert!(!gateway.log().contains("sk-"), "{}", gateway.log());

    gateway.rewrite(&with("journal: { path: j.jsonl }\n"));
    gateway.wait_metrics("a reload", |now| now.sum("signalbox_config_reloads_total", &["result=\"ok\""]) > 0.5).await;
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "one").await.status, 200);
    }
    assert_eq!(asked_with(&paid, "sk-bad-1"), 2, "a reload tries it again");
}

#[tokio::test]
async fn an_account_without_keys_that_are_taken_is_tried_last() {
    let (paid, own) = (picky().await, Mock::start(|seen| used(seen, 1, 1)).await);
    let gateway = Gateway::start(&policy(&paid, &own, "keys: [sk-bad-1, sk-bad-2]")).await;
    for _ in 0..4 {
        assert_eq!(ask(&gateway, "both").await.status, 200);
    }
    assert_eq!(paid.seen().len(), 2, "each key once, and then the other engine goes first");
    assert_eq!(ask(&gateway, "one").await.status, 502, "where there is no other, the provider has the last word");
    assert_eq!(ask(&gateway, "safe").await.header("x-signalbox-pool"), "spare");
}
