//! Health of the gateway: a level, and problems in words, the worst first.

use serde::{Deserialize, Serialize};

use super::{
    fleet::SourceState,
    missing_endpoints::MissingEndpoint,
    pools::{BackendState, CredentialState, PoolState, QueueState, RouteState},
};
use signalbox_measure::BudgetState;
use signalbox_telemetry::{SloLive, StoreFailure};
use signalbox_types::Name;

/// Wait in a queue from which a warning is raised, in seconds.
const LONG_WAIT: f64 = 1.0;
/// Age of an engine's gauges from which a warning is raised, in seconds.
const OLD_GAUGES: f64 = 10.0;

/// Severity.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// No problem.
    #[default]
    Ok,
    /// Needs attention.
    Warn,
    /// Requests fail or miss their objectives, or will.
    Bad,
}

/// Overall level and the problems behind it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The worst of them.
    pub level: Level,
    /// Problems, the worst first.
    pub troubles: Vec<Trouble>,
}

/// A problem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trouble {
    pub level: Level,
    pub words: String,
}

impl Health {
    /// Evaluates `pools`, `routes` and `sources`, the drain, and the number of scopes without semantic hits.
    pub(super) fn of(pools: &[PoolState], routes: &[RouteState], sources: &[SourceState], rest: (bool, u64)) -> Self {
        let (draining, shadow_scopes) = rest;
        let mut health = Self::default();
        if draining {
            health.warn("the gateway drains and accepts no new requests".to_owned());
        }
        for pool in pools {
            health.pool(pool);
        }
        for source in sources {
            health.source(source);
        }
        health.credentials(pools);
        for pool in pools {
            health.objectives("pool", &pool.name, &pool.slo);
        }
        for route in routes {
            health.objectives("route", &route.name, &route.slo);
        }
        if shadow_scopes > 0 {
            health.warn(format!("{shadow_scopes} scopes get no semantic cache hits: too many were false"));
        }
        health
    }

    /// With the load of the policy that failed: the time since the first such load, in seconds, and its result.
    pub(super) fn with_refused(mut self, refused: Option<(i64, String)>) -> Self {
        if let Some((for_s, what)) = refused {
            self.warn(format!(
                "the policy in its file is not in force for {for_s} s and a restart would fail: {what} (`signalbox check` shows all)"
            ));
        }
        self
    }

    /// With the stores that cannot be written, in words.
    pub(super) fn with_failed_stores(mut self, failed: Vec<(&str, StoreFailure)>) -> Self {
        for (what, failure) in failed {
            let (for_s, error) = (failure.age().as_secs(), failure.error);
            self.warn(format!("not written for {for_s} s and lost with a restart: {what}: {error}"));
        }
        self
    }

    /// With what gateways do not share because its server is down or refuses, in words.
    pub(super) fn with_unshared(mut self, down: &[String]) -> Self {
        for words in down {
            self.warn(words.clone());
        }
        self
    }

    /// With the problems in order, the worst first, and the level of the worst.
    pub(super) fn ranked(mut self) -> Self {
        self.troubles.sort_by_key(|trouble| std::cmp::Reverse(trouble.level));
        self.level = self.troubles.first().map(|trouble| trouble.level).unwrap_or_default();
        self
    }

    /// With the owners whose budget is spent.
    pub(super) fn with_spent(mut self, owners: &[String]) -> Self {
        if let [first, more @ ..] = owners {
            let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
            self.warn(format!("the budget of {first} is spent{more}: requests are refused until it is renewed"));
        }
        self
    }

