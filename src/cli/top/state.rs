//! Methods of the admin API's state for display, and the journal entry of one decision. A gateway of another release may send more or fewer
//! fields; missing ones are not shown.

use super::{
    sheet::Tone,
    words::{NONE, count},
};
pub(super) use crate::journal::recorded::{Attempt, Candidate, Line};
pub(super) use crate::server::state::{BackendState, DecisionState, LeavingState, PoolState, Quantiles, State};
use crate::{
    server::state::{CredentialState, Level},
    telemetry::SloLive,
};

impl State {
    /// All backends with the names of their pools.
    pub(super) fn backends(&self) -> impl Iterator<Item = (&str, &BackendState)> {
        self.pools.iter().flat_map(|pool| pool.backends.iter().map(|backend| (&*pool.name, backend)))
    }

    /// All backends that get no new requests, with the names of their pools.
    pub(super) fn leaving(&self) -> impl Iterator<Item = (&str, &LeavingState)> {
        self.pools.iter().flat_map(|pool| pool.leaving.iter().map(|backend| (&*pool.name, backend)))
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
    /// State in words: reachability, breaker, credentials and origin.
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
        format!("{state}{breaker}{key}{}", origin(&self.origin))
    }
}

impl LeavingState {
    /// Its row in the table of backends: name, pool, state and requests in flight.
    pub(super) fn cells(&self, pool: &str) -> [String; 15] {
        let state = format!("{}{}", self.state, origin(&self.origin));
        let known = [self.name.to_string(), pool.to_owned(), state, NONE.to_owned(), count(self.in_flight.into())];
        let mut known = known.into_iter();
        std::array::from_fn(|column| match known.next() {
            Some(cell) => cell,
            // Without any GPU exporter, the empty column is removed.
            None if column == 13 => String::new(),
            None => NONE.to_owned(),
        })
    }

    /// Tone of its row.
    pub(super) fn tone(&self) -> Tone {
        if self.state == "draining" { Tone::Warn } else { Tone::Soft }
    }
}

/// Kind of the origin of a backend that the policy does not name.
fn origin(origin: &str) -> String {
    match origin.split(' ').next() {
        None | Some("" | "policy") => String::new(),
        Some(kind) => format!(", {kind}"),
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
