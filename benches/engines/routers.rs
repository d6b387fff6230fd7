//! Other routers over the same engines, as they are shipped, if the environment names a Python that has them.

use std::{
    env, io,
    net::{SocketAddr, TcpListener},
    process::Stdio,
    time::Duration,
};

use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, sleep},
};

use crate::support::engine::Engine;

/// Name, variable that names the Python, and module of each router.
const ROUTERS: [(&str, &str, &str); 2] = [
    ("sglang-router", "SIGNALBOX_BENCH_SGLANG_ROUTER", "sglang_router.launch_router"),
    ("vllm-router", "SIGNALBOX_BENCH_VLLM_ROUTER", "vllm_router.launch_router"),
];
/// Time limit for a router to start.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// A running router, ended on drop.
pub(crate) struct Router {
    pub name: &'static str,
    address: SocketAddr,
    _process: Child,
}

impl Router {
    /// Starts those that the environment names. Says on stderr which are left out.
    pub(crate) async fn start_all(engines: &[Engine; 2]) -> Vec<Self> {
        let mut routers = Vec::new();
        for (name, variable, module) in ROUTERS {
            let Some(python) = env::var_os(variable) else {
                eprintln!("without {name}: {variable} names no Python");
                continue;
            };
            let mut command = Command::new(python);
            command.args(["-m", module, "--worker-urls"]).args(engines.iter().map(|engine| engine.at("")));
            match Self::start(name, command).await {
                Ok(router) => routers.push(router),
                Err(error) => eprintln!("without {name}: {error}"),
            }
        }
        routers
    }

    /// Base address for clients.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    async fn start(name: &'static str, mut command: Command) -> io::Result<Self> {
        let [address, metrics] = free_ports()?;
        command.args(["--host", "127.0.0.1", "--port"]).arg(address.port().to_string());
        command.arg("--prometheus-port").arg(metrics.port().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let started = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            if let Some(status) = process.try_wait()? {
                return Err(io::Error::other(format!("it exited ({status})")));
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(io::Error::other(format!("it did not start within {START_TIMEOUT:?}")));
            }
            sleep(Duration::from_millis(100)).await;
        }
        Ok(Self { name, address, _process: process })
    }
}

/// Returns two ports that were free a moment ago.
fn free_ports() -> io::Result<[SocketAddr; 2]> {
    let held = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    Ok([held[0].local_addr()?, held[1].local_addr()?])
}
