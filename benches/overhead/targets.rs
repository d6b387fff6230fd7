//! Targets of the requests: the engines directly, the gateway, and the proxies to compare with, each a process of its own.

use std::{
    env, fs, io,
    net::{SocketAddr, TcpListener},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    client::{Connection, request},
    engine::Kind,
};

/// Variable that names an executable `litellm`.
const LITELLM: &str = "SIGNALBOX_BENCH_LITELLM";
/// Variable that names another build of the gateway.
const OTHER: &str = "SIGNALBOX_BENCH_OTHER";
/// Variables that name a Python with the package `sglang-router`, and one with `vllm-router`.
const SGLANG: &str = "SIGNALBOX_BENCH_SGLANG_ROUTER";
const VLLM: &str = "SIGNALBOX_BENCH_VLLM_ROUTER";
/// Variable with the number of the processor that each proxy is bound to.
const CORE: &str = "SIGNALBOX_BENCH_CORE";

/// Parts of a pool, and of the policy, for the runs with a journal.
const PRICE_AND_OBJECTIVES: &str =
    "price: { input: 1, output: 2 }, objectives: [{ ttft: { p95: 1500ms } }, { tpot: { p95: 50ms } }], ";
const JOURNAL: &str = "journal: { path: journal.jsonl }\n";
const FACTS: &str = "journal: { path: facts.jsonl, facts: on }\n";

/// A target of requests.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Address for each of [`Kind::ALL`].
    pub(crate) addresses: [SocketAddr; 3],
    /// Address of its admin listener.
    pub(crate) admin: Option<SocketAddr>,
    process: Option<Group>,
}

impl Target {
    pub(crate) fn direct(engines: [SocketAddr; 3]) -> Self {
        Self { name: "direct", addresses: engines, admin: None, process: None }
    }

    pub(crate) fn address(&self, kind: Kind) -> SocketAddr {
        self.addresses[kind as usize]
    }

