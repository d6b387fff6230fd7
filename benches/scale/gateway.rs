//! The gateway as a process of its own, with its processor time, memory and page of metrics.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Time limit for the start, which reads 100,000 keys.
const START: Duration = Duration::from_mins(2);

/// A running gateway, ended on drop.
pub(crate) struct Gateway {
    /// Address of its API.
    pub(crate) listen: SocketAddr,
    /// Time until it was ready.
    pub(crate) started: Duration,
    admin: SocketAddr,
    process: Child,
    _dir: tempfile::TempDir,
}

impl Gateway {
    /// Starts a gateway with `policy`, and the file of `keys` that it names, on `processors` as `taskset` names them.
    pub(crate) fn start(policy: &str, keys: Option<&str>, processors: &str) -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        let (file, ready) = (dir.path().join("policy.yaml"), dir.path().join("ready.json"));
        fs::write(&file, format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n{policy}"))?;
        if let Some(keys) = keys {
            fs::write(dir.path().join("keys.json"), keys)?;
        }
        let log = File::create(dir.path().join("log"))?;
        let mut command = Command::new("taskset");
        command.args(["-c", processors, env!("CARGO_BIN_EXE_signalbox"), "serve", "--config"]).arg(&file);
        command.arg("--ready-file").arg(&ready).stdout(Stdio::null()).stderr(log);
        let (began, mut process) = (Instant::now(), command.spawn()?);
        while began.elapsed() < START {
            if let Some(bound) = fs::read(&ready).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok()) {
                let address = |of: &str| {
                    let address = bound[of].as_str().and_then(|text| text.parse().ok());
                    address.ok_or_else(|| io::Error::other("no address in the ready file"))
                };
                let (listen, admin) = (address("listen")?, address("admin")?);
                return Ok(Self { listen, admin, started: began.elapsed(), process, _dir: dir });
            }
            if let Some(status) = process.try_wait()? {
                let log = fs::read_to_string(dir.path().join("log"))?;
                return Err(io::Error::other(format!("the gateway exited ({status}): {log}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        process.kill()?;
        Err(io::Error::other("the gateway did not start"))
    }

    /// Processor time used so far, to a hundredth of a second.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        // The name may hold spaces.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
        Duration::from_millis(10 * (ticks(11) + ticks(12)))
    }

    /// Resident memory in MB.
    pub(crate) fn resident(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.unwrap_or(f64::NAN) / 1024.0
    }

    /// Bytes of the page of metrics, and the time to get it.
    pub(crate) fn metrics(&self) -> io::Result<(usize, Duration)> {
        let began = Instant::now();
        let mut stream = TcpStream::connect(self.admin)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
        let mut page = Vec::new();
        stream.read_to_end(&mut page)?;
        Ok((page.len(), began.elapsed()))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
