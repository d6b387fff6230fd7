//! Runs the gateway binary in a folder of its own, with a policy or with simulated engines; killed on drop.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
};

use super::{PATIENCE, client, until, within};

/// A running gateway.
pub struct Gateway {
    child: Child,
    log: Log,
    dir: TempDir,
    listen: SocketAddr,
    admin: SocketAddr,
}

/// Start options of a gateway.
pub struct Start {
    /// Text of the policy file, if there is one.
    policy: Option<String>,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    /// The most descriptors that the process may open.
    descriptors: Option<u32>,
}

/// Output on stdout and stderr, line by line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Start {
    /// Starts with this policy; `listen` and `admin` default to free ports.
    pub fn with(policy: &str) -> Self {
        Self { policy: Some(whole(policy)), args: Vec::new(), envs: Vec::new(), descriptors: None }
    }

    /// Starts without a policy file on free ports, with engines found on this machine or simulated ones.
    pub fn bare() -> Self {
        let args = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"].map(str::to_owned).to_vec();
        Self { policy: None, args, envs: Vec::new(), descriptors: None }
    }

    /// Starts without a policy file, with the built-in simulated engines.
    pub fn simulated() -> Self {
        Self::bare().arg("--simulate")
    }

    /// Adds an argument of `signalbox serve`.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.envs.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Limits the descriptors that the process may open.
    pub fn descriptors(mut self, most: u32) -> Self {
        self.descriptors = Some(most);
        self
    }

    /// Starts the gateway and waits until it accepts connections.
    pub async fn start(self) -> Gateway {
        self.attempt().await.unwrap_or_else(|log| panic!("the gateway did not start:\n{log}"))
    }

    /// Starts the gateway; returns its output if it ends before it is ready.
    pub async fn attempt(self) -> Result<Gateway, String> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (config, ready) = (dir.path().join("policy.yaml"), dir.path().join("ready.json"));
        let mut command = match self.descriptors {
            None => Command::new(env!("CARGO_BIN_EXE_signalbox")),
            Some(most) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {most} && exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_signalbox")]);
                shell
            }
        };
        command.arg("serve").arg("--ready-file").arg(&ready).args(&self.args).env_remove("SIGNALBOX_CONFIG");
        if let Some(policy) = &self.policy {
            std::fs::write(&config, policy).expect("the policy is written");
            command.arg("--config").arg(&config);
        }
        let mut child = command
            .current_dir(dir.path())
            .envs(self.envs)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the gateway's binary runs");
        let log = Log::default();
        let readers = [
            log.follow(child.stdout.take().expect("a piped stdout")),
            log.follow(child.stderr.take().expect("a piped stderr")),
        ];
        let addresses = tokio::select! {
            addresses = read_when_there(&ready) => addresses,
            status = child.wait() => {
                for reader in readers {
                    reader.await.ok();
                }
                let status = status.expect("its exit status");
                return Err(format!("{}[ended with {status}]", log.text()));
            }
        };
        let Some(addresses) = addresses else {
            return Err(format!("{}[no ready file after {PATIENCE:?}]", log.text()));
        };
        let address = |key: &str| {
            let text = addresses[key].as_str().unwrap_or_else(|| panic!("`{key}` in the ready file: {addresses}"));
            text.parse::<SocketAddr>().expect("an address in the ready file")
        };
        let (listen, admin) = (address("listen"), address("admin"));
        Ok(Gateway { child, log, dir, listen, admin })
    }
}

impl Gateway {
    /// Starts a gateway with this policy and waits until it accepts connections.
    pub async fn start(policy: &str) -> Self {
        Start::with(policy).start().await
    }

