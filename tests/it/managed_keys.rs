//! Keys that expire, keys with a budget of their own, and keys that are created on the running gateway.

use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use crate::{
    keys::{ask, chat, code, keys, pool, used},
    support::{
        cli::run,
        client::{self, http},
        gateway::{Gateway, Start},
        mock::{Mock, polite},
    },
};

/// A policy whose keys are stored in `folder`, with a team.
fn managed(folder: &Path, mock: &Mock) -> String {
    let path = folder.join("keys.json");
    format!(
        "managed_keys: {{ path: \"{}\" }}\nteams: {{ search: {{ budget: {{ usd: 500, per: month }} }} }}\n{}",
        path.display(),
        pool(mock, "")
    )
}

async fn admin(gateway: &Gateway, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let request = client::json(http().request(method, gateway.admin(path)), body);
    let answer = client::answer(request).await;
    (answer.status.as_u16(), answer.json())
}

fn message(answer: &(u16, Value)) -> &str {
    answer.1["error"]["message"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn an_expired_key_is_rejected() {
    let mock = Mock::start(polite).await;
    let list = keys(&[("old", ", expires: 2026-01-31"), ("new", ", expires: \"2999-01-01T00:00:00Z\"")]);
    let gateway = Gateway::start(&format!("{list}{}", pool(&mock, ""))).await;
    assert_eq!(ask(&gateway, "new", &chat("auto", 5), &[]).await.status, 200);
    let refused = ask(&gateway, "old", &chat("auto", 5), &[]).await;
    assert_eq!(code(&refused), (401, "invalid_api_key".to_owned()));
    assert!(refused.text().contains("expired at 2026-01-31T00:00:00Z"), "{}", refused.text());
    let listed = gateway.get_json("/admin/keys").await;
    assert_eq!((&listed["keys"][0]["expired"], &listed["keys"][1]["expired"]), (&json!(true), &json!(false)));
    let metrics = gateway.metrics().await;
    let expires = metrics.sum("signalbox_key_expires_timestamp_seconds", &["key=\"old\""]);
    assert!((expires - 1_769_817_600.0).abs() < 1.0, "{expires}");
}

#[tokio::test]
async fn a_key_spends_its_own_budget_and_its_teams() {
    let mock = Mock::start(|seen| used(seen, 10, 5)).await;
    let list = keys(&[("a", ", team: search, budget: { tokens: 30, per: day }"), ("b", ", team: search")]);
    let policy = format!("teams: {{ search: {{ budget: {{ tokens: 75, per: month }} }} }}\n{list}{}", pool(&mock, ""));
    let gateway = Gateway::start(&policy).await;
    let body = chat("auto", 5);
    for _ in 0..2 {
        assert_eq!(ask(&gateway, "a", &body, &[]).await.status, 200);
    }
    let refused = ask(&gateway, "a", &body, &[]).await;
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("budget of 30 tokens per day of the key 'a'"), "{}", refused.text());
    // The other key of the team goes on until the team's budget is spent, which the first key used too.
    for _ in 0..2 {
        assert_eq!(ask(&gateway, "b", &body, &[]).await.status, 200);
    }
    let refused = ask(&gateway, "b", &chat("auto", 20), &[]).await;
    assert_eq!(refused.status, 200, "the prompt fits into the rest: {}", refused.text());
    let refused = ask(&gateway, "b", &body, &[]).await;
    assert!(
        refused.text().contains("budget of 75 tokens per month of the team 'search' (key 'b')"),
        "{}",
        refused.text()
    );
    let metrics = gateway.metrics().await;
    assert!((metrics.sum("signalbox_key_spent_tokens", &["key=\"a\"", "per=\"day\""]) - 30.0).abs() < 1e-6);
    assert!((metrics.sum("signalbox_key_budget_tokens", &["key=\"a\""]) - 30.0).abs() < 1e-6);
    assert!((metrics.sum("signalbox_team_spent_tokens", &["team=\"search\""]) - 75.0).abs() < 1e-6);
}

#[tokio::test]
async fn keys_are_created_changed_and_deleted_while_the_gateway_runs() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let policy = managed(folder.path(), &mock);
    let gateway = Gateway::start(&policy).await;
    let body = chat("auto", 5);
    assert_eq!(
        ask(&gateway, "anything", &body, &[]).await.status,
        401,
        "keys are required before the first one exists"
    );

    let settings = json!({ "id": "web", "team": "search", "models": ["auto"], "limits": { "rpm": 600 } });
    let (status, created) = admin(&gateway, Method::POST, "/admin/keys", &settings).await;
    let secret = created["secret"].as_str().unwrap_or_default().to_owned();
    assert!(status == 201 && secret.starts_with("sb-"), "{created}");
    assert_eq!(ask(&gateway, &secret, &body, &[]).await.status, 200);
    let stored = std::fs::read_to_string(folder.path().join("keys.json")).unwrap();
    assert!(stored.contains("\"hash\": \"blake3:") && !stored.contains(&secret), "{stored}");

    // It survives a reload and a restart.
    assert_eq!(admin(&gateway, Method::POST, "/admin/reload", &json!({})).await.0, 200);
    assert_eq!(ask(&gateway, &secret, &body, &[]).await.status, 200);
    drop(gateway);
    let gateway = Gateway::start(&policy).await;
    assert_eq!(ask(&gateway, &secret, &body, &[]).await.status, 200);

    let patch = json!({ "expires": "2026-01-01", "limits": { "tpm": "200k" } });
    assert_eq!(admin(&gateway, Method::PATCH, "/admin/keys/web", &patch).await.0, 200);
    assert_eq!(ask(&gateway, &secret, &body, &[]).await.status, 401, "it has expired");
    assert_eq!(admin(&gateway, Method::PATCH, "/admin/keys/web", &json!({ "expires": null })).await.0, 200);
    let answer = ask(&gateway, &secret, &body, &[]).await;
    assert_eq!(
        (answer.header("x-ratelimit-limit-requests"), answer.header("x-ratelimit-limit-tokens")),
        ("600", "200000")
    );

    assert_eq!(admin(&gateway, Method::DELETE, "/admin/keys/web", &json!({})).await.0, 200);
    let refused = ask(&gateway, &secret, &body, &[]).await;
    assert_eq!(refused.status, 401, "deleting the last key does not open the gateway");
}

