//! The cache shared by several gateways: over the real binary, a scripted engine and a real Redis that comes and goes.
#![allow(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

use futures_util::future::join_all;
use redis::cmd;
use serde_json::{Value, json};

use crate::support::{
    client::{self, Answer, http},
    gateway::{Gateway, Metrics},
    mock::{Mock, Plan, Seen},
    redis::Redis,
    until,
};

/// An engine whose answers name the prompt and count the requests.
async fn engine() -> Mock {
    Mock::start(|seen: &Seen| {
        let body = seen.json();
        let said = body["messages"][0]["content"].as_str().unwrap().to_owned();
        Plan::chat(&format!("{said}! ({})", seen.number))
    })
    .await
}

fn policy(mock: &Mock, redis: &Redis, more: &str) -> String {
    format!(
        "pools:\n  p: {{ model: up, backends: [\"{}\"] }}\n\
         models: {{ m: {{ to: p }}, other: {{ to: p }}, quiet: {{ to: p, cache: {{ persist: off }} }} }}\n\
         cache:\n  exact: {{}}\n  semantic: {{ max_false_hit_rate: 5%, scope: shared }}\n  \
         shared: {{ url: \"{}\", timeout: 5s{more} }}\n",
        mock.url(),
        redis.url()
    )
}

const KEY: &str = ", key: 'what-we-have-in-common'";

async fn gateway(mock: &Mock, redis: &Redis) -> Gateway {
    let gateway = Gateway::start(&policy(mock, redis, KEY)).await;
    is_up(&gateway, true).await;
    gateway
}

async fn is_up(gateway: &Gateway, up: bool) {
    let what = if up { "the server to be there" } else { "the server to be away" };
    gateway.wait_metrics(what, |metrics| (metrics.sum("signalbox_cache_shared_up", &[]) > 0.5) == up).await;
}

/// Counter of exchanges with the server that had this result.
fn dealings(metrics: &Metrics, what: &str, result: &str) -> f64 {
    let labels = [format!("what=\"{what}\""), format!("result=\"{result}\"")];
    metrics.sum("signalbox_cache_shared_total", &labels.each_ref().map(|label| &**label))
}

/// Waits until the counter reaches `count`.
async fn dealt(gateway: &Gateway, what: &str, result: &str, times: f64) {
    gateway.wait_metrics(&format!("{what} {result}"), |metrics| dealings(metrics, what, result) >= times).await;
}

/// A request with only an exact key: it has no text for the semantic cache.
fn exactly(model: &str, prompt: &str) -> Value {
    json!({ "model": model, "temperature": 0, "tools": [{ "type": "function", "function": { "name": "f" } }],
            "messages": [{ "role": "user", "content": prompt }] })
}

fn meaning(prompt: &str) -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": prompt }] })
}

const CAPITAL: &str = "What is the capital of France?";
const SAME: &str = "what is the capital of france";

