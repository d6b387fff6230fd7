//! Starts the gateway from a policy, and shuts it down in order.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::{Mutex, watch},
};

use super::{
    App, Control, Discovery, FINAL_WRITES, Loader, OpenError, admin,
    api::Api,
    audit::AuditLog,
    followed_files,
    history::History,
    history_recorder, listed_models,
    listen::{self, Bounds},
    managed_key_file, notifications, playground,
    policy_log::PolicyLog,
    reachability, reload, service_manager,
    service_manager::State,
    state_broadcast::StateBroadcast,
    warm_up::warm_up,
};
use signalbox_policy::{Policy, access::CREDENTIAL_HELP};
use signalbox_telemetry::Store;

/// Parameters of [`run`].
pub struct Options {
    /// The policy to serve.
    pub policy: Policy,
    /// Path of the policy file, which is watched, and its loader.
    pub source: Option<(PathBuf, Loader)>,
    /// Called once requests are accepted.
    pub ready: Box<dyn FnOnce(Bound) -> io::Result<()> + Send>,
}

/// Addresses of the listeners.
#[derive(Copy, Clone, Debug)]
pub struct Bound {
    /// API listener.
    pub listen: SocketAddr,
    /// Admin listener.
    pub admin: Option<SocketAddr>,
}

/// The gateway could not start or run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A part of the process could not be built.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {error} (--{key} or '{key}' in the policy sets another address)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Key of the address in the policy.
        key: &'static str,
        /// The cause.
        error: io::Error,
    },
    /// The admin listener would be reachable from the network without a credential.
    #[error(
        "the admin listener at {address} would be reachable from the network without a credential: {CREDENTIAL_HELP}; for --admin \
             without a policy, SIGNALBOX_ADMIN_TOKEN is the token"
    )]
    Unguarded {
        /// The address.
        address: SocketAddr,
    },
    /// A backend is the gateway itself.
    #[error(
        "{url} is this gateway's own address ('{key}'): every request would come back to it; name the address of an engine, or of the \
         gateway that is observed, or set '{key}' to another address"
    )]
    OwnAddress {
        /// The backend's address.
        url: String,
        /// Key of the gateway's address in the policy.
        key: &'static str,
    },
    /// Another error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Serves until SIGTERM or SIGINT, then drains. Returns true if every request finished in time.
pub async fn run(options: Options) -> Result<bool, RunError> {
    let Options { policy, source, ready } = options;
    let limits = policy.limits;
    for exposure in policy.exposures() {
        tracing::warn!("policy: {exposure}");
    }
    if let Some(address) = policy.unguarded_admin() {
        return Err(RunError::Unguarded { address });
    }
    if let Some((url, key)) = policy.own_address() {
        return Err(RunError::OwnAddress { url: url.to_owned(), key });
    }
    let secured = policy.admin_access.client_roots.is_some();
    // A proxied stream takes two descriptors, and the usual soft limit is 1,024.
    let descriptors = rlimit::increase_nofile_limit(u64::MAX);
    if let Err(error) = &descriptors {
        tracing::warn!("server: the limit on open descriptors could not be raised: {error}");
    }
    let api = bind(policy.listen, "listen").await?;
    let operators = match policy.admin {
        Some(address) => Some(bind(address, "admin").await?),
        None => None,
    };
    let bound =
        Bound { listen: api.local_addr()?, admin: operators.as_ref().map(TcpListener::local_addr).transpose()? };

    let control = open(policy, source).await?;
    if let Ok(limit) = descriptors {
        control.app.parts.descriptors.set_limit(limit);
    }
    let bounds =
        Bounds { header: limits.header, drain: limits.drain, descriptors: control.app.parts.descriptors.clone() };
    // The page and the metrics stay reachable while the API drains.
    let (close_admin, admin_closed) = watch::channel(false);
    let served = Api::new(&control);
    let admin_task = operators.zip(bound.admin).map(|(listener, at)| {
        let app = admin::admin(control.clone(), at, playground::routes(served.clone()));
        // A loopback listener needs no TLS, and a certificate rarely names it; except where client certificates are required.
        let certificate = (secured || !at.ip().is_loopback()).then(|| control.app.admin_certificate.clone());
        let bounds = Bounds { drain: Duration::from_secs(1), ..bounds.clone() };
        let serving = listen::serve(listener, app, certificate, bounds, admin_closed);
        tokio::spawn(async move { serving.await.end().await })
    });
    let (close, closed) = watch::channel(false);
    on_signal(control.clone(), limits.lame_duck, close)?;
    start_tasks(&control).await;
    ready(bound)?;
    service_manager::keep_alive();
    service_manager::report(&State::Ready(format!("serving on {}", bound.listen)));

    let certificate = Some(control.app.certificate.clone());
    let left = listen::serve(api, served, certificate, bounds, closed).await;
    let drained = left.drained;
    if !drained {
        tracing::warn!(
            requests = control.app.parts.metrics.in_flight(),
            "drain: time limit reached, the requests still in flight are cut (limits.drain)"
        );
        control.app.parts.stop();
    }
    left.end().await;
    // No receiver without an admin listener.
    let _ = close_admin.send(true);
    if let Some(task) = admin_task {
        let _ = task.await;
    }
    let last = control.clone();
    let write = move || {
        last.history.save();
        last.audit.close();
    };
    let _ = tokio::task::spawn_blocking(write).await;
    control.app.close().await;
    Ok(drained)
}

