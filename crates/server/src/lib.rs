//! The server process: listeners, admin API, reload and drain.

#![forbid(unsafe_code)]

mod admin;
mod api;
mod app;
mod audit;
mod backends;
mod cache_verdict;
mod costs;
mod decisions;
mod discovery;
mod explain;
mod followed_files;
mod gathered;
mod guard;
mod h2_stall_guard;
mod history;
mod history_recorder;
mod json_body;
mod keys;
mod listed_models;
mod listen;
mod managed_key_file;
mod managed_keys;
mod metrics_page;
mod metrics_snapshot;
mod notifications;
mod origin;
mod page;
mod playground;
mod policy_log;
mod policy_view;
mod pool_health;
mod private_file;
mod reachability;
mod recent;
mod reload;
mod run;
mod service_manager;
mod sharing;
pub mod state;
mod state_broadcast;
mod stores;
mod tls;
mod unread_body;
mod warm_up;
mod write_timeout;

pub use self::{
    app::OpenError,
    managed_key_file::{ManagedKeysError, NewKey},
    reload::survive_user_signals,
    run::{Bound, Options, RunError, run},
};

use std::{sync::Arc, time::Duration};

use tokio::sync::{Mutex, watch};

use self::{
    app::{App, Cause},
    audit::AuditLog,
    discovery::Discovery,
    history::{Event, History, Kind},
    policy_log::PolicyLog,
    service_manager::State,
    state_broadcast::StateBroadcast,
};
use signalbox_policy::Policy;

