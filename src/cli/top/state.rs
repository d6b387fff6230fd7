//! Methods of the admin API's state for display, and the journal entry of one decision. A gateway of another release may send more or fewer
//! fields; missing ones are not shown.

pub(super) use crate::journal::recorded::{Attempt, Candidate, Line};
pub(super) use crate::server::state::{BackendState, DecisionState, PoolState, Quantiles, State};
use crate::{
    server::state::{CredentialState, Level},
    telemetry::SloLive,
};

impl State {
    /// All backends with the names of their pools.
    pub(super) fn backends(&self) -> impl Iterator<Item = (&str, &BackendState)> {
        self.pools.iter().flat_map(|pool| pool.backends.iter().map(|backend| (&*pool.name, backend)))
    }

    /// All objectives with their owners, the worst first.
    pub(super) fn objectives(&self) -> Vec<(String, &SloLive)> {
        let pools = self.pools.iter().map(|pool| ("pool", &pool.name, &pool.slo));
        let routes = self.routes.iter().map(|route| ("route", &route.name, &route.slo));
        let named = |(kind, name, slo)| {
            let slo: &Vec<SloLive> = slo;
            slo.iter().map(move |slo| (format!("{kind} {name}"), slo))
        };
        let mut all: Vec<_> = pools.chain(routes).flat_map(named).collect();
        let rank = |slo: &SloLive| match &*slo.state {
            "exhausted" => 0,
            "burning" => 1,
            _ => 2,
        };
        all.sort_by(|(_, one), (_, other)| rank(one).cmp(&rank(other)).then(other.burn.hour.total_cmp(&one.burn.hour)));
        all
    }

    /// Health in one line.
    pub(super) fn verdict(&self) -> String {
        let backends = self.backends().count();
        match self.health.troubles.len() {
            0 if self.requests.total == 0 => format!("Ready: {backends} backends, no traffic yet"),
            0 => format!("All is well: {backends} backends up, every budget holds"),
            more => {
                let not = if self.health.level == Level::Bad { "Not well: " } else { "" };
                format!("{not}{more} thing{} to look at", if more == 1 { "" } else { "s" })
            }
        }
    }
}

impl BackendState {
    /// State in words: reachability, breaker and credentials.
    pub(super) fn words(&self) -> String {
        let breaker = match &*self.breaker {
            "open" => ", left out",
            "half_open" => ", tried again",
            _ => "",
        };
        let state = if self.state == "down" { "DOWN" } else { &self.state };
        let key = match &self.credential {
            Some(CredentialState { refused, of, status, .. }) if refused == of => format!(", KEY REFUSED ({status})"),
            Some(CredentialState { refused, of, status, .. }) => format!(", {refused} of {of} keys refused ({status})"),
            None => String::new(),
        };
        format!("{state}{breaker}{key}")
    }
}

impl DecisionState {
    /// Route, pool and backend, without repeated names.
    pub(super) fn way(&self) -> String {
        let mut stops: Vec<&str> =
            [&self.route, &self.pool, &self.backend].into_iter().filter_map(Option::as_deref).collect();
        stops.dedup();
        if stops.is_empty() { super::words::NONE.to_owned() } else { stops.join(" > ") }
    }

    /// Reason of the decision.
    pub(super) fn why(&self) -> String {
        let why = super::words::plain(self.reason.as_deref().or(self.cache.as_deref()).unwrap_or_default());
        if self.attempts > 1 { format!("{why}, {} attempts", self.attempts) } else { why }
    }

    /// Outcome.
    pub(super) fn result(&self) -> String {
        if self.outcome == "ok" {
            "ok".to_owned()
        } else {
            format!("{} {}", self.status, super::words::plain(&self.outcome))
        }
    }
}
