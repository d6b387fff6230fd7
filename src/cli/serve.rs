//! `signalbox serve`: runs the gateway.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use tokio::runtime::Handle;

use super::{loaded_texts::LoadedTexts, log_filter, operator::token_from_env, output, sources};
use signalbox_config::{Mistake, Proxies, is_standard_input, read_url};
use signalbox_policy::{self as policy, Policy, Pool, Secret};
use signalbox_server::{self as server, Bound, Loader, Options, PolicyText};
use signalbox_sim as sim;
use signalbox_types::Name;
use signalbox_upstream::{Client, discover};

/// Arguments.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The policy file, or `-` for the standard input [env: `SIGNALBOX_CONFIG`]; without one, engines on this machine are discovered
    #[arg(long, short)]
    config: Option<PathBuf>,
    /// The policy file, as `--config` names it
    #[arg(value_name = "POLICY", conflicts_with = "config")]
    policy: Option<PathBuf>,
    /// Run simulated engines: the built-in ones, or one for each engine of the policy file
    #[arg(long)]
    simulate: bool,
    /// Observe the gateway at this address: pass everything through unchanged, and record what the policy would have done
    #[arg(long, value_name = "URL", value_parser = address, conflicts_with = "simulate")]
    observe: Option<String>,
    /// Address for clients, in place of the policy's
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Address for operators, in place of the policy's
    #[arg(long)]
    admin: Option<SocketAddr>,
    /// Write {"listen": …, "admin": …} to this file when requests are accepted
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Log as JSON lines
    #[arg(long)]
    log_json: bool,
}

/// Source of the policy, and the engines behind the gateway.
enum Behind {
    Policy(PathBuf),
    /// A policy over simulated engines.
    Substitutes(PathBuf, Arc<sim::Substitutes>),
    Found(Vec<policy::Found>),
    /// An existing gateway, without a policy.
    Observed,
    /// Dropping `engines` stops them.
    Simulated {
        #[expect(dead_code, reason = "held so that the engines live as long as the gateway")]
        engines: Vec<sim::Group>,
        /// True if `--simulate` asked for them, false if no real engine was found.
        is_asked: bool,
    },
}

pub(super) fn serve(args: Args) -> io::Result<ExitCode> {
    let json = args.log_json;
    if json {
        output::write_plain();
    }
    let served = serve_logged(args);
    served.or_else(|error| {
        output::fail(&format!("signalbox: {error}\n"), json);
        Ok(ExitCode::FAILURE)
    })
}

fn serve_logged(args: Args) -> io::Result<ExitCode> {
    let asked = std::env::var_os("SIGNALBOX_LOG");
    let filter = log_filter::read(asked.as_ref().map(|text| text.to_string_lossy()).as_deref());
    let filter = filter.map_err(io::Error::other)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(output::in_colour())
        .with_target(false);
    // Fails only for a second subscriber in one process.
    let _ = if args.log_json { log.json().try_init() } else { log.try_init() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(args))
}

