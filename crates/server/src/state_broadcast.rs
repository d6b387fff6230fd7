//! Broadcast of the state to open pages: built once a second for all subscribers, and not at all without any.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::response::sse::Event;
use futures_util::{Stream, stream};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::{MissedTickBehavior, interval},
};

/// Most concurrent subscribers.
pub(super) const MAX_SUBSCRIBERS: usize = 64;
/// Time between two updates.
const UPDATE: Duration = Duration::from_secs(1);

/// Subscribers of the state.
pub(super) struct StateBroadcast {
    /// The last state as JSON. Empty without subscribers, so that a new one does not see an old state.
    latest: watch::Sender<Arc<str>>,
    subscribed: Notify,
    permits: Arc<Semaphore>,
}

impl Default for StateBroadcast {
    fn default() -> Self {
        Self {
            latest: watch::Sender::default(),
            subscribed: Notify::new(),
            permits: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
        }
    }
}

impl StateBroadcast {
    /// Subscribes until `stop` turns true; `None` if there are too many subscribers.
    pub(super) fn subscribe(
        &self,
        stop: watch::Receiver<bool>,
    ) -> Option<impl Stream<Item = Result<Event, Infallible>> + use<>> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        let mut latest = self.latest.subscribe();
        if !latest.borrow().is_empty() {
            latest.mark_changed();
        }
        self.subscribed.notify_one();
        Some(stream::unfold((latest, stop, permit), next))
    }

    /// Publishes `state` once a second while there are subscribers; never returns.
    pub(super) async fn run<F: Future<Output = Option<String>>>(&self, state: impl Fn() -> F) {
        let mut ticks = interval(UPDATE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let Self { latest, subscribed, .. } = self;
            if latest.receiver_count() == 0 {
                latest.send_replace(Arc::default());
                subscribed.notified().await;
                // The first subscriber gets a state at once.
                ticks.reset_immediately();
            }
            ticks.tick().await;
            if let Some(state) = state().await {
                latest.send_replace(state.into());
            }
        }
    }
}

type Subscription = (watch::Receiver<Arc<str>>, watch::Receiver<bool>, OwnedSemaphorePermit);

async fn next((mut latest, mut stop, permit): Subscription) -> Option<(Result<Event, Infallible>, Subscription)> {
    loop {
        tokio::select! {
            changed = latest.changed() => changed.ok()?,
            // An open page must not delay the shutdown.
            _ = stop.wait_for(|stop| *stop) => return None,
        }
        let state = latest.borrow_and_update().clone();
        if !state.is_empty() {
            return Some((Ok(Event::default().data(&*state)), (latest, stop, permit)));
        }
    }
}
