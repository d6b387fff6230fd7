//! Revoked keys, usage, and teams with budgets: over reloads, restarts and crashes.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    keys::{ask, chat, code, keys, pool, used},
    support::{
        client::{self, Answer, Sse, http},
        gateway::{Gateway, Start},
        mock::{Mock, Plan, chat_events},
        until,
    },
};

async fn admin(gateway: &Gateway, method: Method, path: &str) -> Answer {
    client::answer(http().request(method, gateway.admin(path))).await
}

async fn rows(gateway: &Gateway) -> Vec<Value> {
    let answer = admin(gateway, Method::GET, "/admin/usage").await;
    answer.text().lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

fn signalbox(args: &[&str]) -> (bool, String) {
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_signalbox")).args(args).output().expect("the binary runs");
    (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
}

fn kept(folder: &Path, more: &str) -> String {
    format!("usage: {{ path: \"{}\" }}\n{more}", folder.display())
}

#[tokio::test]
async fn a_revoked_key_stays_outside_until_that_is_undone() {
    let mock = Mock::start(|seen| used(seen, 10, 5)).await;
    let dir = tempfile::tempdir().unwrap();
    let with =
        |more: &str| kept(&dir.path().join("u"), &format!("{}{}", keys(&[("a", more), ("b", "")]), pool(&mock, "")));
    let mut gateway = Gateway::start(&with("")).await;
    let status = async |gateway: &Gateway, key: &str| ask(gateway, key, &chat("auto", 5), &[]).await.status.as_u16();
    assert_eq!(status(&gateway, "a").await, 200);
    let own = format!("http://{}", gateway.admin("").trim_start_matches("http://").trim_end_matches('/'));
    let (ok, said) = signalbox(&["key", "revoke", "a", "--admin", &own]);
    assert!(ok && said == "the key 'a' is revoked\n", "{said}");
    let refused = ask(&gateway, "a", &chat("auto", 5), &[]).await;
    assert_eq!(code(&refused), (401, "invalid_api_key".to_owned()));
    let models = client::answer(http().get(gateway.at("/v1/models")).bearer_auth("a")).await;
    assert_eq!((models.status.as_u16(), status(&gateway, "b").await), (401, 200));
    let (_, listed) = signalbox(&["key", "list", "--admin", &own]);
    assert!(listed.lines().any(|line| line.contains('a') && line.contains("revoked")), "{listed}");

    gateway.rewrite(&with(", tags: [x]"));
    gateway.wait_metrics("a reload", |now| now.sum("signalbox_config_reloads_total", &["result=\"ok\""]) > 0.5).await;
    assert_eq!(status(&gateway, "a").await, 401, "the same policy does not bring it back");
    gateway.kill().await;
    let gateway = Gateway::start(&with("")).await;
    assert_eq!((status(&gateway, "a").await, status(&gateway, "b").await), (401, 200), "nor does a restart");

    assert_eq!(admin(&gateway, Method::POST, "/admin/keys/a/restore").await.json()["revoked"], false);
    assert_eq!(status(&gateway, "a").await, 200);
    assert_eq!(admin(&gateway, Method::POST, "/admin/keys/none/revoke").await.status, 404);
    assert_eq!(admin(&gateway, Method::POST, "/admin/keys/b/restore").await.status, 404);
    let foreign = http().post(gateway.admin("/admin/keys/b/revoke")).header("origin", "http://evil.example");
    assert_eq!(client::answer(foreign).await.status, 403);
    assert_eq!(status(&gateway, "b").await, 200);
}

#[tokio::test]
async fn usage_is_exact_by_key_and_model() {
    let mock = Mock::start(|seen| match seen.header("x-fate") {
        Some("fail") => Plan::error(500, "broken"),
        Some("hang") => Plan::stream().events(&chat_events(["one two three", "b"])[..2]).hang(),
        _ => used(seen, 100, 20),
    })
    .await;
    let list = keys(&[("a", ", team: search"), ("b", "")]);
    let text = format!("{list}cache: {{ exact: {{ ttl: 1h }} }}\n{}", pool(&mock, ""));
    let gateway = Gateway::start(&text).await;
    let same = json!({ "model": "auto", "temperature": 0, "messages": [{ "role": "user", "content": "hi" }] });
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "a", &same, &[]).await.status, 200);
    }
    ask(&gateway, "a", &chat("claude-1", 5), &[]).await;
    ask(&gateway, "a", &chat("claude-1", 5), &[("x-fate", "fail")]).await;
    ask(&gateway, "b", &chat("no-such-model", 5), &[]).await;
    let mut body = chat("claude-1", 5);
    body["stream"] = true.into();
    let request = client::json(http().post(gateway.at("/v1/chat/completions")), &body).bearer_auth("b");
    let mut stream = Sse::send(request.header("x-fate", "hang")).await;
    stream.event().await.unwrap();
    drop(stream);
    until("the client to be gone", async || rows(&gateway).await.len() == 5).await;

    let all = rows(&gateway).await;
    let find = |key: &str, model: &str| all.iter().find(|row| row["key"] == key && row["model"] == model).unwrap();
    let of = |row: &Value, names: [&str; 5]| names.map(|name| row[name].as_u64().unwrap());
    let names = ["requests", "failed", "reused", "prompt_tokens", "completion_tokens"];
    // The two that were answered from the cache have a row of their own: no model served them.
    let (asked, reused): (Vec<_>, Vec<_>) =
        all.iter().filter(|row| row["model"] == "auto").partition(|row| row["served"] == "m");
    assert_eq!((of(asked[0], names), of(reused[0], names)), ([1, 0, 0, 100, 20], [2, 0, 2, 0, 0]));
    assert!((asked[0]["cost_usd"].as_f64().unwrap() - 140e-6).abs() < 1e-12);
    assert_eq!(of(find("a", "claude-1"), names), [2, 1, 0, 100, 20]);
    assert_eq!(of(find("b", ""), names), [1, 1, 0, 0, 0], "what does not exist is named in endless ways");
    assert_eq!((&asked[0]["team"], &find("b", "claude-1")["team"]), (&json!("search"), &json!("")));
    let cut = find("b", "claude-1");
    assert_eq!(of(cut, names), [1, 1, 0, 0, 0]);
    assert!(cut["estimated_tokens"].as_u64().unwrap() > 0);

    let own = gateway.admin("").trim_end_matches('/').to_owned();
    let (ok, csv) = signalbox(&["usage", "--admin", &own, "--key", "b"]);
    assert!(ok && csv.lines().count() == 3 && csv.starts_with("day,key,team,model,served,requests,"), "{csv}");
    assert_eq!(admin(&gateway, Method::GET, "/admin/usage?from=2999-01-01").await.text(), "");
    for bad in ["format=xml", "from=monday", "kye=a"] {
        assert_eq!(admin(&gateway, Method::GET, &format!("/admin/usage?{bad}")).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_budget_outlives_the_sudden_end_of_the_process() {
    let mock = Mock::start(|seen| used(seen, 300, 100)).await;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("u");
    let list = keys(&[("a", ", team: search"), ("b", ", team: search"), ("c", "")]).replace("keys:\n", "");
    let text = kept(
        &folder,
        &format!("teams: {{ search: {{ budget: {{ tokens: 1k, per: month }} }} }}\nkeys:\n{list}{}", pool(&mock, "")),
    );
    let mut gateway = Gateway::start(&text).await;
    let ask_as = async |gateway: &Gateway, key: &str| ask(gateway, key, &chat("auto", 5), &[]).await;
    assert_eq!((ask_as(&gateway, "a").await.status.as_u16(), ask_as(&gateway, "b").await.status.as_u16()), (200, 200));
    let spent = |now: &crate::support::gateway::Metrics| now.sum("signalbox_team_spent_tokens", &["team=\"search\""]);
    let now = gateway.wait_metrics("what was spent", |now| (spent(now) - 800.0).abs() < 0.5).await;
    assert!((now.sum("signalbox_team_budget_tokens", &["per=\"month\""]) - 1000.0).abs() < 0.5);
    // What was spent is known before its rows are, and a write may fall between.
    until("it to be on disk", async || {
        let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let rows: u64 = files
            .filter(|path| path.extension().is_some_and(|it| it == "jsonl"))
            .flat_map(|path| {
                read(&path).lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>()
            })
            .filter_map(|row| row["prompt_tokens"].as_u64())
            .sum();
        rows == 600 && read(&folder.join("standing.json")).contains("\"tokens\": 800")
    })
    .await;
    gateway.sigkill();
    gateway.kill().await;
    let gateway = Start::with(&text).start().await;
    assert_eq!(rows(&gateway).await.iter().map(|row| row["prompt_tokens"].as_u64().unwrap()).sum::<u64>(), 600);
    assert_eq!(ask_as(&gateway, "a").await.status, 200, "200 are left, by the estimate");
    let refused = ask_as(&gateway, "b").await;
    assert_eq!(code(&refused), (429, "insufficient_quota".to_owned()));
    let error = &refused.json()["error"];
    assert_eq!(error["type"], "insufficient_quota");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("1000 tokens per month of the team 'search'") && message.contains("-01T00:00:00Z"),
        "{message}"
    );
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    assert_eq!(ask_as(&gateway, "c").await.status, 200, "others have their own");
    let reported = admin(&gateway, Method::GET, "/admin/keys").await.json();
    assert_eq!(
        (&reported["teams"][0]["spent_tokens"], &reported["keys"][1]["refused"]["budget"]),
        (&json!(1200), &json!(1))
    );
}

#[tokio::test]
async fn a_budget_in_dollars_counts_what_answers_cost() {
    let mock = Mock::start(|seen| used(seen, 300, 100)).await;
    let list = keys(&[("a", ", team: search")]);
    let pool = pool(&mock, "").replace("input: 1, output: 2", "input: 1000, output: 2000");
    let text = format!("teams: {{ search: {{ budget: {{ usd: 1, per: day, on_exceeded: reject }} }} }}\n{list}{pool}");
    let gateway = Gateway::start(&text).await;
    // Half a dollar each.
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(ask(&gateway, "a", &chat("auto", 5), &[]).await.status.as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert!((gateway.metrics().await.sum("signalbox_team_spent_usd", &[]) - 1.0).abs() < 1e-9);
    let public = client::answer(http().get(gateway.at("/metrics")).bearer_auth("a")).await;
    assert!(public.text().contains("signalbox_requests_total") && !public.text().contains("signalbox_team_spent"));
}

#[tokio::test]
async fn two_gateways_do_not_share_a_folder() {
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let dir = tempfile::tempdir().unwrap();
    let text = kept(dir.path(), &pool(&mock, ""));
    let _first = Gateway::start(&text).await;
    let Err(log) = Start::with(&text).attempt().await else { panic!("a second gateway has the folder") };
    assert!(log.contains("in use by another gateway") && log.contains("usage.path"), "{log}");
}