/// Loads the policy again. The error is formatted for people, with file, line and caret.
pub type Loader = Box<dyn Fn(PolicyText<'_>) -> Result<Policy, String> + Send + Sync>;

/// The text that a policy is loaded from.
#[derive(Copy, Clone, Debug)]
pub enum PolicyText<'a> {
    /// That of the file.
    File,
    /// That of an earlier load, by its hash, with the secrets as they are now.
    Loaded(&'a str),
}

/// Allowance for the last writes (usage, journal, answers), added to the drain time in the stop time announced to systemd.
const FINAL_WRITES: Duration = Duration::from_secs(10);
/// Time for which changes of the fleet are gathered before they are applied.
const GATHER: Duration = Duration::from_millis(50);
/// The shortest time between two changes of the fleet, which sources that flap would otherwise change all the time.
const BETWEEN_CHANGES: Duration = Duration::from_millis(500);
/// Time after which a change that failed is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Shared state with its switches for reload and stop.
struct Control {
    app: App,
    /// `None` if the gateway runs without a policy file.
    loader: Option<Loader>,
    /// The fleet beside the policy.
    discovery: Arc<Discovery>,
    /// Serialises reloads.
    reloading: Mutex<()>,
    stop: watch::Sender<bool>,
    /// The longest that the process may take from SIGTERM to its end.
    longest_drain: Duration,
    state_events: StateBroadcast,
    history: History,
    audit: AuditLog,
    /// Path of the policy file, and its loads so far.
    policy_log: PolicyLog,
}

impl Control {
    fn is_draining(&self) -> bool {
        *self.stop.borrow()
    }

    fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Loads, validates and swaps the policy as a whole, and returns its hash. On an error the policy in force stays; so it does if the new
    /// policy would open access that is closed now.
    async fn reload(self: &Arc<Self>) -> Result<String, String> {
        if self.loader.is_none() {
            return Err("there is no policy file: the gateway runs without one".to_owned());
        }
        let _alone = self.reloading.lock().await;
        service_manager::report(&State::Reloading);
        let result = self.clone().load_and_serve(None).await;
        match &result {
            Ok(Ok(hash)) => {
                tracing::info!(%hash, "reload: policy loaded");
                reachability::check_credentials(&self.app);
            }
            // Logged above.
            Ok(Err(_)) => {}
            Err(error) => tracing::error!("reload: policy not loaded, the previous one stays in force\n{error}"),
        }
        let result = result.flatten();
        self.app.parts.metrics.config_reload(result.is_ok());
        self.policy_log.note(result.as_ref().map(|hash| (&**hash, "loaded")).map_err(|error| &**error));
        self.history.note(match &result {
            Ok(hash) => Event::new(Kind::Reloaded, format!("policy {hash} loaded")),
            Err(_) => Event::new(Kind::ReloadFailed, "the policy was not loaded, the previous one stays".to_owned()),
        });
        service_manager::report(&match &result {
            _ if self.is_draining() => State::Stopping(self.longest_drain),
            Ok(hash) => State::Ready(format!("serving policy {hash}")),
            Err(_) => {
                State::Ready("the last reload failed: the previous policy stays in force, see the log".to_owned())
            }
        });
        result
    }

    /// Loads the text of the policy in force with the secrets as they are now, while that in the file is refused. Returns its
    /// hash.
    async fn renew(self: &Arc<Self>) -> Result<String, String> {
        let _alone = self.reloading.lock().await;
        let hash = self.discovery.base().hash.clone();
        let renewed = self.clone().load_and_serve(Some(hash)).await.flatten();
        match &renewed {
            Ok(hash) => tracing::info!(%hash, "reload: the secrets of the policy in force were read again"),
            Err(error) => {
                tracing::error!("reload: the secrets of the policy in force could not be read again\n{error}");
            }
        }
        renewed
    }

    /// Loads the policy, from its file or from the text with this hash, and serves by it. The inner error is a refusal that was
    /// logged.
    async fn load_and_serve(self: Arc<Self>, hash: Option<String>) -> Result<Result<String, String>, String> {
        let control = self.clone();
        // Reads files, which blocks.
        let load = move || {
            let text = hash.as_deref().map_or(PolicyText::File, PolicyText::Loaded);
            let mut policy = control.loader.as_ref().map_or_else(|| Err(String::new()), |load| load(text))?;
            managed_key_file::load(&mut policy).map_err(|error| error.to_string())?;
            Ok(policy)
        };
        let policy = blocking(load).await?;
        let serving = self.app.live.load();
        if let Some(reason) = serving.snapshot.policy.opened_by(&policy) {
            tracing::warn!(hash = policy.hash, "reload: policy refused, the previous one stays in force: {reason}");
            return Ok(Err(format!("the policy was refused: {reason}")));
        }
        // New names are resolved first, so that their pools do not begin empty.
        self.discovery.prepare(&policy).await;
        let control = self.clone();
        let serve = move || {
            let (hash, exposures) = (policy.hash.clone(), policy.exposures());
            let next = control.discovery.compose(&policy, Some(&control.app.live.load().snapshot));
            control.app.replace(next, Cause::Reload).map_err(|error| error.to_string())?;
            control.discovery.adopt(policy);
            for exposure in exposures {
                tracing::warn!("policy: {exposure}");
            }
            Ok(Ok(hash))
        };
        blocking(serve).await
    }

    /// Serves the policy in force with the fleet as it is now known. Blocks on the disk.
    fn serve_fleet(&self) -> Result<(), OpenError> {
        let before = self.app.live.load();
        let next = self.discovery.compose(&self.discovery.base(), Some(&before.snapshot));
        self.app.replace(next, Cause::Fleet)
    }

    /// Applies changes of the fleet until the process ends. A change takes effect soon, further ones are gathered.
    async fn follow_fleet(self: Arc<Self>) {
        loop {
            self.discovery.changed().await;
            tokio::time::sleep(GATHER).await;
            let control = self.clone();
            let alone = self.reloading.lock().await;
            let served = blocking(move || control.serve_fleet().map_err(|error| error.to_string())).await;
            drop(alone);
            match served {
                Ok(()) => tokio::time::sleep(BETWEEN_CHANGES).await,
                Err(error) => {
                    tracing::error!(
                        "discovery: a change of the fleet could not be applied, it is tried again: {error}"
                    );
                    tokio::time::sleep(AFTER_FAILURE).await;
                    self.discovery.retry();
                }
            }
        }
    }
}

/// Runs `work` where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()))
}
