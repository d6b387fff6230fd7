//! The gateway's binary with a plain policy: pools and one model name; everything else is default.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use tokio::process::{Child, Command};

use crate::site::Topology;

/// Tokens that a policy with hold-back keeps: more than an answer of the catalogue has by any count, so that only the time bounds it.
const HOLD_BACK: usize = 256;
const PATIENCE: Duration = Duration::from_mins(1);

/// A running gateway; it ends with this.
pub(crate) struct Gateway {
    pub(crate) url: String,
    _process: Child,
}

/// The policy of a topology.
pub(crate) fn policy(topology: &Topology) -> String {
    let mut text = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n".to_owned();
    let names: Vec<String> = (0..topology.pools.len()).map(|at| format!("pool{at}")).collect();
    if !topology.callers.is_empty() {
        text += "keys:\n";
    }
    for (at, secret) in topology.callers.iter().enumerate() {
        let hash = blake3::hash(secret.as_bytes()).to_hex();
        writeln!(text, "  - {{ id: caller{at}, hash: \"blake3:{hash}\" }}").expect("text can be written");
    }
    text += "pools:\n";
    for (name, pool) in names.iter().zip(&topology.pools) {
        let urls: Vec<_> = pool.urls.iter().map(|url| format!("\"{url}\"")).collect();
        writeln!(text, "  {name}: {{ model: {}, backends: [{}] }}", pool.model, urls.join(", "))
            .expect("text can be written");
    }
    let (first, rest) = names.split_first().expect("a topology has a pool");
    let fallback = if rest.is_empty() { String::new() } else { format!(", fallback: [{}]", rest.join(", ")) };
    let hold_back = if topology.hold_back { format!(", hold_back: {HOLD_BACK}") } else { String::new() };
    writeln!(text, "models:\n  auto: {{ to: {first}{fallback}{hold_back} }}").expect("text can be written");
    text
}

impl Gateway {
    /// Starts the binary; policy and log stay in `dir`.
    pub(crate) async fn start(binary: &Path, topology: &Topology, dir: &Path) -> io::Result<Self> {
        let file = |kind: &str| -> PathBuf { dir.join(format!("{}.{kind}", topology.id)) };
        let (config, ready) = (file("yaml"), file("ready"));
        fs::write(&config, policy(topology))?;
        fs::remove_file(&ready)
            .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
        let log = fs::File::create(file("log"))?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(&config).arg("--ready-file").arg(&ready);
        command.env_remove("SIGNALBOX_CONFIG").current_dir(dir).stdin(Stdio::null());
        let mut process = command.stdout(log.try_clone()?).stderr(log).kill_on_drop(true).spawn()?;
        let began = tokio::time::Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = process.try_wait()? {
                return Err(io::Error::other(format!("the gateway ended ({status}): see {}", file("log").display())));
            }
            let addresses = fs::read(&ready).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
            if let Some(address) = addresses.as_ref().and_then(|addresses| addresses["listen"].as_str()) {
                return Ok(Self { url: format!("http://{address}"), _process: process });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(io::Error::other("the gateway did not start"))
    }
}

/// Name and version of the binary.
pub(crate) async fn version(binary: &Path) -> io::Result<String> {
    let output = Command::new(binary).arg("--version").output().await?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
