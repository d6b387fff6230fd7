//! The gateway as a process, with its memory, descriptors and metrics.

use std::{
    error::Error,
    fs, io,
    process::{Child, Command, Stdio},
    sync::atomic::Ordering::Relaxed,
    time::Duration,
};

use serde_json::Value;
use tokio::time::sleep;

use crate::engine::Engine;

fn text(pools: &str) -> String {
    format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npools: {pools}\n")
}

/// A running gateway, ended on drop.
pub(crate) struct Gateway {
    /// URL of chat completions.
    pub(crate) url: String,
    metrics: String,
    client: reqwest::Client,
    process: Child,
    dir: tempfile::TempDir,
}

impl Gateway {
    /// Starts the gateway with the `pools` of a policy.
    pub(crate) async fn start(pools: &str, client: reqwest::Client) -> Result<Self, Box<dyn Error>> {
        let dir = tempfile::tempdir()?;
        let (policy, ready) = (dir.path().join("policy.yaml"), dir.path().join("ready.json"));
        fs::write(&policy, text(pools))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_signalbox"));
        command.arg("serve").arg("--config").arg(&policy).arg("--ready-file").arg(&ready);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        for _ in 0..500 {
            if let Some(bound) = fs::read(&ready).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok()) {
                let address = bound["listen"].as_str().ok_or("no address in the ready file")?;
                let url = format!("http://{address}/v1/chat/completions");
                let metrics = format!("http://{address}/metrics");
                return Ok(Self { url, metrics, client, process, dir });
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(io::Error::other("the gateway did not start").into())
    }

    /// Rewrites the policy with other `pools`.
    pub(crate) fn rewrite(&self, pools: &str) -> io::Result<()> {
        fs::write(self.dir.path().join("policy.yaml"), text(pools))
    }

    /// Sums the metric `name` over series whose labels contain `label`.
    pub(crate) async fn count(&self, name: &str, label: &str) -> f64 {
        let Ok(answer) = self.client.get(&self.metrics).send().await else { return f64::NAN };
        let text = answer.text().await.unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    }

    /// Sends SIGTERM and waits for the end; true if the exit status is success.
    pub(crate) fn terminate(&mut self) -> io::Result<bool> {
        Command::new("kill").arg(self.process.id().to_string()).status()?;
        Ok(self.process.wait()?.success())
    }

    /// Resident memory in MB.
    pub(crate) fn resident(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.unwrap_or(f64::NAN) / 1024.0
    }

    /// Open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id())).map_or(0, Iterator::count)
    }

    /// Waits up to a minute until nothing is under way; returns the number of non-zero counters and of connections to the engine.
    pub(crate) async fn settle(&self, engine: &Engine) -> (usize, usize) {
        let mut found = (usize::MAX, usize::MAX);
        for _ in 0..60 {
            found = (self.pending().await, engine.connections.load(Relaxed));
            if found == (0, 0) {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
        found
    }

    /// Counts non-zero counters of work under way.
    async fn pending(&self) -> usize {
        const COUNTERS: [&str; 6] = [
            "signalbox_in_flight",
            "signalbox_backend_in_flight",
            "signalbox_backend_queued",
            "signalbox_backend_decoding",
            "signalbox_backend_context",
            "signalbox_queue_depth",
        ];
        let Ok(answer) = self.client.get(&self.metrics).send().await else { return usize::MAX };
        let text = answer.text().await.unwrap_or_default();
        let counted = |line: &&str| COUNTERS.iter().any(|name| line.starts_with(name)) && !line.ends_with(" 0");
        text.lines().filter(counted).count()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
