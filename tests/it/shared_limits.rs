//! Limits shared by several gateways: over the real binary, a scripted engine and a real Redis that comes and goes.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use std::{collections::BTreeMap, path::Path, pin::pin};

use futures_util::future::join_all;
use redis::cmd;
use serde_json::{Value, json};

use crate::{
    accounting,
    keys::{ask, chat, code, keys, pool, used},
    support::{
        client::{self, Answer, http},
        gateway::{Gateway, Metrics},
        mock::{Mock, Plan},
        redis::Redis,
        until,
    },
};

/// A policy under which `list` of keys are counted together.
fn policy(mock: &Mock, redis: &Redis, list: &[(&str, &str)], more: &str) -> String {
    let shared = format!("limits: {{ shared: {{ url: \"{}\", timeout: 30s }} }}\n", redis.url());
    format!("{}{shared}{more}{}", keys(list), pool(mock, ""))
}

async fn is_up(gateway: &Gateway, up: bool) {
    let what = if up { "the server to be there" } else { "the server to be away" };
    gateway.wait_metrics(what, |metrics| (metrics.sum("signalbox_limits_shared_up", &[]) > 0.5) == up).await;
}

async fn gateways(text: &str) -> (Gateway, Gateway) {
    let (one, two) = tokio::join!(Gateway::start(text), Gateway::start(text));
    tokio::join!(is_up(&one, true), is_up(&two, true));
    (one, two)
}

fn settled(metrics: &Metrics) -> f64 {
    metrics.sum("signalbox_limits_shared_total", &["what=\"settle\"", "result=\"ok\""])
}

/// Sends a request, and waits until the server has its usage.
async fn ask_and_settle(gateway: &Gateway, key: &str) -> Answer {
    let before = settled(&gateway.metrics().await);
    let answer = ask(gateway, key, &chat("auto", 5), &[]).await;
    gateway.wait_metrics("it to be settled", |metrics| settled(metrics) > before).await;
    answer
}

async fn status(gateway: &Gateway, key: &str) -> u16 {
    ask(gateway, key, &chat("auto", 5), &[]).await.status.as_u16()
}

/// Sends this many requests to each gateway at once; returns the number of accepted ones.
async fn burst(gateways: [&Gateway; 2], each: usize, key: &str) -> Vec<Answer> {
    let body = chat("auto", 5);
    join_all((0..2 * each).map(|number| ask(gateways[number % 2], key, &body, &[]))).await
}

fn let_in(answers: &[Answer]) -> usize {
    assert!(answers.iter().all(|answer| [200, 429].contains(&answer.status.as_u16())));
    answers.iter().filter(|answer| answer.status == 200).count()
}

#[tokio::test]
async fn a_burst_at_two_gateways_lets_in_what_one_key_may() {
    let Some(redis) = Redis::start().await else { return };
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let (one, two) = gateways(&policy(&mock, &redis, &[("few", ", limits: { rpm: 3 }"), ("free", "")], "")).await;
    let answers = burst([&one, &two], 6, "few").await;
    assert_eq!((let_in(&answers), mock.seen().len()), (3, 3));
    let left = |status: u16| {
        let reported = answers.iter().filter(move |answer| answer.status.as_u16() == status);
        let mut left: Vec<_> = reported.map(|answer| answer.header("x-ratelimit-remaining-requests")).collect();
        left.sort_unstable();
        left
    };
    assert_eq!(left(200), ["0", "1", "2"], "each is reported what all have left");
    // A refusal comes at once, with Retry-After.
    let refused = ask(&two, "few", &chat("auto", 5), &[]).await;
    assert_eq!(code(&refused), (429, "rate_limit_exceeded".to_owned()));
    assert!((1..=20).contains(&refused.header("retry-after").parse::<u64>().unwrap()));
    assert_eq!([status(&one, "free").await, status(&two, "free").await], [200, 200]);
    // What is there goes by itself, and says nothing of the key's secret.
    let names = redis.names("key:");
    assert_eq!(names, ["signalbox:{limits}:key:few:requests"]);
    assert!((1..=60_001).contains(&redis.ask::<i64>(cmd("PTTL").arg(&names[0]))));
}

