//! Those who watch the page: the state is put together once a second for all of them, and not at all while nobody does.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::response::sse::Event;
use futures_util::{Stream, stream};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::{MissedTickBehavior, interval},
};

/// How many may watch at once.
pub(super) const MOST: usize = 64;
/// Time between two updates.
const UPDATE: Duration = Duration::from_secs(1);

/// The watchers of one gateway.
pub(super) struct StateBroadcast {
    /// The last state as JSON; empty while nobody watches, lest the next who comes be shown an old one.
    news: watch::Sender<Arc<str>>,
    came: Notify,
    places: Arc<Semaphore>,
}

impl Default for StateBroadcast {
    fn default() -> Self {
        Self { news: watch::Sender::default(), came: Notify::new(), places: Arc::new(Semaphore::new(MOST)) }
    }
}

impl StateBroadcast {
    /// The updates for one more watcher, until `stop` says so; `None` where there are too many.
    pub(super) fn subscribe(
        &self,
        stop: watch::Receiver<bool>,
    ) -> Option<impl Stream<Item = Result<Event, Infallible>> + use<>> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let mut news = self.news.subscribe();
        if !news.borrow().is_empty() {
            news.mark_changed();
        }
        self.came.notify_one();
        Some(stream::unfold((news, stop, place), next))
    }

    /// Tells what `state` gives to all who watch, for as long as the process lives.
    pub(super) async fn run<F: Future<Output = Option<String>>>(&self, state: impl Fn() -> F) {
        let mut ticks = interval(UPDATE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let Self { news, came, .. } = self;
            if news.receiver_count() == 0 {
                news.send_replace(Arc::default());
                came.notified().await;
                // Who comes is shown something at once.
                ticks.reset_immediately();
            }
            ticks.tick().await;
            if let Some(state) = state().await {
                news.send_replace(state.into());
            }
        }
    }
}

type Place = (watch::Receiver<Arc<str>>, watch::Receiver<bool>, OwnedSemaphorePermit);

async fn next((mut news, mut stop, place): Place) -> Option<(Result<Event, Infallible>, Place)> {
    loop {
        tokio::select! {
            changed = news.changed() => changed.ok()?,
            // The page must not hold up the end of the process.
            _ = stop.wait_for(|stop| *stop) => return None,
        }
        let state = news.borrow_and_update().clone();
        if !state.is_empty() {
            return Some((Ok(Event::default().data(&*state)), (news, stop, place)));
        }
    }
}
