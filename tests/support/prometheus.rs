//! A real Prometheus, if one is installed: it lints and scrapes our metrics.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{client, gateway::Gateway, until, within};

/// Returns the messages of `promtool check metrics`. `None`, with a message, if it is not installed.
pub fn lint(text: &str) -> Option<Vec<String>> {
    let mut promtool = Command::new("promtool");
    let started =
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child: Child = started.spawn().map_err(|error| missing("promtool", &error)).ok()?;
    // It reads all input before it prints, so neither side blocks. The pipe is closed on drop.
    child.stdin.take().expect("a piped stdin").write_all(text.as_bytes()).expect("promtool reads");
    let messages = child.wait_with_output().expect("promtool ends").stderr;
    Some(String::from_utf8_lossy(&messages).lines().map(str::to_owned).collect())
}

/// A running Prometheus that scrapes one gateway every second, ended on drop.
pub struct Prometheus {
    base: String,
    _child: tokio::process::Child,
    _dir: TempDir,
}

impl Prometheus {
    /// Starts Prometheus. `None`, with a message, if it is not installed.
    pub async fn scraping(gateway: &Gateway) -> Option<Self> {
        Self::with_rules(gateway, "groups: []").await
    }

    /// Starts Prometheus with these rules, evaluated every second.
    pub async fn with_rules(gateway: &Gateway, rules: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("rules.yml"), rules).expect("the rules are written");
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [rules.yml]\nscrape_configs:\n  - job_name: signalbox\n    static_configs: [{{ targets: ['{}'] }}]\n",
            gateway.admin("").trim_start_matches("http://").trim_end_matches('/')
        );
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, config).expect("the configuration is written");
        let mut child = tokio::process::Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg("--web.listen-address=127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| missing("prometheus", &error))
            .ok()?;
        let mut lines = BufReader::new(child.stderr.take().expect("a piped stderr")).lines();
        let address = within("Prometheus to say where it listens", async {
            while let Some(line) = lines.next_line().await.expect("its log is text") {
                if line.contains("Listening on")
                    && let Some((_, address)) = line.split_once("address=")
                {
                    return address.trim_matches('"').to_owned();
                }
            }
            panic!("Prometheus ended before it was ready");
        })
        .await;
        // Drains its log, so that it is not blocked by a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(Self { base: format!("http://{address}"), _child: child, _dir: dir })
    }

    /// Waits until the names of the firing alerts satisfy `ready`.
    pub async fn wait_alerts(&self, what: &str, ready: impl Fn(&[String]) -> bool) {
        let url = format!("{}/api/v1/alerts", self.base);
        until(what, async || {
            let Ok(response) = serde_json::from_slice::<Value>(&client::get(&url).await.body) else { return false };
            let Some(alerts) = response["data"]["alerts"].as_array() else { return false };
            let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
            let names = firing.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned));
            ready(&names.collect::<Vec<_>>())
        })
        .await;
    }

    /// Waits until the first series of `query` has a value that satisfies `ready`, and returns it.
    pub async fn wait(&self, query: &str, ready: impl Fn(f64) -> bool) -> f64 {
        let url = format!("{}/api/v1/query?query={}", self.base, escaped(query));
        within(query, async {
            let mut tick = tokio::time::interval(Duration::from_millis(100));
            loop {
                tick.tick().await;
                let answer = client::get(&url).await;
                // Queries are rejected until it has started.
                let Ok(found) = serde_json::from_slice::<Value>(&answer.body) else { continue };
                let value = found["data"]["result"][0]["value"][1].as_str().and_then(|value| value.parse().ok());
                if let Some(value) = value.filter(|value| ready(*value)) {
                    return value;
                }
            }
        })
        .await
    }

    /// Values of all series of `query` that are numbers, at present.
    pub async fn values(&self, query: &str) -> Vec<f64> {
        let answer = client::get(&format!("{}/api/v1/query?query={}", self.base, escaped(query))).await;
        let Ok(found) = serde_json::from_slice::<Value>(&answer.body) else { return Vec::new() };
        let series = found["data"]["result"].as_array().into_iter().flatten();
        let values = series.filter_map(|it| it["value"][1].as_str()?.parse::<f64>().ok());
        values.filter(|value| value.is_finite()).collect()
    }

    /// Error of its last scrape of the gateway; empty on success.
    pub async fn complaint(&self) -> String {
        let targets = client::get(&format!("{}/api/v1/targets", self.base)).await.json();
        targets["data"]["activeTargets"][0]["lastError"].as_str().unwrap_or("no target").to_owned()
    }
}

/// Escapes a text for a URL's query.
fn escaped(text: &str) -> String {
    let byte =
        |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

fn missing(program: &str, error: &std::io::Error) {
    eprintln!("no {program}: {error} (Debian: the package prometheus); its test is left out");
}