#[tokio::test]
async fn requests_in_flight_count_at_every_gateway_and_are_released() {
    let Some(mut redis) = Redis::start().await else { return };
    let mock = Mock::start(|_| Plan::chat("a").behind(1)).await;
    let (mut one, two) = gateways(&policy(&mock, &redis, &[("web", ", limits: { concurrency: 3 }")], "")).await;
    let limited = |metrics: &Metrics| metrics.sum("signalbox_key_limited_total", &["limit=\"concurrency\""]);
    let opening = async {
        mock.wait_seen(3).await;
        until("the others to be refused", async || limited(&one.metrics().await) + limited(&two.metrics().await) > 4.5)
            .await;
        mock.open(1);
    };
    let (answers, ()) = tokio::join!(burst([&one, &two], 4, "web"), opening);
    assert_eq!(let_in(&answers), 3);
    let stays = "signalbox:{limits}:key:web:stays";
    until("all to be given back", async || redis.ask::<u64>(cmd("EXISTS").arg(stays)) == 0).await;

    // A gateway that dies gives back what it holds when its lease is over.
    let mock = Mock::start(|seen| if seen.number < 4 { Plan::silence() } else { Plan::chat("a") }).await;
    let text = policy(&mock, &redis, &[("web", ", limits: { concurrency: 3 }")], "");
    one.rewrite(&text);
    two.rewrite(&text);
    for gateway in [&one, &two] {
        gateway
            .wait_metrics("a reload", |now| now.sum("signalbox_config_reloads_total", &["result=\"ok\""]) > 0.5)
            .await;
    }
    let body = chat("auto", 5);
    {
        let mut held = pin!(join_all([&one, &one, &one].map(|gateway| ask(gateway, "web", &body, &[]))));
        tokio::select! {
            _ = &mut held => panic!("they were to be under way"),
            _ = mock.wait_seen(3) => {}
        }
        assert_eq!(status(&two, "web").await, 429);
        // A server that lost its data gets the requests in flight again.
        redis.kill().await;
        tokio::join!(is_up(&one, false), is_up(&two, false));
        let mut alone = Box::pin(ask(&two, "web", &body, &[]));
        tokio::select! {
            _ = &mut alone => panic!("it was to be under way"),
            _ = mock.wait_seen(4) => {}
        }
        redis.again().await;
        tokio::join!(is_up(&one, true), is_up(&two, true));
        assert_eq!(redis.ask::<u64>(cmd("ZCARD").arg(stays)), 4, "what began meanwhile is reported too");
        drop(alone);
        until("its client's leaving to be reported", async || redis.ask::<u64>(cmd("ZCARD").arg(stays)) == 3).await;
        assert_eq!(status(&two, "web").await, 429);
        one.sigkill();
    }
    one.kill().await;
    assert_eq!(status(&two, "web").await, 429, "the server does not know yet");
    let members: Vec<String> = redis.ask(cmd("ZRANGE").arg(stays).arg(0).arg(-1));
    assert_eq!(members.len(), 3);
    assert!((1..=15_000).contains(&redis.ask::<i64>(cmd("PTTL").arg(stays))), "at the latest it is gone then");
    // As if one of the leases were over.
    let _: u64 = redis.ask(cmd("ZADD").arg(stays).arg(1).arg(&members[0]));
    assert_eq!(status(&two, "web").await, 200);
}

#[tokio::test]
async fn tokens_are_reserved_and_settled_for_all() {
    let Some(redis) = Redis::start().await else { return };
    let mock =
        Mock::start(|seen| if seen.json()["user"] == "few" { used(seen, 1, 1) } else { used(seen, 300, 600) }).await;
    let list = [("web", ", limits: { tpm: 1000 }"), ("spare", ", limits: { tpm: 1000 }")];
    let (one, two) = gateways(&policy(&mock, &redis, &list, "")).await;
    let left = |answer: &Answer| answer.header("x-ratelimit-remaining-tokens").parse::<u64>().unwrap();
    let first = ask_and_settle(&one, "web").await;
    assert!((900..1000).contains(&left(&first)), "so far it is reserved by the estimate: {}", left(&first));
    let second = ask_and_settle(&two, "web").await;
    assert_eq!(second.status, 200);
    assert!(left(&second) < 900, "the other one's use is known: {}", left(&second));
    // Nearly twice as much was used as there is.
    for gateway in [&one, &two] {
        let refused = ask(gateway, "web", &chat("auto", 5), &[]).await;
        assert_eq!((code(&refused), left(&refused)), ((429, "rate_limit_exceeded".to_owned()), 0));
        assert_eq!(refused.json()["error"]["type"], "tokens");
    }
    assert_eq!(mock.seen().len(), 2);
    // What was reserved and not used comes back to all.
    let before = settled(&one.metrics().await);
    let mut body = chat("auto", 300);
    body["user"] = "few".into();
    let large = ask(&one, "spare", &body, &[]).await;
    one.wait_metrics("it to be settled", |metrics| settled(metrics) > before).await;
    let after = ask(&two, "spare", &chat("auto", 5), &[]).await;
    assert!(left(&large) < 950 && left(&after) > 950, "{} and {}", left(&large), left(&after));
}