async fn run(args: Args) -> io::Result<ExitCode> {
    server::survive_user_signals()?;
    let texts = LoadedTexts::default();
    let (policy, behind) = match Box::pin(choose(&args, &texts)).await {
        Ok(chosen) => chosen,
        Err(problem) => {
            output::fail(&problem, args.log_json);
            return Ok(ExitCode::FAILURE);
        }
    };
    let source = source(&behind, args.given(), texts);
    if policy.simulated {
        tracing::warn!("simulation: engines are simulated, every answer is made up");
    }
    log_proxies(&Proxies::of_process());
    let banner = banner(&policy, &behind);
    let Args { ready_file, log_json, .. } = args;
    let ready = Box::new(move |bound: Bound| {
        tracing::info!(listen = %bound.listen, admin = ?bound.admin, "server: ready");
        // JSON logs are for machines, which do not need the banner.
        if !log_json {
            output::complain(&banner(bound));
        }
        ready_file.map_or(Ok(()), |file| write_ready(&file, bound))
    });
    match server::run(Options { policy, source, ready }).await {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) => {
            output::fail(&format!("signalbox: {error}\n"), log_json);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// File and loader of the policy, if it has a file.
fn source(behind: &Behind, given: Given, texts: LoadedTexts) -> Option<(PathBuf, Loader)> {
    let (file, engines) = match behind {
        Behind::Policy(file) | Behind::Substitutes(file, _) if is_standard_input(file) => return None,
        Behind::Policy(file) => (file, None),
        Behind::Substitutes(file, engines) => (file, Some(engines.clone())),
        Behind::Found(_) | Behind::Simulated { .. } | Behind::Observed => return None,
    };
    let (path, runtime) = (file.clone(), Handle::current());
    let loader: Loader = Box::new(move |text| {
        let policy = given.over(texts.load(&path, text)?);
        match &engines {
            Some(engines) => runtime.block_on(substitute(engines, policy)),
            None => Ok(policy),
        }
    });
    Some((file.clone(), loader))
}

async fn choose(args: &Args, texts: &LoadedTexts) -> Result<(Policy, Behind), String> {
    // `--simulate` takes precedence over the environment.
    let from_env = || std::env::var_os("SIGNALBOX_CONFIG").filter(|_| !args.simulate).map(PathBuf::from);
    let given = args.given();
    if let Some(file) = args.config.clone().or_else(|| args.policy.clone()).or_else(from_env) {
        let policy = given.over(texts.load(&file, PolicyText::File)?);
        if !args.simulate {
            return Ok((policy, Behind::Policy(file)));
        }
        let engines = Arc::new(sim::Substitutes::default());
        return Ok((substitute(&engines, policy).await?, Behind::Substitutes(file, engines)));
    }
    let defaults = given.over(Policy::default());
    if given.observe.is_some() {
        return Ok((defaults, Behind::Observed));
    }
    let mut found = Vec::new();
    if !args.simulate {
        let client = Client::new(defaults.timeouts.connect).map_err(|error| format!("signalbox: {error}\n"))?;
        let own: Vec<u16> = [Some(defaults.listen), defaults.admin].into_iter().flatten().map(|it| it.port()).collect();
        found = discover::local(&client, &own).await;
    }
    let (policy, behind) = if found.is_empty() {
        let fleet = sim::fleet().await.map_err(|error| cannot_start(&error))?;
        let urls = |pool: &str| -> Vec<String> {
            let groups = fleet.iter().filter(|group| group.pool == pool);
            groups.flat_map(|group| &group.engines).map(sim::Running::url).collect()
        };
        (
            policy::simulated(&urls("small"), &urls("large"), &urls("long")),
            Behind::Simulated { engines: fleet, is_asked: args.simulate },
        )
    } else {
        (policy::discovered(&found), Behind::Found(found))
    };
    Ok((given.over(policy), behind))
}

/// Logs the proxies of the environment, so that an engine that is not reached through the one it needs, or through one it
/// does not need, is no riddle.
fn log_proxies(proxies: &Proxies) {
    for problem in proxies.problems() {
        tracing::warn!("network: {problem}, it is ignored");
    }
    if !proxies.is_empty() {
        tracing::info!(
            "network: requests take the proxies of the environment, {proxies} (NO_PROXY; loopback never does)"
        );
    }
}

/// Settings from the command line that override the policy.
#[derive(Clone)]
struct Given {
    listen: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    /// Token of operators, if the policy does not set one.
    token: Option<Secret>,
    observe: Option<String>,
}

impl Args {
    fn given(&self) -> Given {
        // A policy without a token requires none, unless it is overridden.
        let token = self.admin.and_then(|_| token_from_env()).map(|token| Secret(token.into()));
        Given { listen: self.listen, admin: self.admin, token, observe: self.observe.clone() }
    }
}

impl Given {
    /// Applies the overrides to `policy`.
    fn over(&self, policy: Policy) -> Policy {
        let mut policy =
            Policy { listen: self.listen.unwrap_or(policy.listen), admin: self.admin.or(policy.admin), ..policy };
        if !policy.admin_access.asks() {
            policy.admin_access.token.clone_from(&self.token);
        }
        match &self.observe {
            Some(url) => policy::observing(policy, url),
            None => policy,
        }
    }
}

/// Parses the address of a gateway.
fn address(text: &str) -> Result<String, String> {
    read_url(text)
        .map_err(|Mistake { message, help, .. }| help.map_or(message.to_string(), |help| format!("{message}: {help}")))
}

async fn substitute(engines: &sim::Substitutes, policy: Policy) -> Result<Policy, String> {
    let policy = sources::simulated(&policy);
    if policy.journal.is_some() || policy.learning.file.is_some() {
        tracing::warn!("simulation: nothing is written to `journal` and `learning.file`, since answers are made up");
    }
    engines.substitute(policy).await.map_err(|error| cannot_start(&error))
}

fn cannot_start(error: &io::Error) -> String {
    format!("signalbox: the simulated engines cannot start: {error}\n")
}

fn write_ready(file: &Path, bound: Bound) -> io::Result<()> {
    let admin = bound.admin.map(|admin| admin.to_string());
    let text = serde_json::json!({ "listen": bound.listen.to_string(), "admin": admin }).to_string();
    // Renamed into place, so that a reader never sees half of it.
    let draft = file.with_extension("draft");
    std::fs::write(&draft, text)?;
    std::fs::rename(&draft, file)
}

/// A prompt that the built-in tiers take for hard, for the second request of the banner.
const HARD: &str = "A train leaves at 9:40 and travels 312 km at 84 km/h with two stops of 6 minutes. If a second train leaves 25 \
                    minutes later at 102 km/h without stops, when and where does it overtake the first? Calculate step by step, \
                    and explain why the answer changes if the second train must wait 4 minutes.";

/// Banner with the policy, the addresses and an example request.
fn banner(policy: &Policy, behind: &Behind) -> impl FnOnce(Bound) -> String + use<> {
    let source = match behind {
        Behind::Policy(file) => format!("the policy {} ({})", file.display(), policy.hash),
        Behind::Substitutes(file, _) => {
            format!("the policy {} ({}) over SIMULATED engines: the answers are made up", file.display(), policy.hash)
        }
        Behind::Found(found) => {
            let found: Vec<_> = found.iter().map(|found| format!("{} at {}", found.name, found.url)).collect();
            format!("found on this machine: {}", found.join(", "))
        }
        Behind::Observed => "no policy".to_owned(),
        Behind::Simulated { is_asked: true, .. } => "SIMULATED engines: the answers are made up".to_owned(),
        Behind::Simulated { .. } => "SIMULATED engines (no real one was found): the answers are made up".to_owned(),
    };
    let shown = match policy.observed.and_then(|pool| policy.pools.get(pool)) {
        Some(pool) => {
            let at = &policy.engines[pool.backends[0].engine].url;
            format!("{at}, OBSERVED: everything passes there unchanged; beside it {source}")
        }
        None => source,
    };
    // The number of backends that are found is not known yet.
    let open = |pool: &Pool| if pool.sources.is_empty() { "" } else { "+" };
    let size = |pool: &Pool| format!("{} ({}{})", pool.name, pool.backends.len(), open(pool));
    let pools: Vec<_> = policy.pools.iter().map(size).collect();
    let pools = pools.join(", ");
    let tried = policy.keys.first().filter(|_| !policy.demo_hashes.is_empty());
    let is_usable = |name: &&Name| tried.is_none_or(|key| key.may_use(name));
    let model = policy.models.names().find(is_usable).map_or_else(|| "auto".to_owned(), ToString::to_string);
    let key = match tried {
        Some(key) => format!("-H 'Authorization: Bearer {}' ", sim::demo_key(&key.id)),
        None if !policy.asks_keys() => String::new(),
        None => "-H 'Authorization: Bearer YOUR-KEY' ".to_owned(),
    };
    let demo: Vec<_> = policy.keys.iter().filter(|_| tried.is_some()).map(|key| sim::demo_key(&key.id)).collect();
    let keys = if demo.is_empty() {
        String::new()
    } else {
        format!("  keys     {}, for this simulation only\n", demo.join(", "))
    };
    let has_tiers = matches!(behind, Behind::Simulated { .. });
    let (secured, observes) = (policy.tls.is_some(), policy.observed.is_some());
    let open = if !policy.asks_keys() && !policy.listen.ip().is_loopback() {
        ", OPEN to the network: no key is asked for"
    } else {
        ""
    };
    move |Bound { listen, admin }| {
        let scheme = |secured| if secured { "https" } else { "http" };
        let page = |admin: SocketAddr| format!("{}://{admin}/", scheme(secured && !admin.ip().is_loopback()));
        let (admin, listen) = (admin.map_or_else(|| "off".to_owned(), page), format!("{}://{listen}", scheme(secured)));
        // Every path of the API listener may belong to the observed gateway.
        let metrics = if observes { format!("{admin}metrics") } else { format!("{listen}/metrics") };
        let harder = if has_tiers {
            format!(
                "\n  The header x-signalbox-pool says where a request went: this one to `small`, and a harder one to `large`:\n\n  \
                 curl -iN {listen}/v1/chat/completions -H 'Content-Type: application/json' \\\n    \
                 -d '{{\"model\": \"{model}\", \"messages\": [{{\"role\": \"user\", \"content\": \"{HARD}\"}}]}}'\n"
            )
        } else {
            String::new()
        };
        format!(
            "\n  Signalbox {version}\n\n  \
             behind   {shown}\n  \
             pools    {pools}\n\
             {keys}  \
             API      {listen}/v1{open}\n  \
             page     {admin}\n  \
             metrics  {metrics}\n\n  \
             Try it:\n\n  \
             curl -iN {listen}/v1/chat/completions {key}-H 'Content-Type: application/json' \\\n    \
             -d '{{\"model\": \"{model}\", \"stream\": true, \"messages\": [{{\"role\": \"user\", \"content\": \"Hello!\"}}]}}'\n{harder}\n",
            version = env!("CARGO_PKG_VERSION"),
        )
    }
}