/// Builds the process's state for `policy`, watches its file, and warms up.
async fn open(mut policy: Policy, source: Option<(PathBuf, Loader)>) -> Result<Arc<Control>, RunError> {
    let limits = policy.limits;
    let (file, loader) = source.unzip();
    managed_key_file::load(&mut policy).map_err(OpenError::from)?;
    let discovery = Arc::new(Discovery::open(policy).map_err(OpenError::Fleet)?);
    let base = discovery.base();
    discovery.prepare(&base).await;
    let app = App::open(discovery.compose(&base, None))?;
    // After usage, whose folder is locked and made there.
    let metrics = &app.parts.metrics;
    let (history, audit) =
        (History::open(&base, metrics.store(Store::History)), AuditLog::open(&base, metrics.audit()));
    let policy_log = PolicyLog::new(file.clone());
    policy_log.note(Ok((&base.hash, "loaded at the start")));
    let control = Arc::new(Control {
        app,
        discovery,
        loader,
        reloading: Mutex::default(),
        stop: watch::Sender::new(false),
        longest_drain: limits.lame_duck + limits.drain + FINAL_WRITES,
        state_events: StateBroadcast::default(),
        history,
        audit,
        policy_log,
    });
    if let Some(file) = &file
        && let Err(error) = reload::on_change(control.clone(), file)
    {
        tracing::warn!(%error, "reload: the policy file cannot be watched; reload by SIGHUP or POST /admin/reload");
    }
    if control.loader.is_some() {
        followed_files::start(control.clone());
    }
    #[cfg(unix)]
    reload::on_signals(control.clone())?;
    // Before any listener accepts: connections wait in its backlog meanwhile, and no probe is answered.
    warm_up(&control.app.parts, &control.app.live.load().snapshot.policy).await;
    Ok(control)
}

/// Starts the background tasks, and waits until followed engines have listed their models, for two seconds at most.
async fn start_tasks(control: &Arc<Control>) {
    maintain(control);
    tokio::spawn(control.clone().follow_fleet());
    tokio::spawn(notifications::run(control.clone()));
    history_recorder::start(control);
    let watched = control.clone();
    reachability::watch(move || (watched.app.engines(), watched.app.parts.clock.now()));
    reachability::check_credentials(&control.app);
    listed_models::follow(control).await;
    let watched = control.clone();
    tokio::spawn(async move { watched.state_events.run(|| admin::state_json(watched.clone())).await });
}

async fn bind(address: SocketAddr, key: &'static str) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|error| RunError::Listen { address, key, error })
}

/// Time between two maintenance runs: expired cache entries, indexes to rebuild, renewed certificates.
const MAINTENANCE: Duration = Duration::from_secs(30);

/// Time between two writes of usage, and so the most that a crash loses.
const USAGE_WRITE: Duration = Duration::from_secs(2);

/// Starts the periodic maintenance of caches, usage, GPU costs and certificates.
fn maintain(control: &Arc<Control>) {
    let writing = control.clone();
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(USAGE_WRITE);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let writing = writing.clone();
            let _ = tokio::task::spawn_blocking(move || {
                writing.write_stores();
                writing.app.accrue();
            })
            .await;
        }
    });
    control.app.parts.answers.local.semantic.start_indexing(MAINTENANCE);
    let control = control.clone();
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(MAINTENANCE);
        loop {
            tick.tick().await;
            let parts = control.app.parts.clone();
            let sweep = move || {
                let now = parts.clock.now();
                parts.answers.local.semantic.maintain(now);
                parts.answers.responses.sweep(now);
            };
            let _ = tokio::task::spawn_blocking(sweep).await;
            let _alone = control.reloading.lock().await;
            let again = control.clone();
            let retry = move || {
                again.app.reopen_persisted_cache();
                again.app.reload_certificates();
            };
            let _ = tokio::task::spawn_blocking(retry).await;
        }
    });
}

/// Starts the drain at the first SIGTERM or SIGINT and exits at once at the second. The listener closes at once, or after SIGTERM only when
/// `lame_duck` has passed, since load balancers notice the failing readiness probe with a delay.
fn on_signal(control: Arc<Control>, lame_duck: Duration, close: watch::Sender<bool>) -> io::Result<()> {
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let close = Arc::new(close);
    tokio::spawn(async move {
        loop {
            #[cfg(unix)]
            let wait = tokio::select! {
                _ = tokio::signal::ctrl_c() => Duration::ZERO,
                _ = terminate.recv() => lame_duck,
            };
            #[cfg(not(unix))]
            let wait = tokio::signal::ctrl_c().await.map_or(Duration::ZERO, |()| lame_duck);
            if control.stop.send_replace(true) {
                std::process::exit(130);
            }
            service_manager::report(&State::Stopping(control.longest_drain));
            if !wait.is_zero() {
                tracing::info!(
                    "drain: not ready any more, connections are accepted for another {wait:?} (limits.lame_duck)"
                );
            }
            let close = close.clone();
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                tracing::info!(
                    "drain: no new requests, requests in progress finish (send the signal again to stop at once)"
                );
                close.send_replace(true);
            });
        }
    });
    Ok(())
}