fn spent(redis: &Redis) -> u64 {
    redis.names("team:search:tokens:month:").iter().map(|name| redis.ask::<u64>(cmd("HGET").arg(name).arg("all"))).sum()
}

#[tokio::test]
async fn a_budget_is_spent_once_whatever_is_lost() {
    let Some(mut redis) = Redis::start().await else { return };
    let mock = Mock::start(|seen| used(seen, 300, 100)).await;
    let dir = tempfile::tempdir().unwrap();
    let list = [("a", ", team: search"), ("b", ", team: search")];
    let teams = "teams: { search: { budget: { tokens: 1k, per: month } } }\n";
    let kept = |folder: &Path| format!("usage: {{ path: \"{}\" }}\n{teams}", folder.display());
    let (texts, folder) = (
        ["one", "two"].map(|name| policy(&mock, &redis, &list, &kept(&dir.path().join(name)))),
        dir.path().join("one"),
    );
    let mut one = Gateway::start(&texts[0]).await;
    let two = Gateway::start(&texts[1]).await;
    tokio::join!(is_up(&one, true), is_up(&two, true));
    assert_eq!(ask_and_settle(&one, "a").await.status, 200);
    assert_eq!(ask_and_settle(&two, "b").await.status, 200);
    assert_eq!(ask_and_settle(&one, "b").await.status, 200, "200 are left, by the estimate");
    let refused = ask(&two, "a", &chat("auto", 5), &[]).await;
    assert_eq!(code(&refused), (429, "insufficient_quota".to_owned()));
    let reported = two.get_json("/admin/keys").await;
    assert_eq!((&reported["teams"][0]["spent_tokens"], spent(&redis)), (&json!(1200), 1200));
    assert!(
        redis.names("team:").iter().all(|name| redis.ask::<i64>(cmd("PTTL").arg(name)) > 0),
        "nothing stays for ever"
    );

    // The server comes back empty: each gateway reports its spending again.
    redis.kill().await;
    tokio::join!(is_up(&one, false), is_up(&two, false));
    assert_eq!(status(&two, "b").await, 429, "what the others have spent is remembered");
    redis.again().await;
    tokio::join!(is_up(&one, true), is_up(&two, true));
    assert_eq!(spent(&redis), 1200);
    // A gateway that comes back with what it kept does not add it twice; nor does one that had not written all of it down.
    until("it to be on disk", async || {
        std::fs::read_to_string(folder.join("standing.json")).is_ok_and(|text| text.contains("\"tokens\": 800"))
    })
    .await;
    one.kill().await;
    let standing = folder.join("standing.json");
    let text = std::fs::read_to_string(&standing).unwrap();
    std::fs::write(&standing, text.replace("\"tokens\": 800", "\"tokens\": 400")).unwrap();
    let one = Gateway::start(&texts[0]).await;
    is_up(&one, true).await;
    assert_eq!((spent(&redis), status(&one, "a").await), (1200, 429));
    until("it to know", async || one.get_json("/admin/keys").await["teams"][0]["spent_tokens"] == 1200).await;
}

#[tokio::test]
async fn budget_reservations_hold_at_every_gateway() {
    let Some(redis) = Redis::start().await else { return };
    let mock = Mock::start(|seen| if seen.number == 0 { Plan::silence() } else { used(seen, 1, 1) }).await;
    let teams = "teams: { search: { budget: { usd: 0.00004, per: day } } }\n";
    let (one, two) = gateways(&policy(&mock, &redis, &[("a", ", team: search")], teams)).await;
    // Its answer may have 20 tokens, at two dollars a million: with its prompt that is more than there is, and takes all of it.
    let body = chat("auto", 20);
    {
        let mut held = pin!(ask(&one, "a", &body, &[]));
        tokio::select! {
            _ = &mut held => panic!("it was to be under way"),
            _ = mock.wait_seen(1) => {}
        }
        let refused = ask(&two, "a", &body, &[]).await;
        assert_eq!(code(&refused), (429, "rate_limit_exceeded".to_owned()), "nothing is spent yet");
        assert_eq!(refused.header("retry-after"), "1");
    }
    // Its client has left: what it had reserved is there for others.
    until("it to be given back", async || ask(&two, "a", &body, &[]).await.status == 200).await;
}

