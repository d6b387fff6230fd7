//! A real Prometheus, where one is installed: it lints what we publish, and scrapes it.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{client, gateway::Gateway, within};

/// What `promtool check metrics` has to say of a text; `None`, with a message, where it is not installed.
pub fn lint(text: &str) -> Option<Vec<String>> {
    let mut promtool = Command::new("promtool");
    let started =
        promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child: Child = started.spawn().map_err(|error| missing("promtool", &error)).ok()?;
    // It reads all before it says anything, so neither waits for the other. Dropped, the pipe is closed.
    child.stdin.take().expect("a piped stdin").write_all(text.as_bytes()).expect("promtool reads");
    let said = child.wait_with_output().expect("promtool ends").stderr;
    Some(String::from_utf8_lossy(&said).lines().map(str::to_owned).collect())
}

/// A running Prometheus that scrapes one gateway every second; it ends when dropped.
pub struct Prometheus {
    base: String,
    _child: tokio::process::Child,
    _dir: TempDir,
}

impl Prometheus {
    /// Starts one; `None`, with a message, where it is not installed.
    pub async fn scraping(gateway: &Gateway) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = format!(
            "global: {{ scrape_interval: 1s }}\nscrape_configs:\n  - job_name: signalbox\n    static_configs: [{{ targets: ['{}'] }}]\n",
            gateway.listen()
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
        // Nobody else reads its log, and it must not be held up by a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Some(Self { base: format!("http://{address}"), _child: child, _dir: dir })
    }

    /// The value of the first series that `query` (no characters that a URL would escape) finds, as soon as it finds one
    /// that is `ready`.
    pub async fn wait(&self, query: &str, ready: impl Fn(f64) -> bool) -> f64 {
        let url = format!("{}/api/v1/query?query={query}", self.base);
        within(query, async {
            let mut tick = tokio::time::interval(Duration::from_millis(100));
            loop {
                tick.tick().await;
                let answer = client::get(&url).await;
                // It refuses queries until it has started up.
                let Ok(found) = serde_json::from_slice::<Value>(&answer.body) else { continue };
                let value = found["data"]["result"][0]["value"][1].as_str().and_then(|value| value.parse().ok());
                if let Some(value) = value.filter(|value| ready(*value)) {
                    return value;
                }
            }
        })
        .await
    }

    /// What it says of its last scrape of the gateway: nothing where all was well.
    pub async fn complaint(&self) -> String {
        let targets = client::get(&format!("{}/api/v1/targets", self.base)).await.json();
        targets["data"]["activeTargets"][0]["lastError"].as_str().unwrap_or("no target").to_owned()
    }
}

fn missing(program: &str, error: &std::io::Error) {
    eprintln!("no {program}: {error} (Debian: the package prometheus); its test is left out");
}
