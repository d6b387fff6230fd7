//! `/metrics` under Prometheus' own tools: promtool's lint and a real Prometheus, if installed.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::{
    client::{get, post},
    gateway::{Gateway, Start},
    prometheus::{Prometheus, lint},
};

async fn used() -> Gateway {
    let gateway = Start::simulated().start().await;
    let body = json!({ "model": "auto", "max_tokens": 3, "messages": [{ "role": "user", "content": "hi" }] });
    for model in ["small", "large", "long", "nowhere"] {
        let mut body = body.clone();
        body["model"] = model.into();
        post(&gateway.at("/v1/chat/completions"), &body).await;
    }
    gateway
}

#[tokio::test]
async fn promtool_has_no_complaint() {
    let gateway = used().await;
    let text = get(&gateway.at("/metrics")).await.text();
    let Some(said) = lint(&plain(&text)) else { return };
    assert!(said.is_empty(), "{said:#?}");
}

#[tokio::test]
async fn a_real_prometheus_scrapes_us() {
    let gateway = used().await;
    let Some(prometheus) = Prometheus::scraping(&gateway).await else { return };
    let up = prometheus.wait("up", |_| true).await;
    assert!(up > 0.5, "the scrape failed: {}", prometheus.complaint().await);
    let counted = prometheus.wait("sum(signalbox_requests_total)", |count| count > 3.5).await;
    assert!((counted - 4.0).abs() < 0.5, "{counted}");
    prometheus.wait("sum(signalbox_engine_up)", |up| up > 5.5).await;
    prometheus.wait("histogram_quantile(0.5,signalbox_e2e_seconds_bucket)", |seconds| seconds > 0.0).await;
    assert_eq!(prometheus.complaint().await, "");
}

/// Converts OpenMetrics to Prometheus' older text format, the only one that promtool reads: there a counter's family has the name of its
/// samples, and there are no units and no end.
fn plain(text: &str) -> String {
    let counters: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let lines = text.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF").map(|line| {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(kind), Some(name), Some(rest)) if counters.contains(name) => {
                format!("# {kind} {name}_total {rest}\n")
            }
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}
