//! `/metrics` under Prometheus' own tools: promtool's lint and a real Prometheus, if installed.

use serde_json::json;

use crate::support::{
    client::{answer, get, http, post},
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
    let Some(said) = lint(&text) else { return };
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

#[tokio::test]
async fn each_scraper_gets_the_format_that_it_reads() {
    let gateway = used().await;
    let asked = async |accept: &'static str| {
        let answer = answer(http().get(gateway.admin("/metrics")).header("accept", accept)).await;
        (answer.header("content-type").to_owned(), answer.text())
    };
    let (kind, page) = asked("application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.3").await;
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0") && page.ends_with("# EOF\n"), "{kind}");
    for accept in ["text/plain;version=0.0.4", "*/*"] {
        let (kind, page) = asked(accept).await;
        assert!(kind.starts_with("text/plain; version=0.0.4") && !page.contains("# EOF"), "{kind}");
        assert!(page.contains("# TYPE signalbox_requests_total counter\nsignalbox_requests_total{"), "{page}");
    }
}
