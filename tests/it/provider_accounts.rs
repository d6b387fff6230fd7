//! Accounts at one provider: each has limits, keys and breakers of its own, and teams may bring theirs.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    keys::{ask, chat, keys, used},
    support::{
        client::{self, Answer, http},
        gateway::{Gateway, Start},
        mock::{Mock, Plan, Seen},
    },
};

/// Two accounts at one address, in one pool.
fn two(mock: &Mock, [a, b]: [&str; 2]) -> String {
    format!(
        "accounts:\n  a: {{ keys: [sk-a]{a} }}\n  b: {{ keys: [sk-b]{b} }}\n\
         engines:\n  via-a: {{ url: \"{0}\", account: a, scrape: false }}\n  via-b: {{ url: \"{0}\", account: b, scrape: false }}\n\
         pools: {{ main: {{ model: m, balance: round_robin, speaks: [chat, files], backends: [{{ engine: via-a }}, {{ engine: via-b }}] }} }}\n",
        mock.url()
    )
}

fn is_by(seen: &Seen, key: &str) -> bool {
    seen.header("authorization") == Some(&format!("Bearer {key}"))
}

fn count(mock: &Mock, key: &str) -> usize {
    mock.seen().iter().filter(|seen| is_by(seen, key)).count()
}

async fn chats(gateway: &Gateway, count: usize) {
    for number in 0..count {
        let answer = client::post(&gateway.at("/v1/chat/completions"), &chat("m", 5)).await;
        assert_eq!(answer.status, 200, "request {number}: {}", answer.text());
    }
}

#[tokio::test]
async fn an_account_that_is_rate_limited_leaves_the_other_one_alone() {
    let mock = Mock::start(|seen| {
        if is_by(seen, "sk-a") { Plan::error(429, "slow down").header("retry-after", "60") } else { used(seen, 10, 5) }
    })
    .await;
    let gateway = Gateway::start(&two(&mock, ["", ""])).await;
    chats(&gateway, 12).await;
    assert_eq!((count(&mock, "sk-a"), count(&mock, "sk-b")), (1, 12), "one refusal with its delay is enough");
    let metrics = gateway.metrics().await;
    let open = |backend: &str| {
        metrics.sum("signalbox_backend_breaker", &[&format!("backend=\"{backend}\""), "state=\"closed\""])
    };
    assert!(open("via-a") < 0.5 && open("via-b") > 0.5, "breakers are apart");
}

#[tokio::test]
async fn an_account_whose_key_is_refused_leaves_the_other_one_alone() {
    let mock =
        Mock::start(|seen| if is_by(seen, "sk-a") { Plan::error(401, "wrong key") } else { used(seen, 10, 5) }).await;
    let gateway = Gateway::start(&two(&mock, ["", ""])).await;
    chats(&gateway, 12).await;
    assert_eq!((count(&mock, "sk-a"), count(&mock, "sk-b")), (1, 12));
    gateway.wait_log("refuses key 1 of 1 of the account 'a'").await;
}

#[tokio::test]
async fn limits_of_two_accounts_are_counted_apart() {
    let mock = Mock::start(|seen| used(seen, 100, 50)).await;
    let gateway = Gateway::start(&two(&mock, [", limits: { rpm: 3 }", ", limits: { rpm: 50, tpm: 10k }"])).await;
    chats(&gateway, 12).await;
    assert_eq!((count(&mock, "sk-a"), count(&mock, "sk-b")), (3, 9));
    let metrics = gateway.metrics().await;
    let left = |account: &str, limit: &str| {
        metrics.sum("signalbox_account_remaining", &[&format!("account=\"{account}\""), &format!("limit=\"{limit}\"")])
    };
    assert!(left("a", "requests") < 1.0, "{}", left("a", "requests"));
    assert!((40.0..50.0).contains(&left("b", "requests")), "{}", left("b", "requests"));
    assert!(left("b", "tokens") < 9_900.0, "{}", left("b", "tokens"));
}

