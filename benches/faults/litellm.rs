//! The proxy of `litellm`, installed from Python's package index into the target folder: one process for all topologies, configured for
//! reliability.

use std::{
    fmt::Write,
    fs, io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use tokio::process::{Child, Command};

use crate::{
    caller::{self, Request},
    provider::{Pace, Prefill},
    site::{Pool, Script, Site, Topology},
};

/// Version to install.
pub(crate) const VERSION: &str = "1.106.2";
/// Warm-up requests.
const WARM_UP: usize = 20;
const PATIENCE: Duration = Duration::from_mins(3);

/// Settings for reliability: two retries, fallbacks, the catalogue's idle limit of 30 s for streams, two minutes for
/// whole answers. Cooldowns are the defaults.
const SETTINGS: &str = "litellm_settings: { telemetry: false, drop_params: true, num_retries: 2 }\nrouter_settings:\n  num_retries: 2\n  \
                        timeout: 120\n  stream_timeout: 30\n";

/// A running proxy, killed on drop.
pub(crate) struct Proxy {
    pub(crate) url: String,
    process: Child,
}

/// The model name for clients of a topology.
pub(crate) fn model(topology: &Topology) -> String {
    format!("{}-pool0", topology.id)
}

/// The configuration over all topologies.
fn config(topologies: &[Topology]) -> String {
    let (mut models, mut fallbacks) = ("model_list:\n".to_owned(), Vec::new());
    for topology in topologies {
        // With a single pool, that pool is its own fallback: it gets one more round of attempts.
        let again = topology.pools.len() == 1 && topology.pools[0].urls.len() > 1;
        let pools = topology.pools.iter().chain(again.then(|| &topology.pools[0]));
        let mut names = Vec::new();
        for (at, pool) in pools.enumerate() {
            let name = format!("{}-pool{at}", topology.id);
            for url in &pool.urls {
                let model = pool.model;
                writeln!(
                    models,
                    "  - {{ model_name: {name}, litellm_params: {{ model: openai/{model}, api_base: \"{url}\", api_key: none }} }}"
                )
                .expect("text can be written");
            }
            names.push(name);
        }
        if let [first, rest @ ..] = &names[..]
            && !rest.is_empty()
        {
            fallbacks.push(format!("    - {{ {first}: [{}] }}\n", rest.join(", ")));
        }
    }
    let fallbacks = fallbacks.concat();
    format!("{models}{SETTINGS}  fallbacks:\n{fallbacks}  context_window_fallbacks:\n{fallbacks}")
}

/// Path of the executable, after installing it if necessary.
pub(crate) async fn installed(target: &Path) -> io::Result<PathBuf> {
    let home = target.join("litellm");
    let binary = home.join("bin/litellm");
    let pip = home.join("bin/pip");
    let shown = Command::new(&pip).args(["show", "litellm"]).output().await;
    let is_there =
        shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stdout).contains(&format!("Version: {VERSION}\n")));
    if !is_there {
        eprintln!("installing litellm {VERSION} below {}", home.display());
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home)).await?;
        let wanted = format!("litellm[proxy]=={VERSION}");
        run(Command::new(&pip).args(["install", "--quiet", "--disable-pip-version-check", &wanted])).await?;
    }
    Ok(binary)
}

async fn run(command: &mut Command) -> io::Result<()> {
    let output = command.kill_on_drop(true).output().await?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

impl Proxy {
    /// Starts the proxy; configuration and log stay in `dir`.
    pub(crate) async fn start(binary: &Path, name: &str, topologies: &[Topology], dir: &Path) -> io::Result<Self> {
        let file = |kind: &str| dir.join(format!("{name}.{kind}"));
        // Its first requests are slow: they go to a healthy engine, outside of any measurement.
        let script: Script = Arc::new(|asked| asked.ask.answer(Pace::millis(1, 1), Prefill::Native));
        let site = Site::start(1, script).await;
        let warm = Topology::new("warm", vec![Pool { model: "warm", urls: site.urls() }]);
        let all: Vec<Topology> = topologies.iter().chain([&warm]).cloned().collect();
        fs::write(file("yaml"), config(&all))?;
        let address: SocketAddr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let log = fs::File::create(file("log"))?;
        let mut command = Command::new(binary);
        command
            .arg("--config")
            .arg(file("yaml"))
            .args(["--host", "127.0.0.1", "--port"])
            .arg(address.port().to_string());
        command.envs([
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("LITELLM_LOG", "ERROR"),
            ("LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY", "true"),
        ]);
        command.current_dir(dir).process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.kill_on_drop(true).spawn()?;
        let mut proxy = Self { url: format!("http://{address}"), process };
        let client = caller::client().map_err(io::Error::other)?;
        let began = tokio::time::Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = proxy.process.try_wait()? {
                return Err(io::Error::other(format!("litellm ended ({status}): see {}", file("log").display())));
            }
            let alive = client.get(format!("{}/health/liveliness", proxy.url)).send().await;
            if alive.is_ok_and(|answer| answer.status().is_success()) {
                for number in 0..WARM_UP {
                    caller::ask(&client, &proxy.request(&warm, number)).await;
                }
                return Ok(proxy);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Err(io::Error::other("litellm did not start"))
    }
}

impl Proxy {
    fn request(&self, topology: &Topology, number: usize) -> Request {
        Request {
            url: self.url.clone(),
            model: model(topology),
            key: None,
            case: number.to_string(),
            tokens: 10,
            stream: number.is_multiple_of(2),
            most: None,
            more: serde_json::Value::Null,
            patience: PATIENCE,
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its children too: the shell's own `kill` reaches the whole group without unsafe code.
        if let Some(id) = self.process.id() {
            std::process::Command::new("sh").args(["-c", &format!("kill -KILL -{id}")]).status().ok();
        }
    }
}
