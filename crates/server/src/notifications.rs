//! Watches budgets and objectives, and hands events to the receivers of the policy.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

use super::Control;
use signalbox_notify::{BudgetState, ObjectiveState, Sender, Watch};
use signalbox_policy::Notifications;
use signalbox_quota::Period;
use signalbox_telemetry::SloLive;
use signalbox_types::{Name, wall_clock};

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// Runs until the process ends.
pub(super) async fn run(control: Arc<Control>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watch = Watch::default();
    let mut current: Option<(Notifications, Sender)> = None;
    loop {
        ticks.tick().await;
        let (parts, serving) = (&control.app.parts, control.app.live.load());
        let wanted = serving.snapshot.policy.notifications.as_ref();
        if wanted != current.as_ref().map(|(notifications, _)| notifications) {
            let client = &control.app.client;
            let before = current.take().map(|(_, sender)| sender);
            current = wanted.map(|wanted| {
                let sender = match before {
                    Some(sender) => sender.with(&wanted.receivers, client),
                    None => Sender::start(&wanted.receivers, client, &parts.metrics),
                };
                (wanted.clone(), sender)
            });
        }
        let thresholds = current.as_ref().map(|(notifications, _)| &*notifications.thresholds);
        // Without receivers too: a receiver that is added later is not sent what is old.
        let (unix, now) = (wall_clock::seconds(), parts.clock.now());
        let budgets = parts.accounting.callers.budgets(unix);
        let budgets = budgets.into_iter().map(|(owner, budget, spent)| {
            let since = Period::start(budget.per, unix);
            BudgetState { owner, budget, spent, since }
        });
        let states = |scope| move |(name, slos): (Name, Vec<SloLive>)| objectives(scope, &name, slos);
        let pools = parts.accounting.error_budgets.pools(now).into_iter().flat_map(states("pool"));
        let routes = parts.accounting.error_budgets.routes(now).into_iter().flat_map(states("route"));
        let events = watch.look(thresholds.unwrap_or_default(), budgets.collect(), pools.chain(routes).collect(), unix);
        for event in events {
            if event.is_recovery() {
                tracing::info!("notifications: {}", event.text());
            } else {
                tracing::warn!("notifications: {}", event.text());
            }
            if let Some((_, sender)) = &current {
                sender.send(&event);
            }
        }
    }
}

fn objectives(scope: &'static str, name: &Name, slos: Vec<SloLive>) -> Vec<ObjectiveState> {
    let state = |slo: SloLive| ObjectiveState {
        scope,
        name: name.to_string(),
        objective: slo.objective.to_string(),
        state: slo.state.into_owned(),
        burn_1h: slo.burn.over("1h"),
        budget_left: slo.budget_left,
    };
    slos.into_iter().map(state).collect()
}