    /// Address for clients.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Base address for clients: `http://127.0.0.1:PORT/v1`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.listen)
    }

    /// Address of a path for clients, such as `/v1/chat/completions`.
    pub fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.listen)
    }

    /// Address of a path for operators, such as `/admin/state`.
    pub fn admin(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    /// Working directory, where journals are written.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Path of the policy file.
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("policy.yaml")
    }

    /// Replaces the policy file atomically, by a rename.
    pub fn rewrite(&self, policy: &str) {
        let draft = self.dir.path().join("policy.draft");
        std::fs::write(&draft, whole(policy)).expect("the policy is written");
        std::fs::rename(draft, self.config()).expect("the policy is put in place");
    }

    /// Output on stdout and stderr so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Waits until the output contains `text`.
    pub async fn wait_log(&self, text: &str) {
        until(&format!("the gateway to log {text:?}"), async || self.log().contains(text)).await;
    }

    /// Reads `/metrics` as a map from `name{labels}` to the value.
    pub async fn metrics(&self) -> Metrics {
        let answer = client::get(&self.admin("/metrics")).await;
        assert!(answer.status.is_success(), "/metrics returned {}", answer.status);
        Metrics::parse(&answer.text())
    }

    /// Polls `/metrics` until `ready` is true, for values that are settled shortly after an answer ends.
    pub async fn wait_metrics(&self, what: &str, ready: impl Fn(&Metrics) -> bool) -> Metrics {
        let mut last = Metrics::default();
        until(what, async || {
            last = self.metrics().await;
            ready(&last)
        })
        .await;
        last
    }

    /// Reads a JSON document from the admin listener.
    pub async fn get_json(&self, path: &str) -> Value {
        client::get(&self.admin(path)).await.json()
    }

    /// Waits until the request with this id is settled and returns its decision.
    pub async fn decision(&self, id: &str) -> Value {
        let path = format!("/admin/decisions/{id}");
        until("the decision", async || self.get_json(&path).await["id"] == *id).await;
        self.get_json(&path).await
    }

    /// Sends SIGTERM: drains and ends.
    pub fn sigterm(&self) {
        self.signal("TERM");
    }

    /// Sends SIGHUP: reloads the policy.
    pub fn sighup(&self) {
        self.signal("HUP");
    }

    /// Waits until it exits by itself.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        within("the gateway to end", self.child.wait()).await.expect("its exit status")
    }

    /// Sends SIGKILL.
    pub fn sigkill(&self) {
        self.signal("KILL");
    }

    /// Sends SIGKILL and waits for the exit.
    pub async fn kill(&mut self) {
        self.sigkill();
        self.wait_exit().await;
    }

    /// Process id while it runs.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("the gateway still runs")
    }

    /// Sends a signal by its name, such as `USR1`.
    pub fn signal(&self, name: &str) {
        let pid = self.pid();
        // The shell's own `kill`: no unsafe code, and no program that might be missing.
        let sent = std::process::Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        assert!(sent.is_ok_and(|status| status.success()), "SIG{name} could not be sent");
    }
}

/// Appends missing addresses on free ports to a policy, at the end so that line numbers stay the same.
fn whole(policy: &str) -> String {
    let named = |key: &str| policy.lines().any(|line| line.starts_with(key));
    let free = ["listen:", "admin:"].into_iter().filter(|key| !named(key));
    free.fold(format!("{policy}\n"), |text, key| text + key + " 127.0.0.1:0\n")
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the gateway's log ---\n{}--- end of log ---", self.log.text());
        }
    }
}

impl Log {
    fn follow(&self, from: impl AsyncRead + Unpin + Send + 'static) -> tokio::task::JoinHandle<()> {
        let log = self.clone();
        let mut lines = BufReader::new(from).lines();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut text = log.0.lock().expect("the log's lock");
                text.push_str(&line);
                text.push('\n');
            }
        })
    }

    fn text(&self) -> String {
        self.0.lock().expect("the log's lock").clone()
    }
}

/// Waits for a JSON file and reads it; `None` after [`PATIENCE`].
async fn read_when_there(path: &Path) -> Option<Value> {
    let reading = async {
        let mut tick = tokio::time::interval(Duration::from_millis(5));
        loop {
            tick.tick().await;
            if let Ok(bytes) = tokio::fs::read(path).await {
                return serde_json::from_slice(&bytes).expect("the ready file is JSON from its first moment");
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.ok()
}

/// Samples of a `/metrics` text by `name{labels}`, as written.
#[derive(Clone, Debug, Default)]
pub struct Metrics(pub BTreeMap<String, f64>);

impl Metrics {
    /// Parses the text format of Prometheus or `OpenMetrics`.
    pub fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            // Labels may contain spaces: the value follows the closing brace, or the name.
            let split = line.rfind('}').map(|at| at + 1).or_else(|| line.find(' '))?;
            let value = line[split..].split_whitespace().next()?.parse().ok()?;
            Some((line[..split].to_owned(), value))
        });
        Self(samples.collect())
    }

    /// Sums all samples of this name whose labels contain each of `labels` (`pool="a"`); 0 if there is none.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let matching = self.0.iter().filter(|(key, _)| {
            let (base, rest) = key.split_once('{').unwrap_or((key, ""));
            base == name && labels.iter().all(|label| rest.contains(label))
        });
        matching.map(|(_, value)| value).sum()
    }
}