    fn pool(&mut self, pool: &PoolState) {
        let name = &pool.name;
        if pool.backends.is_empty() {
            self.bad(format!("pool {name}: no backends"));
        }
        let down: Vec<_> = pool.backends.iter().filter(|backend| backend.state == "down").map(|it| &*it.name).collect();
        if !down.is_empty() {
            let left = pool.backends.len() - down.len();
            let left = if left == 0 { "none is left".to_owned() } else { format!("{left} left") };
            self.bad(format!("pool {name}: {} down, {left}", down.join(", ")));
        }
        for backend in pool.backends.iter().filter(|backend| backend.state != "down") {
            self.backend(name, backend);
        }
        for words in &pool.signs {
            self.warn(format!("pool {name}: {words}"));
        }
        if pool.queue.oldest_s > LONG_WAIT {
            let QueueState { depth, held, oldest_s } = pool.queue;
            let held =
                if held > 0 { format!(" ({held} held: their engines are busy with prompts)") } else { String::new() };
            self.warn(format!("pool {name}: {depth} requests queued, the oldest for {oldest_s:.1} s{held}"));
        }
    }

    /// A source without an answer, or with an empty one.
    fn source(&mut self, source: &SourceState) {
        let SourceState { source, endpoints, error, empty_s, .. } = source;
        let kept = match endpoints {
            0 => "no address is known".to_owned(),
            1 => "its last address stays in force".to_owned(),
            _ => format!("its last {endpoints} addresses stay in force"),
        };
        if let Some(error) = error {
            self.warn(format!("{source} gives no answer, {kept}: {error}"));
        } else if let Some(seconds) = empty_s {
            self.warn(format!("{source} has no addresses for {seconds:.0} s, {kept}"));
        }
    }

    /// Keys that providers refuse: one problem for each account, and for each engine with a key of its own.
    fn credentials(&mut self, pools: &[PoolState]) {
        let mut seen = Vec::new();
        for backend in pools.iter().flat_map(|pool| &pool.backends) {
            let Some(CredentialState { account, refused, of, status, for_s }) = &backend.credential else { continue };
            let whose =
                account.as_ref().map_or_else(|| format!("engine {}", backend.engine), |it| format!("account {it}"));
            if seen.contains(&whose) {
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
            seen.push(whose);
        }
    }

    fn backend(&mut self, pool: &Name, backend: &BackendState) {
        let name = &backend.name;
        if backend.breaker == "half_open" {
            self.warn(format!("pool {pool}: {name} failed and is being probed"));
        }
        for MissingEndpoint { endpoint, answer, for_s, again_s, .. } in
            backend.missing.iter().filter(|it| it.was_served)
        {
            self.warn(format!(
                "pool {pool}: {endpoint} is missing at {name} for {for_s:.0} s ({answer}), tried again in {again_s:.0} s"
            ));
        }
        if let Some(signals) = backend.signals.as_ref().filter(|signals| signals.age_s > OLD_GAUGES) {
            self.warn(format!("pool {pool}: the gauges of {name} are {:.0} s old", signals.age_s));
        }
        let drafting = backend.signals.as_ref().and_then(|signals| signals.drafting.as_ref());
        if let Some(drafting) = drafting.filter(|it| it.is_poor) {
            let gained = drafting.accept_length.map_or(String::new(), |length| format!(", {length:.1} tokens a draft"));
            self.warn(format!("pool {pool}: few draft tokens of {name} are accepted{gained}: speculative decoding costs more than it gains"));
        }
    }

    fn objectives(&mut self, kind: &str, name: &Name, slo: &[SloLive]) {
        for SloLive { objective, burn, state, .. } in slo {
            if *state == BudgetState::Exhausted.label() {
                self.bad(format!("{kind} {name}: the error budget of {objective} is exhausted"));
            } else if *state == BudgetState::Burning.label() {
                let fast = burn.over("5m").max(burn.over("1h"));
                self.bad(format!(
                    "{kind} {name}: {objective} burns its error budget at {fast:.1} times the sustainable rate"
                ));
            } else if *state == BudgetState::Missing.label() {
                let times = burn.over("1h");
                self.warn(format!(
                    "{kind} {name}: {objective} was missed {times:.1} times as often as it may over the last hour: its error \
                     budget will not last"
                ));
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
