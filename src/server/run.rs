//! From a policy to a running gateway, and its orderly end.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    routing::any_service,
};
use http::{HeaderValue, StatusCode, Version, header};
use tokio::{
    net::TcpListener,
    sync::{Mutex, watch},
};
use tower_http::catch_panic::CatchPanicLayer;

use super::{
    Control, House, Loader, OpenError, admin, guard, listen, reload, unread::Unread, vigil, watchers::Watchers,
};
use crate::{
    gateway::{Inquiry, Models, Observer, Reply, reply_to, walk},
    policy::{Policy, access::CREDENTIAL_HELP},
    types::Fault,
};

/// How to run.
pub struct Options {
    /// What to serve.
    pub policy: Policy,
    /// The policy's file, to be watched, and how to load it again.
    pub source: Option<(PathBuf, Loader)>,
    /// Told once requests are taken.
    pub ready: Box<dyn FnOnce(Bound) -> io::Result<()> + Send>,
}

/// Where the gateway listens.
#[derive(Copy, Clone, Debug)]
pub struct Bound {
    /// For clients.
    pub listen: SocketAddr,
    /// For operators.
    pub admin: Option<SocketAddr>,
}

/// The gateway could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Something it needs is not to be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error} ('{key}' in the policy sets another address)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The policy's key for it.
        key: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// The network could reach operators' address, and nobody would be asked who he is.
    #[error(
        "operators could come in from the network at {address} without a credential: {CREDENTIAL_HELP}; for --admin without a policy, \
             SIGNALBOX_ADMIN_TOKEN is the token"
    )]
    Unguarded {
        /// The address.
        address: SocketAddr,
    },
    /// Something else of the system's.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Serves until SIGTERM or SIGINT, then drains. Returns whether every request was finished in time.
pub async fn run(options: Options) -> Result<bool, RunError> {
    let Options { policy, source, ready } = options;
    let limits = policy.limits;
    for exposure in policy.exposures() {
        tracing::warn!("{exposure}");
    }
    if let Some(address) = policy.unguarded_admin() {
        return Err(RunError::Unguarded { address });
    }
    let secured = policy.admin_access.client_roots.is_some();
    // A stream takes two descriptors, and most systems begin with a thousand.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!("the limit on open descriptors stays as it is: {error}");
    }
    let api = bind(policy.listen, "listen").await?;
    let operators = match policy.admin {
        Some(address) => Some(bind(address, "admin").await?),
        None => None,
    };
    let bound =
        Bound { listen: api.local_addr()?, admin: operators.as_ref().map(TcpListener::local_addr).transpose()? };

    let (file, loader) = source.unzip();
    let stop = watch::Sender::new(false);
    let control = Arc::new(Control {
        house: House::open(policy)?,
        loader,
        reloading: Mutex::default(),
        stop,
        watchers: Watchers::default(),
    });
    if let Some(file) = &file
        && let Err(error) = reload::on_change(control.clone(), file)
    {
        tracing::warn!(%error, "the policy's file cannot be watched: reload by SIGHUP or POST /admin/reload");
    }
    #[cfg(unix)]
    reload::on_hangup(control.clone())?;
    // The page and the metrics stay reachable while the API drains.
    let (close_admin, admin_closed) = watch::channel(false);
    let admin_task = operators.zip(bound.admin).map(|(listener, at)| {
        let app = admin::admin(control.clone(), at);
        // What does not leave the machine needs no securing, and no name that a certificate is for; unless certificates are asked for.
        let certificate = (secured || !at.ip().is_loopback()).then(|| control.house.admin_certificate.clone());
        let serving = listen::serve(listener, app, certificate, limits.header, Duration::from_secs(1), admin_closed);
        tokio::spawn(async move { serving.await.end().await })
    });
    let (close, closed) = watch::channel(false);
    on_signal(control.clone(), limits.lame_duck, close)?;
    tend(&control);
    let watched = control.clone();
    vigil::keep(move || (watched.house.registry.engines(), watched.house.desk.clock.now()));
    vigil::check(&control.house);
    let watched = control.clone();
    tokio::spawn(async move { watched.watchers.tend(|| admin::state_json(watched.clone())).await });
    ready(bound)?;

    let certificate = Some(control.house.certificate.clone());
    let left = listen::serve(api, app(&control), certificate, limits.header, limits.drain, closed).await;
    let drained = left.drained;
    if !drained {
        tracing::warn!("the drain limit is over: requests still under way are cut (limits.drain)");
        control.house.desk.cut();
    }
    left.end().await;
    // Nobody receives when there is no admin listener.
    let _ = close_admin.send(true);
    if let Some(task) = admin_task {
        let _ = task.await;
    }
    control.house.close().await;
    Ok(drained)
}