/// The server's script alone, on random transactions, against a model.
#[tokio::test]
async fn a_deal_is_done_whole_or_not_at_all() {
    const SCRIPT: &str = include_str!("../../crates/accounting/src/distributed/script.lua");
    let Some(redis) = Redis::start().await else { return };
    let deal = |parts: &Value| -> (usize, Vec<Vec<u64>>) {
        let keys = ["held", "sum", "spent", "none", "rate"];
        redis.ask(cmd("EVAL").arg(SCRIPT).arg(keys.len()).arg(&keys).arg(parts.to_string()))
    };
    let mut dice = accounting::Dice(11);
    let (mut held, mut spent) = (BTreeMap::new(), [0_u64; 3]);
    for number in 0..400 {
        let (amount, gateway) = (dice.roll(300) as u64, dice.roll(3));
        let own =
            json!({ "spent": 3, "gateway": gateway.to_string(), "own": spent[gateway], "until": 4_000_000_000_u64 });
        let mut part = json!({ "op": "hold", "key": 1, "sum": 2, "most": 2000, "amount": amount, "member": format!("{number}:{amount}") });
        part.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        let taken = held.values().sum::<u64>() + spent.iter().sum::<u64>();
        match dice.roll(5) {
            // There is never room for the other part: nothing is held.
            0 => {
                let none = json!({ "op": "take", "key": 4, "limit": 0, "count": 1 });
                let room = taken < 2000 && taken + amount <= 2000;
                assert_eq!(deal(&json!([part, none])).0, if room { 2 } else { 1 });
            }
            1 | 2 => {
                let (refused, reported) = deal(&json!([part]));
                assert_eq!(reported[0], [taken, spent.iter().sum(), spent[gateway]]);
                assert_eq!(refused == 0, taken < 2000 && taken + amount <= 2000, "{amount} beside {taken}");
                if refused == 0 {
                    held.insert(format!("{number}:{amount}"), amount);
                }
            }
            // Both finished and unfinished requests are reported twice.
            3 => {
                if let Some((member, amount)) = held.pop_first() {
                    spent[gateway] += amount / 8;
                    let release = json!({ "op": "release", "key": 1, "sum": 2, "member": member });
                    let mut told_own = json!({ "op": "spend" });
                    told_own.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
                    told_own["own"] = spent[gateway].into();
                    let want = [spent.iter().sum(), spent[gateway]];
                    assert_eq!(deal(&json!([release, told_own, release])).1[1], want);
                    told_own["own"] = (spent[gateway] / 2).into();
                    assert_eq!(deal(&json!([told_own])).1[0], want, "what was spent is not taken back");
                }
            }
            _ => {
                let members: Vec<_> = held.keys().collect();
                deal(&json!([{ "op": "renew", "key": 1, "sum": 2, "members": members }]));
            }
        }
    }
    assert!(spent.iter().sum::<u64>() > 1000 && !held.is_empty(), "it came to something");
    // Releases beyond the usage add no room.
    let rate = |op: &str, count: i64| json!([{ "op": op, "key": 5, "limit": 10, "count": count }]);
    assert_eq!(deal(&rate("take", 10)).1, [[600_000_000]]);
    assert_eq!(deal(&rate("take", 5)).0, 1);
    deal(&rate("correct", -40));
    assert_eq!(deal(&rate("take", 10)).1, [[600_000_000]]);
    deal(&rate("correct", 5));
    assert!((1..=90_001).contains(&redis.ask::<i64>(cmd("PTTL").arg("rate"))), "what is owed takes its time");
}