    /// Processor time used so far; `None` for the direct target.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        self.process.as_ref().map(Group::cpu)
    }

    /// Starts the gateway of this build, with one pool per kind.
    pub(crate) fn gateway(engines: [SocketAddr; 3], dir: &Path) -> io::Result<Self> {
        Self::built("signalbox", env!("CARGO_BIN_EXE_signalbox"), "", engines, dir)
    }

    /// Starts the same with a journal, prices and objectives, and optionally with `facts` of each prompt.
    pub(crate) fn journaling(engines: [SocketAddr; 3], dir: &Path, facts: bool) -> io::Result<Self> {
        let (name, journal) =
            if facts { ("signalbox, journal with facts", FACTS) } else { ("signalbox, journal", JOURNAL) };
        Self::built(name, env!("CARGO_BIN_EXE_signalbox"), journal, engines, dir)
    }

    /// Starts another build of the gateway, to compare it in the same run.
    pub(crate) fn other(engines: [SocketAddr; 3], dir: &Path) -> Result<Self, String> {
        let binary = env::var(OTHER).map_err(|_| format!("{OTHER} names no executable"))?;
        Self::built("other build", &binary, "", engines, dir).map_err(|error| error.to_string())
    }

    fn built(
        name: &'static str,
        binary: &str,
        journal: &str,
        engines: [SocketAddr; 3],
        dir: &Path,
    ) -> io::Result<Self> {
        let extra = if journal.is_empty() { "" } else { PRICE_AND_OBJECTIVES };
        let file = |kind: &str| dir.join(name.replace([' ', ','], "-")).with_extension(kind);
        let (policy, ready) = (file("yaml"), file("json"));
        let pools = each(engines, |name, engine| {
            format!("  {name}: {{ {extra}model: {name}, backends: [\"http://{engine}/v1\"] }}\n")
        });
        fs::write(&policy, format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n{journal}pools:\n{pools}"))?;
        let mut command = Command::new(binary);
        command.arg("serve").args([Path::new("--config"), &policy, Path::new("--ready-file"), &ready]);
        let mut process = Group::start(command, dir, name)?;
        let text = wait(name, &mut process, || fs::read(&ready).ok())?;
        let bound: Value = serde_json::from_slice(&text)?;
        let address = |of: &str| bound[of].as_str().and_then(|text| text.parse().ok());
        let listen = address("listen").ok_or_else(|| io::Error::other("no address in the ready file"))?;
        Ok(Self { name, addresses: [listen; 3], admin: address("admin"), process: Some(process) })
    }

    /// Starts nginx as a plain reverse proxy, if it is installed.
    pub(crate) fn nginx(engines: [SocketAddr; 3], dir: &Path) -> Result<Self, String> {
        let binary =
            ["nginx", "/usr/sbin/nginx"].into_iter().find(|name| Command::new(name).arg("-v").output().is_ok());
        let binary = binary.ok_or("nginx is not on PATH")?;
        let addresses = free_ports().map_err(|error| error.to_string())?;
        let mut own = addresses.iter();
        let servers = each(engines, |name, engine| {
            let own = own.next().expect("an address for each");
            format!(
                "  upstream {name} {{ server {engine}; keepalive 128; keepalive_requests 100000000; }}\n  \
                 server {{ listen {own}; location / {{ proxy_pass http://{name}; }} }}\n"
            )
        });
        let workers = if env::var(CORE).is_ok() { "1" } else { "auto" };
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("  {kind}_temp_path {}/{kind};\n", dir.display()))
            .concat();
        let text = format!(
            "worker_processes {workers};\npid {}/nginx.pid;\nerror_log stderr warn;\nevents {{ worker_connections 1024; }}\nhttp {{\n  \
             access_log off;\n  tcp_nodelay on;\n  keepalive_requests 100000000;\n  client_max_body_size 64m;\n  \
             client_body_buffer_size 1m;\n  proxy_http_version 1.1;\n  proxy_set_header Connection \"\";\n  \
             proxy_buffering off;\n{temporary}{servers}}}\n",
            dir.display()
        );
        let start = || {
            let config = dir.join("nginx.conf");
            fs::write(&config, text)?;
            let mut command = Command::new(binary);
            command.arg("-c").arg(config).arg("-p").arg(dir).args(["-g", "daemon off;"]);
            let mut process = Group::start(command, dir, "nginx")?;
            wait("nginx", &mut process, || std::net::TcpStream::connect(addresses[0]).ok())?;
            Ok(Self { name: "nginx", addresses, admin: None, process: Some(process) })
        };
        start().map_err(|error: io::Error| error.to_string())
    }

    /// Starts `HAProxy` as a plain reverse proxy, if it is installed.
    pub(crate) fn haproxy(engines: [SocketAddr; 3], dir: &Path) -> Result<Self, String> {
        let binary =
            ["haproxy", "/usr/sbin/haproxy"].into_iter().find(|name| Command::new(name).arg("-v").output().is_ok());
        let binary = binary.ok_or("haproxy is not on PATH")?;
        let addresses = free_ports().map_err(|error| error.to_string())?;
        let mut own = addresses.iter();
        let proxies = each(engines, |name, engine| {
            let own = own.next().expect("an address for each");
            format!(
                "frontend to-{name}\n  bind {own}\n  default_backend {name}\nbackend {name}\n  server engine {engine}\n"
            )
        });
        let threads = if env::var(CORE).is_ok() { "  nbthread 1\n" } else { "" };
        let text = format!(
            "global\n  maxconn 4096\n{threads}defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
             timeout server 60s\n  http-reuse always\n{proxies}"
        );
        let start = || {
            let config = dir.join("haproxy.cfg");
            fs::write(&config, text)?;
            let mut command = Command::new(binary);
            command.arg("-db").arg("-f").arg(config);
            let mut process = Group::start(command, dir, "haproxy")?;
            wait("haproxy", &mut process, || std::net::TcpStream::connect(addresses[0]).ok())?;
            Ok(Self { name: "haproxy", addresses, admin: None, process: Some(process) })
        };
        start().map_err(|error: io::Error| error.to_string())
    }

    /// Starts sglang-router, one process for each kind, if the environment names a Python that has it.
    pub(crate) fn sglang_router(engines: [SocketAddr; 3], dir: &Path) -> Result<Self, String> {
        Self::router("sglang-router", SGLANG, "sglang_router.launch_router", engines, dir)
    }

    /// Starts vllm-router, one process for each kind, if the environment names a Python that has it.
    pub(crate) fn vllm_router(engines: [SocketAddr; 3], dir: &Path) -> Result<Self, String> {
        Self::router("vllm-router", VLLM, "vllm_router.launch_router", engines, dir)
    }

    fn router(
        name: &'static str,
        variable: &str,
        module: &str,
        engines: [SocketAddr; 3],
        dir: &Path,
    ) -> Result<Self, String> {
        let python = env::var(variable).map_err(|_| format!("{variable} names no Python"))?;
        let start = || {
            let [a, b, c, metrics @ ..] = free_ports::<6>()?;
            let addresses = [a, b, c];
            let mut own = addresses.iter().zip(metrics);
            let all = each(engines, |_, engine| {
                let (port, metrics) = own.next().map_or((0, 0), |(own, metrics)| (own.port(), metrics.port()));
                format!(
                    "'{python}' -m {module} --worker-urls http://{engine} --host 127.0.0.1 --port {port} --policy round_robin \
                     --prometheus-port {metrics} & "
                )
            });
            let mut command = Command::new("sh");
            command.arg("-c").arg(all + "wait");
            let mut process = Group::start(command, dir, name)?;
            for address in addresses {
                wait(name, &mut process, || std::net::TcpStream::connect(address).ok())?;
            }
            Ok(Self { name, addresses, admin: None, process: Some(process) })
        };
        start().map_err(|error: io::Error| error.to_string())
    }

    /// Starts the proxy of `litellm`, if the environment names it.
    pub(crate) fn litellm(engines: [SocketAddr; 3], dir: &Path) -> Result<Self, String> {
        let binary = env::var(LITELLM).map_err(|_| format!("{LITELLM} names no executable"))?;
        let start = || {
            let models = each(engines, |name, engine| {
                format!(
                    "  - model_name: {name}\n    litellm_params: {{ model: openai/{name}, api_base: \"http://{engine}/v1\", api_key: none }}\n"
                )
            });
            let config = dir.join("litellm.yaml");
            fs::write(&config, format!("model_list:\n{models}litellm_settings: {{ telemetry: false }}\n"))?;
            let [address] = free_ports()?;
            let workers = thread::available_parallelism()?.to_string();
            let mut command = Command::new(binary);
            command.arg("--config").arg(config).args(["--host", "127.0.0.1", "--port"]).arg(address.port().to_string());
            command.args(["--num_workers", &workers]);
            command.envs([
                ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
                ("LITELLM_LOG", "ERROR"),
                ("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true"),
            ]);
            let mut process = Group::start(command, dir, "litellm")?;
            wait("litellm", &mut process, || std::net::TcpStream::connect(address).ok())?;
            Ok(Self { name: "litellm", addresses: [address; 3], admin: None, process: Some(process) })
        };
        start().map_err(|error: io::Error| error.to_string())
    }

    /// Waits until the target answers every kind as the engine does.
    pub(crate) async fn check(&self) -> io::Result<()> {
        for kind in Kind::ALL {
            let request = request(kind.model(), kind.streams(), 100);
            let started = Instant::now();
            loop {
                let answered = async {
                    let mut connection = Connection::open(self.address(kind)).await?;
                    connection.exchange(&request).await?;
                    Ok::<_, io::Error>(connection.events())
                };
                match answered.await {
                    Ok(events) if events >= kind.tokens() => break,
                    Ok(events) => return Err(io::Error::other(format!("{} lost events: {events} arrived", self.name))),
                    Err(error) if started.elapsed() > START_TIMEOUT => return Err(error),
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        }
        Ok(())
    }
}

/// Concatenates a text per kind, made from its model and address.
fn each(addresses: [SocketAddr; 3], mut text: impl FnMut(&str, SocketAddr) -> String) -> String {
    let texts: Vec<_> = Kind::ALL.iter().zip(addresses).map(|(kind, address)| text(kind.model(), address)).collect();
    texts.concat()
}

/// Time limit for a process to start.
const START_TIMEOUT: Duration = Duration::from_mins(2);

fn wait<T>(name: &str, process: &mut Group, mut probe: impl FnMut() -> Option<T>) -> io::Result<T> {
    let started = Instant::now();
    while started.elapsed() < START_TIMEOUT {
        if let Some(found) = probe() {
            return Ok(found);
        }
        if let Some(status) = process.0.try_wait()? {
            return Err(io::Error::other(format!("{name} exited ({status})")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(io::Error::other(format!("{name} did not start within {START_TIMEOUT:?}")))
}

/// Returns different ports that were free a moment ago.
fn free_ports<const N: usize>() -> io::Result<[SocketAddr; N]> {
    let held = (0..N).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<Vec<_>>>()?;
    let mut addresses = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    for (address, held) in addresses.iter_mut().zip(held) {
        *address = held.local_addr()?;
    }
    Ok(addresses)
}

/// A process group, ended together.
struct Group(Child);

impl Group {
    fn start(command: Command, dir: &Path, name: &str) -> io::Result<Self> {
        let mut command = bound(command);
        let log = fs::File::create(dir.join(name).with_extension("log"))?;
        let command = command.process_group(0).current_dir(dir).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log).spawn().map(Self)
    }

    /// Processor time of all its processes, to a hundredth of a second.
    fn cpu(&self) -> Duration {
        let group = self.0.id().to_string();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ticks = processes.filter_map(|process| {
            let stat = fs::read_to_string(process.path().join("stat")).ok()?;
            // The name may hold spaces; state, parent and group follow it.
            let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
            (fields.get(2) == Some(&group.as_str())).then(|| Some(ticks(11)? + ticks(12)?))?
        });
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }
}

/// The command, bound to the processor that the environment names.
fn bound(command: Command) -> Command {
    let Ok(core) = env::var(CORE) else { return command };
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", &core]).arg(command.get_program()).args(command.get_args());
    pinned.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    pinned
}

impl Drop for Group {
    fn drop(&mut self) {
        // The shell's own `kill` reaches the whole group without unsafe code.
        let command = format!("kill -TERM -{}", self.0.id());
        Command::new("sh").args(["-c", &command]).status().ok();
        let started = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && started.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(20));
        }
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