#[tokio::test]
async fn two_keys_at_one_address_need_no_names() {
    let mock = Mock::start(|seen| {
        if is_by(seen, "sk-a") { Plan::error(429, "slow down").header("retry-after", "60") } else { used(seen, 10, 5) }
    })
    .await;
    let text = format!(
        "pools: {{ main: {{ model: m, balance: round_robin, backends: [{{ url: \"{0}\", key: sk-a }}, {{ url: \"{0}\", key: \"${{SECOND}}\" }}] }} }}\n",
        mock.url()
    );
    let gateway = Start::with(&text).env("SECOND", "sk-b").start().await;
    chats(&gateway, 12).await;
    assert_eq!((count(&mock, "sk-a"), count(&mock, "sk-b")), (1, 12));
    let host = mock.addr().to_string();
    let metrics = gateway.metrics().await;
    let closed = |backend: &str| {
        metrics.sum("signalbox_backend_breaker", &[&format!("backend=\"{backend}\""), "state=\"closed\""])
    };
    let opened = metrics.sum("signalbox_backend_breaker", &[&format!("backend=\"{host}\""), "state=\"open\""]);
    assert!(closed(&host) < 0.5 && opened > 0.5, "the first keeps the name of the address");
    assert!(closed(&format!("{host}@SECOND")) > 0.5, "the second is named after its key's source");
    let state = gateway.get_json("/admin/state").await;
    assert_eq!(state["pools"][0]["backends"].as_array().map(Vec::len), Some(2));
}

fn via_b(mock: &Mock) -> String {
    format!("  via-b: {{ url: \"{}\", account: b, scrape: false }}\n", mock.url())
}

/// Two teams, the first with an account of its own.
fn teams(mock: &Mock) -> String {
    let list = keys(&[("k-search", ", team: search"), ("k-other", "")]);
    format!(
        "{list}teams: {{ search: {{ accounts: {{ a: b }} }} }}\ncache: {{ exact: {{ ttl: 1h, scope: shared }} }}\n{}",
        two(mock, ["", ""]).replace(", { engine: via-b }", "").replace(&via_b(mock), "")
    )
}

fn answered(seen: &Seen) -> Plan {
    match (&*seen.method, seen.path.split('?').next().unwrap_or_default()) {
        ("POST", path) if path.ends_with("/files") => {
            let id = if is_by(seen, "sk-a") { "file-a" } else { "file-b" };
            Plan::json(200, &json!({ "id": id, "object": "file" }))
        }
        ("GET", path) => {
            let own = if is_by(seen, "sk-a") { "file-a" } else { "file-b" };
            if path.ends_with(own) {
                Plan::json(200, &json!({ "id": own, "object": "file" }))
            } else {
                Plan::error(404, "no such file")
            }
        }
        _ => used(seen, 10, 5),
    }
}

#[tokio::test]
async fn a_team_s_requests_go_through_its_own_account() {
    let mock = Mock::start(answered).await;
    let gateway = Gateway::start(&teams(&mock)).await;
    for key in ["k-search", "k-other", "k-search"] {
        let answer = ask(&gateway, key, &chat("m", 5), &[]).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!((count(&mock, "sk-a"), count(&mock, "sk-b")), (1, 2));
    let same = json!({ "model": "m", "temperature": 0, "messages": [{ "role": "user", "content": "the same" }] });
    for key in ["k-other", "k-other", "k-search", "k-search"] {
        assert_eq!(ask(&gateway, key, &same, &[]).await.status, 200);
    }
    assert_eq!((count(&mock, "sk-a"), count(&mock, "sk-b")), (2, 3), "cached answers stay with their account");
    let explained = client::json(http().post(gateway.at("/v1/route/explain")), &chat("m", 5)).bearer_auth("k-search");
    let explained = client::answer(explained).await.json();
    // Callers see a label in place of a name that the policy does not contain.
    assert_eq!(explained["pools"][0]["backend"], "main-2", "{explained}");
    let metrics = gateway.metrics().await;
    assert!((metrics.sum("signalbox_backend_requests_total", &["backend=\"via-a@b\""]) - 3.0).abs() < 0.5);
}

async fn send(gateway: &Gateway, key: Option<&str>, method: Method, path: &str, body: &Value) -> Answer {
    let request = http().request(method, gateway.at(path));
    let request = key.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
    client::answer(client::json(request, body)).await
}

#[tokio::test]
async fn an_object_is_asked_for_where_it_is_stored() {
    let mock = Mock::start(answered).await;
    // Without keys, and with a key: the account that stores the object is remembered in both cases.
    for key in [None, Some("k")] {
        let list = key.map(|key| keys(&[(key, "")])).unwrap_or_default();
        let gateway = Gateway::start(&format!("{list}{}", two(&mock, ["", ""]))).await;
        let mut made = Vec::new();
        for _ in 0..2 {
            let answer = send(&gateway, key, Method::POST, "/v1/files", &json!({})).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            made.push(answer.json()["id"].as_str().unwrap().to_owned());
        }
        made.sort();
        assert_eq!(made, ["file-a", "file-b"]);
        for _ in 0..4 {
            for id in &made {
                let answer = send(&gateway, key, Method::GET, &format!("/v1/files/{id}"), &json!({})).await;
                assert_eq!(answer.status, 200, "{id}: {}", answer.text());
            }
        }
    }
}