#[tokio::test]
async fn after_a_storm_the_server_holds_nothing() {
    let Some(redis) = Redis::start().await else { return };
    let mock = Mock::start(accounting::fate).await;
    let list = [("web", ", limits: { rpm: 1G, tpm: 1G, concurrency: 50 }, team: search")];
    let text = policy(&mock, &redis, &list, "teams: { search: { budget: { tokens: 1G, per: month } } }\n");
    let (one, two) = gateways(&text).await;
    let fates = ["whole", "stream", "400", "500", "cut-head", "reset", "cut", "in-band", "silent", "prefill", "answer"];
    let mut dice = accounting::Dice(7);
    for _ in 0..6 {
        let storm = fates.iter().flat_map(|fate| [(fate, &one), (fate, &two)]).map(|(fate, gateway)| {
            let mut body = chat("auto", 5);
            body["stream"] = (dice.roll(2) == 0).into();
            let request = client::json(http().post(gateway.at("/v1/chat/completions")), &body).bearer_auth("web");
            let patience = std::time::Duration::from_millis(10 + dice.roll(60) as u64);
            tokio::time::timeout(patience, async move {
                if let Ok(answer) = request.header("x-fate", *fate).send().await {
                    let _ = answer.bytes().await;
                }
            })
        });
        join_all(storm).await;
    }
    let mut spent_here = 0;
    for gateway in [&one, &two] {
        until("everything to be given back", async || {
            gateway.get_json("/admin/keys").await["keys"][0]["standing"]["in_flight"] == 0 && mock.under_way() == 0
        })
        .await;
        // Ends are reported in order: after this one nothing is in transit.
        ask_and_settle(gateway, "web").await;
    }
    assert_eq!(redis.ask::<u64>(cmd("ZCARD").arg("signalbox:{limits}:key:web:stays")), 0);
    assert_eq!(redis.ask::<u64>(cmd("ZCARD").arg("signalbox:{limits}:team:search:tokens:held")), 0);
    for gateway in [&one, &two] {
        let reported = gateway.get_json("/admin/keys").await;
        spent_here = spent_here.max(reported["teams"][0]["spent_tokens"].as_u64().unwrap());
    }
    assert_eq!(spent(&redis), spent_here);
}

#[tokio::test]
async fn an_outage_of_redis_fails_no_request() {
    let Some(mut redis) = Redis::start().await else { return };
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let list = [
        ("few", ", limits: { rpm: 2 }"),
        ("other", ", limits: { rpm: 2 }"),
        ("many", ", limits: { rpm: 1G, tpm: 1G, concurrency: 1k }"),
    ];
    let (one, two) = gateways(&policy(&mock, &redis, &list, "")).await;
    assert_eq!(status(&one, "few").await, 200);
    let (answers, ()) = tokio::join!(burst([&one, &two], 10, "many"), redis.kill());
    assert_eq!(let_in(&answers), 20);
    tokio::join!(is_up(&one, false), is_up(&two, false));
    one.wait_log("shared limits: server unreachable").await;
    // Each has counted all the time.
    assert_eq!([status(&one, "few").await, status(&one, "few").await], [200, 429]);
    assert_eq!([status(&two, "few").await, status(&two, "few").await, status(&two, "few").await], [200, 200, 429]);
    let down = ["what=\"enter\"", "result=\"down\""];
    assert!(two.metrics().await.sum("signalbox_limits_shared_total", &down) > 0.5);
    redis.again().await;
    tokio::join!(is_up(&one, true), is_up(&two, true));
    assert_eq!(let_in(&burst([&one, &two], 4, "other").await), 2, "together again");
    // Nor is one that hangs: three wait, and no other.
    let text = policy(&mock, &redis, &list, "").replace("30s", "5ms");
    two.rewrite(&text);
    two.wait_metrics("a reload", |now| now.sum("signalbox_config_reloads_total", &["result=\"ok\""]) > 0.5).await;
    is_up(&two, true).await;
    redis.signal("STOP");
    assert_eq!(let_in(&burst([&two, &two], 10, "many").await), 20);
    is_up(&two, false).await;
    redis.signal("CONT");
    is_up(&two, true).await;
}

#[tokio::test]
async fn a_key_that_is_revoked_on_one_is_revoked_on_all() {
    let Some(mut redis) = Redis::start().await else { return };
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let text = policy(&mock, &redis, &[("a", ""), ("b", "")], "");
    let (one, two) = gateways(&text).await;
    let change = async |gateway: &Gateway, path: &str| {
        assert_eq!(client::post(&gateway.admin(path), &json!({})).await.status, 200);
    };
    change(&one, "/admin/keys/a/revoke").await;
    until("the other to know", async || status(&two, "a").await == 401).await;
    assert_eq!([status(&one, "a").await, status(&two, "b").await], [401, 200]);
    let three = Gateway::start(&text).await;
    is_up(&three, true).await;
    assert_eq!(status(&three, "a").await, 401, "from the moment that it is there");
    // Revoked while the server was away, which then lost its data: the revocation is sent again.
    redis.kill().await;
    tokio::join!(is_up(&one, false), is_up(&two, false));
    change(&two, "/admin/keys/b/revoke").await;
    redis.again().await;
    until("the others to know", async || status(&one, "b").await == 401 && status(&three, "b").await == 401).await;
    change(&two, "/admin/keys/a/restore").await;
    until("it to be let in", async || status(&one, "a").await == 200 && status(&three, "a").await == 200).await;
}

