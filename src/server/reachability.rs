//! What an operator should hear of without sweeper: engines that cannot be reached, or can again; and keys that providers do not take.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::app::App;
use crate::{
    fleet::Engine,
    gateway::check_keys,
    types::{Moment, Name},
};

/// How often engines are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Tells of those of `engines` that come and go, until the process ends.
pub(super) fn watch(engines: impl Fn() -> (Vec<Arc<Engine>>, Moment) + Send + 'static) {
    tokio::spawn(async move {
        let (mut tick, mut reachability) = (tokio::time::interval(LOOK), Reachability::default());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            let (engines, now) = engines();
            reachability.look(&engines, now);
        }
    });
}

/// Asks providers about the keys that nothing is known of yet, beside all else.
pub(super) fn check_credentials(app: &App) {
    let serving = app.live.load();
    if !serving.snapshot.policy.simulated {
        tokio::spawn(check_keys(serving, app.client.clone(), app.desk.clock));
    }
}

/// Which engines cannot be reached, and since when.
#[derive(Debug, Default)]
struct Reachability {
    down: HashMap<Name, Moment>,
}

impl Reachability {
    fn look(&mut self, engines: &[Arc<Engine>], now: Moment) {
        self.down.retain(|name, _| engines.iter().any(|engine| engine.name == *name));
        for engine in engines {
            let name = &engine.name;
            match (engine.was_heard(), self.down.get(name).copied()) {
                (Some(false), None) => {
                    self.down.insert(name.clone(), now);
                    tracing::warn!(
                        engine = %name,
                        "the engine '{name}' cannot be reached: its requests go to other backends, and fail where there is none; \
                         see whether it runs, and whether its address in the policy is right"
                    );
                }
                (Some(true), Some(since)) => {
                    self.down.remove(name);
                    let down_s = now.since(since).as_secs();
                    tracing::warn!(engine = %name, down_s, "the engine '{name}' can be reached again, after {down_s} s");
                }
                _ => {}
            }
        }
    }
}
