//! An engine in its own process, so that it can be killed or stopped. It behaves like a vLLM server, `continue_final_message` and
//! `/metrics` included, and writes a line to stdout for each request.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::{
    mock::Mock,
    provider::{Ask, Pace, Prefill},
    site::Log,
};

/// Speed of answers, except for requests named [`SHORT`].
const PACE: Pace = Pace::millis(50, 150);
/// Prefix of the names of requests that are answered fast.
pub(crate) const SHORT: &str = "short";

/// Runs as an engine until stdin ends.
pub(crate) async fn serve() -> io::Result<()> {
    let decide = |seen: &crate::mock::Seen| {
        let ask = Ask::of(seen);
        {
            let mut out = io::stdout().lock();
            // A closed pipe means that the bench is gone, and this process ends soon.
            writeln!(out, "{} {}", ask.model, ask.case).and_then(|()| out.flush()).ok();
        }
        let pace = if ask.case.starts_with(SHORT) { Pace::millis(20, 10) } else { PACE };
        ask.answer(pace, Prefill::Flagged)
    };
    let mock = Mock::start(decide).await;
    mock.set_vllm(0, 0, 0.0);
    writeln!(io::stdout(), "{}", mock.addr())?;
    // The bench is gone when stdin ends.
    let mut gone = tokio::task::spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new()));
    loop {
        tokio::select! {
            _ = &mut gone => return Ok(()),
            () = tokio::time::sleep(Duration::from_millis(200)) => {
                let running = mock.under_way() as u32;
                mock.set_vllm(running, 0, f64::from(running.min(200)) / 400.0);
            }
        }
    }
}

/// A running engine process, killed on drop.
pub(crate) struct Worker {
    child: Mutex<Child>,
    pub(crate) address: SocketAddr,
}

impl Worker {
    /// Starts an engine; its requests are recorded in `log`.
    pub(crate) async fn start(log: &Log) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--engine").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("the engine's process says nothing");
        let mut lines = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        let first = lines.next_line().await?.ok_or_else(missing)?;
        let address = first.parse().map_err(io::Error::other)?;
        tokio::spawn(listen(lines, log.clone()));
        Ok(Self { child: Mutex::new(child), address })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Running requests, by its metrics.
    pub(crate) async fn running(&self, client: &reqwest::Client) -> usize {
        let metrics = client.get(format!("http://{}/metrics", self.address)).send();
        let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(2), metrics).await else { return 0 };
        let text = answer.text().await.unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("vllm:num_requests_running{"));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).unwrap_or_default() as usize
    }

    /// `kill -9`.
    pub(crate) fn kill(&self) -> io::Result<()> {
        self.child.lock().expect("the process's lock").start_kill()
    }

    /// Sends SIGSTOP: the address still accepts connections, and nothing is ever answered.
    pub(crate) fn stop(&self) -> io::Result<()> {
        let id = self.child.lock().expect("the process's lock").id();
        let id = id.ok_or_else(|| io::Error::other("the engine's process is gone"))?;
        // The shell's own `kill`: no unsafe code.
        let status = std::process::Command::new("sh").args(["-c", &format!("kill -STOP {id}")]).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other("SIGSTOP could not be sent")) }
    }
}

async fn listen(mut lines: Lines<BufReader<ChildStdout>>, log: Log) {
    while let Ok(Some(line)) = lines.next_line().await {
        let (model, case) = line.split_once(' ').unwrap_or((&line, ""));
        log.add(model, case);
    }
}

/// Engines of one model.
pub(crate) struct Processes {
    pub(crate) workers: Vec<Worker>,
    pub(crate) log: Log,
}

impl Processes {
    pub(crate) async fn start(size: usize) -> io::Result<Arc<Self>> {
        let log = Log::default();
        let mut workers = Vec::new();
        for _ in 0..size {
            workers.push(Worker::start(&log).await?);
        }
        Ok(Arc::new(Self { workers, log }))
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.workers.iter().map(Worker::url).collect()
    }
}