#[tokio::test]
async fn counting_together_begins_and_ends_with_a_reload() {
    let Some(redis) = Redis::start().await else { return };
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let with = policy(&mock, &redis, &[("few", ", limits: { rpm: 2 }"), ("web", ", limits: { rpm: 2 }")], "");
    let without: Vec<&str> = with.lines().filter(|line| !line.contains("shared: {")).collect();
    let without = without.join("\n");
    let clients = || {
        let list: String = redis.ask(cmd("CLIENT").arg("LIST"));
        // This question's own is one of them.
        list.lines().count() - 1
    };
    let one = Gateway::start(&without).await;
    assert_eq!([status(&one, "few").await, clients() as u16], [200, 0]);
    one.rewrite(&with);
    is_up(&one, true).await;
    let two = Gateway::start(&with).await;
    is_up(&two, true).await;
    assert_eq!((let_in(&burst([&one, &two], 2, "web").await), clients()), (2, 2));
    one.rewrite(&without);
    until("the connection to be closed", async || clients() == 1).await;
    assert_eq!([status(&one, "few").await, status(&one, "few").await], [200, 429], "what was used stays used");
    assert!(!one.metrics().await.0.contains_key("signalbox_limits_shared_up"));
}

#[tokio::test]
async fn a_server_that_refuses_writes_is_away() {
    let Some(redis) = Redis::start().await else { return };
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let one = Gateway::start(&policy(&mock, &redis, &[("few", ", limits: { rpm: 100 }")], "")).await;
    is_up(&one, true).await;
    let set = |name: &str, value: &str| redis.ask::<String>(cmd("CONFIG").arg("SET").arg(name).arg(value));
    for (name, refusing, usual, words) in
        [("maxmemory", "1", "0", "OOM"), ("min-replicas-to-write", "1", "0", "NOREPLICAS")]
    {
        let lost = one.log().matches("shared limits: server unreachable or refusing").count();
        set(name, refusing);
        is_up(&one, false).await;
        assert_eq!(status(&one, "few").await, 200, "it counts alone");
        let health = one.get_json("/admin/state").await["health"].to_string();
        assert!(health.contains("limits.shared") && health.contains(words), "{health}");
        set(name, usual);
        is_up(&one, true).await;
        let log = one.log();
        assert_eq!(log.matches("shared limits: server unreachable or refusing").count(), lost + 1, "{log}");
        assert!(!one.get_json("/admin/state").await["health"].to_string().contains("limits.shared"));
    }
}

#[tokio::test]
async fn fleets_with_another_prefix_share_nothing_on_one_server() {
    let Some(redis) = Redis::start().await else { return };
    let user: String = redis.ask(cmd("ACL").arg(&[
        "SETUSER",
        "staging",
        "on",
        ">pass",
        "~staging:*",
        "&*",
        "+@all",
        "-@admin",
        "-@dangerous",
    ]));
    assert_eq!(user, "OK");
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let text = policy(&mock, &redis, &[("web", ", limits: { rpm: 2 }, budget: { tokens: 1k, per: day }")], "");
    let other = text.replace("timeout: 30s", "timeout: 30s, user: staging, password: pass, prefix: staging");
    let (production, staging) = (Gateway::start(&text).await, Gateway::start(&other).await);
    tokio::join!(is_up(&production, true), is_up(&staging, true));
    for gateway in [&production, &staging] {
        assert_eq!(
            [status(gateway, "web").await, status(gateway, "web").await, status(gateway, "web").await],
            [200, 200, 429]
        );
    }
    assert_eq!(client::post(&staging.admin("/admin/keys/web/revoke"), &json!({})).await.status, 200);
    until("the revocation", async || redis.ask::<u64>(cmd("EXISTS").arg("staging:{limits}:revoked")) == 1).await;
    assert_eq!([status(&staging, "web").await, status(&production, "web").await], [401, 429]);
}