async fn send(gateway: &Gateway, body: &Value) -> Answer {
    let answer = client::answer(client::json(http().post(gateway.at("/v1/chat/completions")), body)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// Cache status of a request, whose answer has to be the right one.
async fn cache_status(gateway: &Gateway, body: &Value) -> String {
    let answer = send(gateway, body).await;
    let text = answer.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let said = body["messages"][0]["content"].as_str().unwrap();
    assert!(text.to_lowercase().starts_with(&said.to_lowercase()), "{text} for {said}");
    answer.header("x-signalbox-cache").to_owned()
}

/// A paraphrase of the question about the capital is a hit. On a busy machine a lookup may time out: then the request is repeated, and its own
/// answer is not stored.
async fn means_the_same(gateway: &Gateway) {
    until("the same question to be answered", async || {
        let request = client::json(http().post(gateway.at("/v1/chat/completions")), &meaning(SAME));
        let answer = client::answer(request.header("cache-control", "no-store")).await;
        answer.header("x-signalbox-cache") == "hit-semantic" && answer.text().contains(CAPITAL)
    })
    .await;
}

#[tokio::test]
async fn answers_cached_by_one_gateway_are_served_by_the_others() {
    let Some(redis) = Redis::start().await else { return };
    let mock = engine().await;
    let (one, two) = tokio::join!(gateway(&mock, &redis), gateway(&mock, &redis));
    assert_eq!(cache_status(&one, &exactly("m", "hi")).await, "miss");
    dealt(&one, "set", "ok", 1.0).await;
    let hit = send(&two, &exactly("m", "hi")).await;
    assert_eq!(hit.header("x-signalbox-cache"), "hit-exact");
    assert!(hit.header("cache-status").starts_with("signalbox; hit; detail=exact; ttl="), "{:?}", hit.headers);
    assert_eq!(cache_status(&two, &exactly("m", "hi")).await, "hit-exact", "in its own memory now");
    assert_eq!(mock.seen().len(), 1);

    assert_eq!(cache_status(&two, &meaning(CAPITAL)).await, "miss");
    dealt(&one, "hear", "kept", 1.0).await;
    means_the_same(&one).await;
    // One that comes later reads what there is; one with another key finds nothing.
    let three = gateway(&mock, &redis).await;
    dealt(&three, "hear", "kept", 1.0).await;
    means_the_same(&three).await;
    let stranger = Gateway::start(&policy(&mock, &redis, ", key: 'something-else-entirely'")).await;
    is_up(&stranger, true).await;
    assert_eq!(cache_status(&stranger, &exactly("m", "hi")).await, "miss");
    assert_eq!(cache_status(&stranger, &meaning(SAME)).await, "miss");
    // What is to stay in memory stays there.
    assert_eq!(cache_status(&one, &exactly("quiet", "a secret")).await, "miss");
    assert_eq!(cache_status(&one, &exactly("m", "the last")).await, "miss");
    dealt(&one, "set", "ok", 2.0).await;
    assert_eq!(cache_status(&two, &exactly("quiet", "a secret")).await, "miss");
}

#[tokio::test]
async fn an_outage_of_redis_fails_no_request() {
    let Some(mut redis) = Redis::start().await else { return };
    let mock = engine().await;
    let (one, two) = tokio::join!(gateway(&mock, &redis), gateway(&mock, &redis));
    let ask = async |prefix: &str| {
        let prompts: Vec<Value> = (0..20).map(|number| exactly("m", &format!("{prefix} {number}"))).collect();
        join_all(prompts.iter().map(|prompt| cache_status(&one, prompt))).await;
    };
    tokio::join!(ask("while it goes"), redis.kill());
    is_up(&one, false).await;
    ask("while it is away").await;
    assert_eq!(cache_status(&one, &exactly("m", "while it is away 1")).await, "hit-exact");
    // Purged while the server is away: the others get the purge when it returns.
    assert_eq!(cache_status(&two, &exactly("other", "old")).await, "miss");
    client::post(&one.admin("/admin/cache/purge?route=other"), &json!({})).await;
    assert_eq!(cache_status(&two, &exactly("other", "old")).await, "hit-exact");
    redis.again().await;
    is_up(&one, true).await;
    is_up(&two, true).await;
    dealt(&two, "purge", "heard", 1.0).await;
    assert_eq!(cache_status(&two, &exactly("other", "old")).await, "miss");
    let before = dealings(&one.metrics().await, "set", "ok");
    assert_eq!(cache_status(&one, &exactly("m", "again")).await, "miss");
    dealt(&one, "set", "ok", before + 1.0).await;
    assert_eq!(cache_status(&two, &exactly("m", "again")).await, "hit-exact", "what is new is shared again");
    assert_eq!(cache_status(&two, &meaning(CAPITAL)).await, "miss");
    dealt(&one, "hear", "kept", 1.0).await;
    means_the_same(&one).await;
}

#[tokio::test]
async fn a_server_that_hangs_is_asked_no_more() {
    let Some(redis) = Redis::start().await else { return };
    let mock = engine().await;
    let policy = policy(&mock, &redis, KEY).replace("timeout: 5s", "timeout: 5ms");
    let gateway = Gateway::start(&policy).await;
    is_up(&gateway, true).await;
    redis.signal("STOP");
    for number in 0..10 {
        assert_eq!(cache_status(&gateway, &exactly("m", &format!("number {number}"))).await, "miss");
    }
    is_up(&gateway, false).await;
    dealt(&gateway, "get", "late", 3.0).await;
    assert_eq!(cache_status(&gateway, &exactly("m", "one more")).await, "miss");
    dealt(&gateway, "get", "down", 1.0).await;
    redis.signal("CONT");
    is_up(&gateway, true).await;
    assert_eq!(cache_status(&gateway, &exactly("m", "number 1")).await, "hit-exact");
}

#[tokio::test]
async fn a_purge_reaches_every_gateway() {
    let Some(redis) = Redis::start().await else { return };
    let mock = engine().await;
    let (one, two) = tokio::join!(gateway(&mock, &redis), gateway(&mock, &redis));
    assert_eq!(cache_status(&one, &exactly("m", "hi")).await, "miss");
    assert_eq!(cache_status(&one, &exactly("other", "ho")).await, "miss");
    assert_eq!(cache_status(&one, &meaning(CAPITAL)).await, "miss");
    dealt(&one, "set", "ok", 2.0).await;
    dealt(&two, "hear", "kept", 1.0).await;
    assert_eq!(cache_status(&two, &exactly("m", "hi")).await, "hit-exact");
    means_the_same(&two).await;
    client::post(&one.admin("/admin/cache/purge?route=m"), &json!({})).await;
    dealt(&two, "purge", "heard", 1.0).await;
    assert_eq!(cache_status(&two, &exactly("m", "hi")).await, "miss");
    assert_eq!(cache_status(&two, &meaning(SAME)).await, "miss");
    assert_eq!(cache_status(&two, &exactly("other", "ho")).await, "hit-exact", "nobody meant that");
    // Neither does one that comes later read it, though the server may still hold it.
    let three = gateway(&mock, &redis).await;
    assert_eq!(cache_status(&three, &exactly("other", "ho")).await, "hit-exact");
    dealt(&three, "hear", "refused", 1.0).await;
    // An entry by its name.
    let two_again = http().post(two.at("/v1/chat/completions")).header("x-request-id", "ho");
    client::answer(client::json(two_again, &exactly("other", "ho"))).await;
    let entry = two.get_json("/admin/decisions/ho").await["reused"]["entry"].as_str().unwrap().to_owned();
    assert!(redis.names("x").iter().any(|name| name.ends_with(&entry)));
    client::post(&two.admin(&format!("/admin/cache/purge?entry={entry}")), &json!({})).await;
    dealt(&one, "purge", "heard", 1.0).await;
    until("the server to forget it", async || redis.names("x").iter().all(|name| !name.ends_with(&entry))).await;
    assert_eq!(cache_status(&one, &exactly("other", "ho")).await, "miss");
    // Everything.
    dealt(&one, "set", "ok", 3.0).await;
    client::post(&one.admin("/admin/cache/purge"), &json!({})).await;
    dealt(&three, "purge", "heard", 3.0).await;
    assert_eq!(cache_status(&three, &exactly("other", "ho")).await, "miss");
    assert_eq!(cache_status(&one, &exactly("m", "kept at last")).await, "miss");
    // More than the server is to remember is everything too.
    let many = "local now = redis.call('TIME')[1] for at = 1, 10000 do redis.call('HSET', KEYS[1], string.format('%032d', at), now .. '000000:') end";
    let purges = redis.names("p").pop().unwrap();
    let _: () = redis.ask(cmd("EVAL").arg(many).arg(1).arg(&purges));
    client::post(&two.admin("/admin/cache/purge?route=none"), &json!({})).await;
    dealt(&one, "purge", "heard", 3.0).await;
    assert_eq!(redis.ask::<u64>(cmd("HLEN").arg(&purges)), 2);
    assert_eq!(cache_status(&one, &exactly("m", "kept at last")).await, "miss");
}

#[tokio::test]
async fn foreign_records_in_redis_are_rejected() {
    let Some(redis) = Redis::start().await else { return };
    let mock = engine().await;
    let (one, two) = tokio::join!(gateway(&mock, &redis), gateway(&mock, &redis));
    for prompt in ["first", "second", "third"] {
        assert_eq!(cache_status(&one, &exactly("m", prompt)).await, "miss");
    }
    dealt(&one, "set", "ok", 3.0).await;
    let names = redis.names("x");
    let values: Vec<Vec<u8>> = names.iter().map(|name| redis.ask(cmd("GET").arg(name))).collect();
    assert_eq!(names.len(), 3);
    // Of one a bit is flipped, one is put in another's place, and one is cut.
    let mut flipped = values[0].clone();
    *flipped.last_mut().unwrap() ^= 1;
    for (name, value) in names.iter().zip([&flipped[..], &values[0], &values[2][..20]]) {
        let _: String = redis.ask(cmd("SET").arg(name).arg(value));
    }
    for prompt in ["first", "second", "third"] {
        assert_eq!(cache_status(&two, &exactly("m", prompt)).await, "miss");
    }
    dealt(&two, "get", "refused", 3.0).await;
    // The same in the stream.
    assert_eq!(cache_status(&one, &meaning(CAPITAL)).await, "miss");
    dealt(&two, "hear", "kept", 1.0).await;
    let stream = redis.names("s").pop().unwrap();
    let read: Vec<(String, Vec<Vec<u8>>)> = redis.ask(cmd("XRANGE").arg(&stream).arg("-").arg("+"));
    let mut forged = read[0].1[1].clone();
    let at = forged.len() - 200;
    forged[at] ^= 1;
    for value in [&forged[..], &values[0], b"nothing"] {
        let _: String = redis.ask(cmd("XADD").arg(&stream).arg("*").arg("e").arg(value));
    }
    dealt(&two, "hear", "refused", 3.0).await;
    // A purge that no gateway has sealed makes what is there count no more, and forgets nothing here.
    assert_eq!(cache_status(&one, &exactly("m", "fourth")).await, "miss");
    dealt(&one, "set", "ok", 4.0).await;
    let (purges, later) = (format!("{}p", stream.strip_suffix('s').unwrap()), "9999999999999999");
    let _: u64 = redis.ask(cmd("HSET").arg(&purges).arg(&[0_u8; 32]).arg(format!("{later}:made up")));
    let _: String = redis.ask(cmd("XADD").arg(&stream).arg("*").arg("p").arg(later));
    dealt(&two, "purge", "refused", 1.0).await;
    assert_eq!(cache_status(&two, &exactly("m", "fourth")).await, "miss");
    means_the_same(&two).await;
}

#[tokio::test]
async fn sharing_begins_and_ends_with_a_reload() {
    let Some(redis) = Redis::start().await else { return };
    let mock = engine().await;
    let with = policy(&mock, &redis, KEY);
    let without: Vec<&str> = with.lines().filter(|line| !line.contains("shared: {")).collect();
    let without = without.join("\n");
    let one = Gateway::start(&without).await;
    assert_eq!(cache_status(&one, &exactly("m", "hi")).await, "miss");
    assert_eq!(cache_status(&one, &exactly("m", "hi")).await, "hit-exact");
    // The server is not there yet, which fails no request.
    one.rewrite(&with.replace(&redis.url(), "redis://127.0.0.1:1"));
    one.wait_log("shared answers: server unreachable").await;
    assert_eq!(cache_status(&one, &exactly("m", "hi")).await, "miss", "answers have other names now");
    one.rewrite(&with);
    is_up(&one, true).await;
    assert_eq!(cache_status(&one, &exactly("m", "hi")).await, "hit-exact", "the key is the same");
    assert_eq!(cache_status(&one, &exactly("m", "ho")).await, "miss");
    dealt(&one, "set", "ok", 1.0).await;
    let two = gateway(&mock, &redis).await;
    assert_eq!(cache_status(&two, &exactly("m", "ho")).await, "hit-exact");
    one.rewrite(&without);
    is_up(&one, false).await;
    assert_eq!(cache_status(&one, &exactly("m", "ho")).await, "hit-exact", "in memory it stays");
}
