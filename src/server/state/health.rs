//! Whether all is well, in words: what an operator should look at, the worst first.

use serde::Serialize;

use super::pools::{BackendState, CredentialState, PoolState, RouteState};
use crate::{measure::BudgetState, telemetry::SloLive, types::Name};

/// Waits in the gateway that are longer than this are worth a look, in seconds.
const LONG_WAIT: f64 = 1.0;
/// Gauges of an engine that answers should not be older than this, in seconds.
const OLD_GAUGES: f64 = 10.0;

/// How bad something is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// All is well.
    #[default]
    Ok,
    /// Worth a look.
    Warn,
    /// Callers are hurt, or will be.
    Bad,
}

/// Whether all is well.
#[derive(Debug, Default, Serialize)]
pub(super) struct Health {
    level: Level,
    troubles: Vec<Trouble>,
}

/// Something to look at.
#[derive(Debug, PartialEq, Serialize)]
struct Trouble {
    level: Level,
    words: String,
}

impl Health {
    /// What `pools` and `routes` say, and what else there is.
    pub(super) fn of(pools: &[PoolState], routes: &[RouteState], draining: bool, shadow_scopes: u64) -> Self {
        let mut health = Self::default();
        if draining {
            health.warn("the gateway drains: no new requests are taken".to_owned());
        }
        for pool in pools {
            health.pool(pool);
        }
        health.credentials(pools);
        for pool in pools {
            health.objectives("pool", &pool.name, &pool.slo);
        }
        for route in routes {
            health.objectives("route", &route.name, &route.slo);
        }
        if shadow_scopes > 0 {
            health.warn(format!("{shadow_scopes} scopes get no answers by meaning: too many were false"));
        }
        health.troubles.sort_by_key(|trouble| std::cmp::Reverse(trouble.level));
        health.level = health.troubles.first().map(|trouble| trouble.level).unwrap_or_default();
        health
    }

    fn pool(&mut self, pool: &PoolState) {
        let name = &pool.name;
        let down: Vec<_> = pool.backends.iter().filter(|backend| backend.state == "down").map(|it| &*it.name).collect();
        if !down.is_empty() {
            let left = pool.backends.len() - down.len();
            let left = if left == 0 { "none is left".to_owned() } else { format!("{left} left") };
            self.bad(format!("pool {name}: {} down, {left}", down.join(", ")));
        }
        for backend in pool.backends.iter().filter(|backend| backend.state != "down") {
            self.backend(name, backend);
        }
        if pool.queue.oldest_s > LONG_WAIT {
            let (depth, oldest) = (pool.queue.depth, pool.queue.oldest_s);
            self.warn(format!("pool {name}: {depth} wait for room, the first for {oldest:.1} s"));
        }
    }

    /// Keys that providers refuse: once for each account, and for each engine with a key of its own.
    fn credentials(&mut self, pools: &[PoolState]) {
        let mut told = Vec::new();
        for backend in pools.iter().flat_map(|pool| &pool.backends) {
            let Some(CredentialState { account, refused, of, status, for_s }) = &backend.credential else { continue };
            let whose =
                account.as_ref().map_or_else(|| format!("engine {}", backend.engine), |it| format!("account {it}"));
            if told.contains(&whose) {
                continue;
            }
            let which = match (refused, of) {
                (1, 1) => "the key is".to_owned(),
                _ if refused == of => "all keys are".to_owned(),
                _ => format!("{refused} of {of} keys are"),
            };
            let words = format!("{whose}: {which} refused by the provider ({status}) for {for_s:.0} s");
            if refused == of {
                self.bad(words);
            } else {
                self.warn(words);
            }
            told.push(whose);
        }
    }

    fn backend(&mut self, pool: &Name, backend: &BackendState) {
        let name = &backend.name;
        if backend.breaker == "half_open" {
            self.warn(format!("pool {pool}: {name} failed, and is being tried again"));
        }
        if let Some(signals) = backend.signals.as_ref().filter(|signals| signals.age_s > OLD_GAUGES) {
            self.warn(format!("pool {pool}: what {name} says of itself is {:.0} s old", signals.age_s));
        }
        let drafting = backend.signals.as_ref().and_then(|signals| signals.drafting.as_ref());
        if let Some(drafting) = drafting.filter(|it| it.is_poor) {
            let gained = drafting.accept_length.map_or(String::new(), |length| format!(", {length:.1} tokens a draft"));
            self.warn(format!("pool {pool}: hardly any of what {name} drafts is accepted{gained}: speculative decoding costs more than it gains"));
        }
    }

    fn objectives(&mut self, kind: &str, name: &Name, slo: &[SloLive]) {
        for SloLive { objective, burn, state, .. } in slo {
            if *state == BudgetState::Exhausted.label() {
                self.bad(format!("{kind} {name}: the error budget of {objective} is used up"));
            } else if *state == BudgetState::Burning.label() {
                let fast = burn.five_minutes.max(burn.hour);
                self.bad(format!("{kind} {name}: {objective} burns its error budget {fast:.1} times too fast"));
            }
        }
    }

    fn bad(&mut self, words: String) {
        self.troubles.push(Trouble { level: Level::Bad, words });
    }

    fn warn(&mut self, words: String) {
        self.troubles.push(Trouble { level: Level::Warn, words });
    }
}
