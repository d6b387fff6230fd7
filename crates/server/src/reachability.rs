//! Warnings for operators: engines that become unreachable or reachable again, and keys that providers refuse.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::app::App;
use signalbox_fleet::Engine;
use signalbox_gateway::check_keys;
use signalbox_types::{Moment, Name};

/// Time between two checks.
const LOOK: Duration = Duration::from_secs(1);

/// Logs changes of reachability of `engines`, until the process ends.
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

/// Validates keys that were not used yet with their providers, in the background.
pub(super) fn check_credentials(app: &App) {
    let serving = app.live.load();
    if !serving.snapshot.policy.simulated {
        tokio::spawn(check_keys(serving, app.client.clone(), app.parts.clock));
    }
}

/// Unreachable engines, with the time since when.
#[derive(Debug, Default)]
struct Reachability {
    down: HashMap<Name, Moment>,
    asleep: HashMap<Name, Moment>,
}

impl Reachability {
    /// Logs an engine that fell asleep, and one that woke.
    fn look_asleep(&mut self, engine: &Engine, now: Moment) {
        let name = &engine.name;
        match (engine.is_asleep(), self.asleep.get(name).copied()) {
            (true, None) => {
                self.asleep.insert(name.clone(), now);
                tracing::warn!(
                    engine = %name,
                    "engine: '{name}' sleeps, its requests go to other backends while there are any; wake it where its \
                     operator put it to sleep"
                );
            }
            (false, Some(since)) => {
                self.asleep.remove(name);
                let slept_s = now.since(since).as_secs();
                tracing::info!(engine = %name, slept_s, "engine: '{name}' is awake again after {slept_s} s");
            }
            _ => {}
        }
    }

    fn look(&mut self, engines: &[Arc<Engine>], now: Moment) {
        for known in [&mut self.down, &mut self.asleep] {
            known.retain(|name, _| engines.iter().any(|engine| engine.name == *name));
        }
        for engine in engines {
            let name = &engine.name;
            self.look_asleep(engine, now);
            match (engine.is_reachable(), self.down.get(name).copied()) {
                (Some(false), None) => {
                    self.down.insert(name.clone(), now);
                    tracing::warn!(
                        engine = %name,
                        "engine: '{name}' cannot be reached, its requests go to other backends or fail; check that it runs and that its \
                         address in the policy is right"
                    );
                }
                (Some(true), Some(since)) => {
                    self.down.remove(name);
                    let down_s = now.since(since).as_secs();
                    tracing::info!(engine = %name, down_s, "engine: '{name}' can be reached again after {down_s} s");
                }
                _ => {}
            }
        }
    }
}