#[tokio::test]
async fn wrong_keys_are_refused_and_change_nothing() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let policy = format!("{}{}", keys(&[("file", "")]), managed(folder.path(), &mock));
    let gateway = Gateway::start(&policy).await;
    let create = async |settings: Value| admin(&gateway, Method::POST, "/admin/keys", &settings).await;
    for (settings, status, text) in [
        (json!({}), 400, "needs an 'id'"),
        (json!({ "id": "a b" }), 400, "without spaces"),
        (json!({ "id": "x", "team": "serach" }), 400, "did you mean `search`"),
        (json!({ "id": "x", "models": ["atuo"] }), 400, "did you mean `auto`"),
        (json!({ "id": "x", "budget": { "usd": 5, "per": "week" } }), 400, "possible: `day`, `month`"),
        (json!({ "id": "x", "expires": "soon" }), 400, "write a day such as"),
        (json!({ "id": "x", "colour": "red" }), 400, "unknown key"),
        (json!({ "id": "${HOME}" }), 400, "HOME"),
        (json!({ "id": "file" }), 409, "already"),
    ] {
        let answer = create(settings.clone()).await;
        assert!(answer.0 == status && message(&answer).contains(text), "{settings} → {answer:?}");
    }
    let answer = admin(&gateway, Method::DELETE, "/admin/keys/file", &json!({})).await;
    assert!(answer.0 == 409 && message(&answer).contains("in the policy file"), "{answer:?}");
    assert_eq!(admin(&gateway, Method::DELETE, "/admin/keys/none", &json!({})).await.0, 404);
    assert!(!folder.path().join("keys.json").exists());
    assert_eq!(ask(&gateway, "file", &chat("auto", 5), &[]).await.status, 200);

    let bare = Gateway::start(&format!("{}{}", keys(&[("file", "")]), pool(&mock, ""))).await;
    let answer = admin(&bare, Method::POST, "/admin/keys", &json!({ "id": "x" })).await;
    assert!(answer.0 == 409 && message(&answer).contains("add `managed_keys:"), "{answer:?}");
}

#[tokio::test]
async fn a_damaged_file_of_keys_stops_the_start_with_its_name() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), "{\"keys\": [{\"id\": \"a\"").unwrap();
    let log = Start::with(&managed(folder.path(), &mock)).attempt().await.err().unwrap();
    assert!(log.contains("managed keys: ") && log.contains("managed_keys.path"), "{log}");
}

#[tokio::test]
async fn keys_are_managed_from_the_command_line() {
    let mock = Mock::start(polite).await;
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&managed(folder.path(), &mock)).await;
    let at = gateway.admin("");
    let key = async |args: &'static [&'static str]| {
        let (dir, at) = (gateway.dir().to_owned(), at.clone());
        let ran = tokio::task::spawn_blocking(move || {
            run(&dir, ["key"].into_iter().chain(args.iter().copied()).chain(["--admin", at.as_str()]))
        });
        let ran = ran.await.unwrap();
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    };
    let created = key(&["create", "web", "--team", "search", "--rpm", "600", "--budget", "usd=50/month"]).await;
    let secret = created.split_whitespace().find(|word| word.starts_with("sb-")).unwrap_or_default().to_owned();
    assert_eq!(ask(&gateway, &secret, &chat("auto", 5), &[]).await.status, 200, "{created}");
    key(&["update", "web", "--expires", "2999-01-01"]).await;
    let listed = key(&["list"]).await;
    for text in ["web", "search", "active", "2999-01-01T00:00:00Z", "0.00 of 50 USD/month", " of 600"] {
        assert!(listed.contains(text), "{listed}");
    }
    assert!(key(&["delete", "web"]).await.contains("deleted"));
    assert_eq!(ask(&gateway, &secret, &chat("auto", 5), &[]).await.status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_list_says_that_keys_are_required() {
    let (mock, folder) = (Mock::start(polite).await, tempfile::tempdir().unwrap());
    let gateway = Gateway::start(&managed(folder.path(), &mock)).await;
    let listed = run(Path::new("."), ["key", "list", "--admin", gateway.admin("").trim_end_matches('/')]);
    assert!(listed.err.contains("rejects requests without one: `signalbox key create ID`"), "{}", listed.err);
}
