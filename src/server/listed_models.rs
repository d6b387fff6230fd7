//! Applies changes of the models that engines list.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::Control;

/// The longest that the start waits for the first lists.
const FIRST_LISTS: Duration = Duration::from_secs(2);

/// Waits until every engine whose models are followed was asked for them, for two seconds at most, and serves what they
/// list. Changes are applied from then on, until the process ends.
pub(super) async fn follow(control: &Arc<Control>) {
    let followed = control.app.live.load().snapshot.followed.clone();
    let until = Instant::now() + FIRST_LISTS;
    while followed.iter().any(|(_, engine)| !engine.models.is_asked()) {
        if timeout_at(until, control.app.models_changed()).await.is_err() {
            break;
        }
    }
    apply(control).await;
    let control = control.clone();
    tokio::spawn(async move {
        loop {
            control.app.models_changed().await;
            apply(&control).await;
        }
    });
}

async fn apply(control: &Arc<Control>) {
    let _alone = control.reloading.lock().await;
    let control = control.clone();
    let serve = move || {
        if control.app.live.load().snapshot.source().follows_models()
            && let Err(problem) = control.serve_fleet()
        {
            tracing::warn!("models: the models listed before stay in force: {problem}");
        }
    };
    let _ = tokio::task::spawn_blocking(serve).await;
}
