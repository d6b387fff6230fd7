//! Applies changes of the models that engines list.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::Control;
use signalbox_fleet::Snapshot;
use signalbox_policy::Policy;
use signalbox_types::Name;

/// The longest that the start waits for the first lists.
const FIRST_LISTS: Duration = Duration::from_secs(2);
/// The most warnings about a change of the lists.
const MOST_WARNINGS: usize = 10;

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
    let mut contested = BTreeMap::new();
    apply(control, &mut contested).await;
    let control = control.clone();
    tokio::spawn(async move {
        loop {
            control.app.models_changed().await;
            apply(&control, &mut contested).await;
        }
    });
}

/// Serves the models listed now. `contested` has the names that several pools listed before.
async fn apply(control: &Arc<Control>, contested: &mut BTreeMap<Name, Vec<Name>>) {
    let _alone = control.reloading.lock().await;
    let changing = control.clone();
    let serve = move || {
        if changing.app.live.load().snapshot.source().follows_models()
            && let Err(problem) = changing.serve_fleet()
        {
            tracing::warn!("models: the models listed before stay in force: {problem}");
        }
    };
    let _ = tokio::task::spawn_blocking(serve).await;
    let live = control.app.live.load();
    let now = several(live.snapshot.source(), &live.snapshot);
    for (model, pools) in now.iter().filter(|(model, pools)| contested.get(*model) != Some(*pools)).take(MOST_WARNINGS)
    {
        let pools = pools.iter().map(|pool| &**pool).collect::<Vec<_>>().join(" ");
        tracing::warn!(
            %model,
            pools,
            "models: several pools list '{model}', its requests go to them in this order: name it under `models` or narrow `serves`"
        );
    }
    *contested = now;
}

/// The listed models that can be requested of several pools, with these pools in the order in which they are tried.
fn several(source: &Policy, serving: &Snapshot) -> BTreeMap<Name, Vec<Name>> {
    let configured: HashSet<&Name> = source.models.names().collect();
    let models = serving.policy.models.names().filter(|name| !configured.contains(name));
    let pools = models.filter_map(|name| {
        let targets = &serving.policy.models.get(name)?.first()?.targets;
        let pools: Vec<_> = targets.iter().map(|target| serving.policy.pools[target.pool].name.clone()).collect();
        (pools.len() > 1).then(|| (name.clone(), pools))
    });
    pools.collect()
}
