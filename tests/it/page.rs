//! The operators' page in a real browser, if one is installed: content, appearance, and no requests to other hosts.
#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

use std::{env, future::pending, path::PathBuf, time::Duration};

use tokio::net::TcpListener;

use crate::support::{
    client,
    gateway::{Gateway, Start},
    mock::{Mock, Seen, polite},
    replay::{arrivals, replay},
    sdk, until,
};

/// A fleet with everything that the page shows: prices, objectives (which a busy machine keeps too), tiers, a cache.
const POLICY: &str = r#"
engines:
  gpu-1: { url: "http://10.0.0.1:8000/v1" }
  gpu-2: { url: "http://10.0.0.2:8000/v1" }
  gpu-3: { url: "http://10.0.0.3:8000/v1" }
  gpu-4: { url: "http://10.0.0.4:8000/v1" }
  gpu-5: { url: "http://10.0.0.5:8000/v1" }
  gpu-6: { url: "http://10.0.0.6:8000/v1" }
pools:
  small:
    model: qwen2.5-7b-instruct
    objectives: [{ ttft: { p95: 20s } }, { availability: 99.5% }]
    price: { input: 0.05, cached_input: 0.01, output: 0.10 }
    backends: [{ engine: gpu-1 }, { engine: gpu-2 }, { engine: gpu-3 }]
  large:
    model: llama-3.3-70b-instruct
    objectives: [{ when: prompt.tokens < 512, ttft: { p95: 30s } }]
    price: { input: 0.60, output: 0.80 }
    backends: [{ engine: gpu-4 }, { engine: gpu-5 }]
  long:
    model: qwen2.5-14b-1m
    price: { input: 0.20, output: 0.30 }
    backends: [{ engine: gpu-6 }]
cache: { exact: {}, semantic: { scope: shared } }
models:
  auto: { complexity: { tiers: [small, large], shares: [75%, 25%] } }
  small: { to: small }
  large: { to: large }
  long: { to: long }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_happens() {
    let Some(chromium) = chromium() else {
        eprintln!("no chromium on the PATH (Debian: the package chromium): the page's test is left out");
        return;
    };
    let gateway = Start::with(POLICY).arg("--simulate").start().await;
    let (url, page) = (gateway.url(), gateway.admin("/"));
    // Slow enough for some requests to be under way when one of them dies.
    let slow = |seen: &Seen| polite(seen).after(Duration::from_millis(60));
    let engines = [Mock::start(slow).await, Mock::start(slow).await, Mock::start(slow).await];
    for engine in &engines {
        engine.set_vllm(0, 0, 0.1);
    }
    let failing = Gateway::start(&over(&engines)).await;
    let killer = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let browse = sdk::Browse {
        chromium,
        page,
        failing: failing.admin("/"),
        killer: killer.local_addr().expect("its address").port(),
        api: failing.url(),
        policy: failing.config(),
    };
    let dying = async {
        for engine in engines {
            killer.accept().await.expect("a connection");
            engine.stop().await;
        }
        pending::<()>().await;
    };
    let traffic = async {
        loop {
            replay(&url, arrivals(400, 100), 2.0, &["auto", "small", "large", "small", "long"]).await;
        }
    };
    tokio::select! {
        () = sdk::page(&browse) => {}
        () = traffic => {}
        () = dying => {}
    }
}

/// A policy whose only pool has these engines.
fn over(engines: &[Mock]) -> String {
    let urls: Vec<_> = engines.iter().map(|engine| format!("\"{}\"", engine.url())).collect();
    format!(
        "pools: {{ all: {{ model: small, backends: [{}] }} }}\nmodels: {{ auto: {{ to: all }} }}\n",
        urls.join(", ")
    )
}

/// Events of the state, and the limit on subscribers.
#[tokio::test(flavor = "multi_thread")]
async fn watchers_share_the_state_and_are_not_without_end() {
    let gateway = Start::simulated().start().await;
    let events = gateway.admin("/admin/events");
    let mut watchers = Vec::new();
    for _ in 0..64 {
        let mut watcher = client::http().get(&events).send().await.expect("an answer");
        assert!(watcher.status().is_success());
        let begun = watcher.chunk().await.expect("no break").expect("an event");
        assert!(begun.starts_with(b"data: {\"version\""), "an update at once");
        watchers.push(watcher);
    }
    let refused = client::get(&events).await;
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("64 subscribers are watching already"), "{}", refused.text());
    assert!(client::get(&gateway.admin("/admin/state")).await.status.is_success(), "the state is there all the same");
    watchers.pop();
    until("a place for another", async || {
        client::http().get(&events).send().await.is_ok_and(|it| it.status().is_success())
    })
    .await;
}

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser"];
    let paths = env::var_os("PATH")?;
    env::split_paths(&paths).flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file())
}
