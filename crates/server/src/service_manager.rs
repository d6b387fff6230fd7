//! Reports to the service manager (`sd_notify`) that the gateway is ready, reloads, stops, and is alive. Does nothing
//! where none asked for it (`NOTIFY_SOCKET`).

use std::time::Duration;

/// The state of the process.
pub(super) enum State {
    /// It serves; with a sentence for `systemctl status`.
    Ready(String),
    /// It loads a policy.
    Reloading,
    /// It drains, for at most this long.
    Stopping(Duration),
    /// It still runs tasks.
    Alive,
}

/// Reports a state. Errors are logged only: a gateway serves without a service manager.
#[cfg(unix)]
pub(super) fn report(state: &State) {
    use sd_notify::NotifyState;
    let states = match state {
        State::Ready(status) => vec![NotifyState::Ready, NotifyState::Status(status)],
        // systemd takes a reload for finished only if it began after this time.
        State::Reloading => {
            [Ok(NotifyState::Reloading), NotifyState::monotonic_usec_now()].into_iter().flatten().collect()
        }
        State::Stopping(longest) => {
            let micros = u32::try_from(longest.as_micros()).unwrap_or(u32::MAX);
            vec![NotifyState::Stopping, NotifyState::Status("draining"), NotifyState::ExtendTimeoutUsec(micros)]
        }
        State::Alive => vec![NotifyState::Watchdog],
    };
    if let Err(error) = sd_notify::notify(&states) {
        tracing::warn!(%error, "server: the service manager cannot be notified, it may stop or restart the gateway: check NOTIFY_SOCKET");
    }
}

#[cfg(not(unix))]
pub(super) fn report(_: &State) {}

/// Reports that the process is alive, three times in each interval of the service manager's watchdog (`WATCHDOG_USEC`).
/// A task of the runtime does it, so that a gateway whose threads are all blocked is restarted.
pub(super) fn keep_alive() {
    #[cfg(unix)]
    if let Some(limit) = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero()) {
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(limit / 3);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                report(&State::Alive);
            }
        });
    }
}