fn app(control: &Arc<Control>) -> Router {
    let house = &control.house;
    let unread = Arc::new(Unread::default());
    let looking = unread.clone();
    tokio::spawn(async move { looking.tend(listen::UNREAD).await });
    let (live, desk, client) = (house.live.clone(), house.desk.clone(), house.client.clone());
    let router = if live.load().snapshot.policy.observed.is_some() {
        // Every path is that gateway's own.
        Router::new().fallback_service(any_service(Observer::new(live, desk, client)))
    } else {
        Router::new()
            .fallback_service(any_service(walk(live.clone(), desk.clone(), client)))
            .merge(Models::router(live.clone()))
            .merge(Inquiry::router(live, desk))
            .merge(admin::public(control.clone()))
    };
    let with_cors = router.clone().layer(guard::cors(control.house.live.clone()));
    router
        .layer(middleware::from_fn({
            let control = control.clone();
            move |request: Request, next: Next| {
                let (control, with_cors, unread) = (control.clone(), with_cors.clone(), unread.clone());
                async move {
                    let is_http1 = request.version() < Version::HTTP_2;
                    let hang_up = request.extensions().get().cloned().unwrap_or_default();
                    let mut response = guard::clients(&control, &with_cors, request, next).await;
                    if control.is_draining() && is_http1 {
                        // The next request is better sent to another gateway.
                        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                    }
                    if is_http1 { response } else { response.map(|body| unread.watch(body, hang_up)) }
                }
            }
        }))
        .layer(CatchPanicLayer::custom(panicked))
}

/// What a caller sees of a bug of ours; the panic itself is in the log.
fn panicked(_: Box<dyn std::any::Any + Send>) -> Reply {
    let message = "the gateway failed on this request: its log says where";
    reply_to(None, "", &Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", message))
}

async fn bind(address: SocketAddr, key: &'static str) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|error| RunError::Listen { address, key, error })
}

/// How often kept answers are looked through for those whose time is over, and indexes for those that are to be built anew.
const TENDED: Duration = Duration::from_secs(30);

/// How often usage is written: what the end of the process, however it comes, may cost.
const USAGE_WRITTEN: Duration = Duration::from_secs(2);

/// Tends the cache by meaning, the book of usage and what engines' hours cost, until the process ends.
fn tend(control: &Arc<Control>) {
    let writing = control.clone();
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(USAGE_WRITTEN);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let writing = writing.clone();
            let _ = tokio::task::spawn_blocking(move || {
                writing.house.write_usage();
                writing.house.accrue();
            })
            .await;
        }
    });
    let control = control.clone();
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(TENDED);
        loop {
            tick.tick().await;
            let desk = control.house.desk.clone();
            // It may take long.
            let _ = tokio::task::spawn_blocking(move || desk.answers.local.semantic.maintain(desk.clock.now())).await;
            let _alone = control.reloading.lock().await;
            let again = control.clone();
            let tend = move || {
                again.house.tend_disk();
                again.house.tend_certificate();
            };
            let _ = tokio::task::spawn_blocking(tend).await;
        }
    });
}

/// The first SIGTERM or SIGINT begins the drain, a second one ends the process at once. The listener closes at once too, or, after SIGTERM, a
/// `lame_duck` time later: load balancers hear of the end only when they next look.
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
            if !wait.is_zero() {
                tracing::info!("not ready any more: connections are taken for another {wait:?} (limits.lame_duck)");
            }
            let close = close.clone();
            tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                tracing::info!("stopping: no new requests, those under way are finished (again to stop at once)");
                close.send_replace(true);
            });
        }
    });
    Ok(())
}
