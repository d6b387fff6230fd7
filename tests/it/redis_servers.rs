//! Redis over TLS, behind Sentinels and as a cluster, with a real server; and a fleet that loses its server and a member.

use std::net::TcpListener;

use redis::cmd;
use serde_json::json;

use crate::{
    keys::{ask, chat, keys, used},
    load::{Load, pool},
    support::{
        gateway::{Gateway, Start},
        mock::Mock,
        redis::Redis,
        until,
    },
    tls::Root,
};

/// A policy that counts limits and shares answers through a server, given as the keys of `shared`.
fn policy<'a>(engines: impl IntoIterator<Item = &'a Mock>, server: &str) -> String {
    let urls: Vec<_> = engines.into_iter().map(Mock::url).collect();
    let list = [("few", ", limits: { rpm: 3 }"), ("many", ", limits: { rpm: 1G, tpm: 1G, concurrency: 1k }")];
    format!(
        "{}{}limits: {{ shared: {{ {server}, timeout: 30s }} }}\n\
         cache: {{ exact: {{}}, shared: {{ {server}, key: what-we-have-in-common, timeout: 5s }} }}\n",
        keys(&list),
        pool(urls.iter().map(|url| &**url))
    )
}

async fn is_up(gateway: &Gateway, up: bool) {
    let what = if up { "the server to be there" } else { "the server to be away" };
    let names = ["signalbox_limits_shared_up", "signalbox_cache_shared_up"];
    gateway.wait_metrics(what, |now| names.iter().all(|name| (now.sum(name, &[]) > 0.5) == up)).await;
}

async fn gateways(text: &str) -> [Gateway; 2] {
    let (one, two) = tokio::join!(Gateway::start(text), Gateway::start(text));
    tokio::join!(is_up(&one, true), is_up(&two, true));
    [one, two]
}

async fn status(gateway: &Gateway, key: &str) -> u16 {
    ask(gateway, key, &chat("auto", 5), &[]).await.status.as_u16()
}

/// Counts two gateways' requests together, and serves an answer of the one by the other.
async fn share([one, two]: &[Gateway; 2], prompt: &str) {
    let exact = json!({ "model": "auto", "temperature": 0, "messages": [{ "role": "user", "content": prompt }] });
    assert_eq!(ask(one, "many", &exact, &[]).await.status, 200);
    until("the other to have its answer", async || {
        let answer = ask(two, "many", &exact, &[("cache-control", "only-if-cached")]).await;
        answer.status == 200
    })
    .await;
}

async fn count([one, two]: &[Gateway; 2]) {
    let mut found = [status(one, "few").await, status(two, "few").await, status(one, "few").await, 0];
    found[3] = status(two, "few").await;
    assert_eq!(found, [200, 200, 200, 429]);
}

#[tokio::test]
async fn a_server_with_tls_is_verified_and_may_ask_for_a_certificate() {
    let (root, stranger, dir) = (Root::new(), Root::new(), tempfile::tempdir().unwrap());
    root.renew(dir.path());
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("root.pem"), root.pem()).unwrap();
    std::fs::write(at("stranger.pem"), stranger.pem()).unwrap();
    let options = |port: u16| {
        let port = port.to_string();
        let (certificate, key, root) = (at("gateway.pem"), at("gateway.key"), at("root.pem"));
        let tls = ["--port", "0", "--tls-port", &port, "--tls-cert-file", &certificate, "--tls-key-file", &key];
        let more = ["--tls-ca-cert-file", &root, "--requirepass", "word-of-redis"];
        tls.into_iter().chain(more).map(str::to_owned).collect()
    };
    let Some(redis) = Redis::start_with(options).await else { return };
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let server = |tls: &str| format!("url: \"rediss://:word-of-redis@127.0.0.1:{}\", tls: {{ {tls} }}", redis.port());
    let identity = format!("certificate: {}, key: {}", at("gateway.pem"), at("gateway.key"));
    let pair = gateways(&policy([&mock], &server(&format!("roots: {}, {identity}", at("root.pem"))))).await;
    count(&pair).await;
    share(&pair, "over TLS").await;

    // No certificate of its own, or another root: the gateway counts alone and says where.
    for tls in [format!("roots: {}", at("root.pem")), format!("roots: {}, {identity}", at("stranger.pem"))] {
        let alone = Gateway::start(&policy([&mock], &server(&tls))).await;
        alone.wait_log("shared limits: server unreachable").await;
        is_up(&alone, false).await;
        assert_eq!(status(&alone, "few").await, 200);
        let log = alone.log();
        assert!(
            log.contains(&format!("rediss://127.0.0.1:{}", redis.port())) && !log.contains("word-of-redis"),
            "{log}"
        );
    }
    let Err(log) = Start::with(&policy([&mock], &server("roots: /no/such/root.pem"))).attempt().await else {
        panic!("a gateway without its root was not to start")
    };
    assert!(log.contains("/no/such/root.pem") && !log.contains("word-of-redis"), "{log}");
}

#[tokio::test]
async fn a_failover_by_sentinel_is_followed() {
    let options = |more: &str| {
        let text = format!("--requirepass secret --masterauth secret --repl-diskless-sync-delay 0 {more}");
        move |_| text.split_whitespace().map(str::to_owned).collect()
    };
    let Some(mut main) = Redis::start_with(options("")).await else { return };
    let Some(replica) = Redis::start_with(options(&format!("--replicaof 127.0.0.1 {}", main.port()))).await else {
        return;
    };
    let info = cmd("INFO").arg("replication").take();
    let replicated = || replica.ask::<String>(&info).contains("master_link_status:up");
    until("the replica to be in step", async || replicated()).await;
    let Some(sentinel) = main.watched_by_sentinel().await else { return };
    until("the Sentinel to know the replica", async || {
        let known: Vec<redis::Value> = sentinel.ask(cmd("SENTINEL").arg("REPLICAS").arg("main"));
        known.len() == 1
    })
    .await;
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    let server = format!(
        "url: \"redis+sentinel://:secret@127.0.0.1:1,127.0.0.1:{}/main\", sentinel: {{ password: sentinels }}",
        sentinel.port()
    );
    let pair = gateways(&policy([&mock], &server)).await;
    count(&pair).await;
    share(&pair, "before").await;
    let load = Load::start(8, &[pair[0].listen(), pair[1].listen()], "many");
    load.wait(20).await;
    main.kill().await;
    let role = || replica.try_ask::<Vec<redis::Value>>(&cmd("ROLE"));
    let main_role = redis::Value::BulkString(b"master".to_vec());
    until("the replica to be promoted", async || role().is_ok_and(|role| role[0] == main_role)).await;
    tokio::join!(is_up(&pair[0], true), is_up(&pair[1], true));
    share(&pair, "after").await;
    load.wait(20).await;
    let (complete, failures) = load.end().await;
    assert!(failures.is_empty(), "{complete} complete, failed: {failures:?}");
    assert!(!replica.names("x").is_empty(), "what is shared now is in the new master");
}

#[tokio::test]
async fn a_cluster_is_used_and_found_again() {
    let bus = |_: usize| TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
    let buses: [u16; 3] = std::array::from_fn(bus);
    let mut nodes = Vec::new();
    for (number, bus) in buses.iter().enumerate() {
        let text = format!("--cluster-enabled yes --cluster-port {bus} --cluster-node-timeout 1000");
        let Some(node) = Redis::start_with(|_| text.split_whitespace().map(str::to_owned).collect()).await else {
            return;
        };
        let (first, last) = ([0, 5461, 10923][number], [5460, 10922, 16383][number]);
        node.ask::<()>(cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(first).arg(last));
        node.ask::<()>(cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(number + 1));
        nodes.push(node);
    }
    for (node, bus) in nodes.iter().zip(buses).skip(1) {
        nodes[0].ask::<()>(cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(node.port()).arg(bus));
    }
    until("the cluster to be formed", async || {
        nodes.iter().all(|node| {
            let info: String = node.ask(cmd("CLUSTER").arg("INFO"));
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        })
    })
    .await;
    let mock = Mock::start(|seen| used(seen, 1, 1)).await;
    // One node names the others.
    let pair = gateways(&policy([&mock], &format!("url: \"redis+cluster://127.0.0.1:{}\"", nodes[0].port()))).await;
    count(&pair).await;
    share(&pair, "on a cluster").await;
    let slot: usize = nodes[0].ask(cmd("CLUSTER").arg("KEYSLOT").arg("signalbox:{limits}:revoked"));
    let owner = [5461, 10923, 16384].iter().position(|end| slot < *end).unwrap();
    assert_eq!(nodes[owner].names("key:few").len(), 1, "counts are in the slot of their hash tag");
    nodes[owner].kill().await;
    let limits_up = |up: bool| {
        move |now: &crate::support::gateway::Metrics| (now.sum("signalbox_limits_shared_up", &[]) > 0.5) == up
    };
    for gateway in &pair {
        until("a request without the node", async || {
            assert_eq!(status(gateway, "many").await, 200);
            !limits_up(true)(&gateway.metrics().await)
        })
        .await;
    }
    nodes[owner].again().await;
    tokio::join!(is_up(&pair[0], true), is_up(&pair[1], true));
    share(&pair, "on a cluster again").await;
}

#[tokio::test]
async fn a_fleet_that_loses_a_gateway_and_redis_fails_only_what_was_connected_to_it() {
    let Some(mut redis) = Redis::start().await else { return };
    let mut engines = Vec::new();
    for _ in 0..6 {
        engines.push(Mock::start(|seen| used(seen, 1, 1)).await);
    }
    let text = policy(&engines, &format!("url: \"{}\"", redis.url())).replace("timeout: 30s", "timeout: 50ms");
    let (one, two, mut three) = tokio::join!(Gateway::start(&text), Gateway::start(&text), Gateway::start(&text));
    tokio::join!(is_up(&one, true), is_up(&two, true), is_up(&three, true));
    let targets = [one.listen(), two.listen(), three.listen()];
    let load = Load::start(24, &targets, "many");
    load.wait(150).await;
    tokio::join!(redis.kill(), three.kill());
    load.wait(150).await;
    tokio::join!(is_up(&one, false), is_up(&two, false));
    redis.again().await;
    tokio::join!(is_up(&one, true), is_up(&two, true));
    load.wait(100).await;
    let (complete, failures) = load.end().await;
    let elsewhere: Vec<_> = failures.iter().filter(|failure| failure.at != targets[2]).collect();
    assert!(elsewhere.is_empty(), "{complete} complete, failed at the others: {elsewhere:?}");
    let connected =
        failures.iter().all(|failure| failure.why.starts_with("no answer") || failure.why.starts_with("a broken"));
    assert!(connected, "{:?}", failures.first());
    assert!(engines.iter().all(|engine| !engine.seen().is_empty()), "all engines took part");
}
