//! Methods of the admin API's state for display, and the journal entry of one decision. A gateway of another release may send more or fewer
//! fields; missing ones are not shown.

use super::{
    sheet::Tone,
    words::{NONE, count},
};
pub(super) use signalbox_journal::recorded::{Attempt, Candidate, Line};
pub(super) use signalbox_server::state::{BackendState, DecisionState, LeavingState, PoolState, Quantiles, State};
use signalbox_server::state::{CredentialState, Level};
use signalbox_telemetry::SloLive;

/// All backends with the names of their pools.
pub(super) fn all_backends(state: &State) -> impl Iterator<Item = (&str, &BackendState)> {
    state.pools.iter().flat_map(|pool| pool.backends.iter().map(|backend| (&*pool.name, backend)))
}

/// All backends that get no new requests, with the names of their pools.
pub(super) fn leaving_backends(state: &State) -> impl Iterator<Item = (&str, &LeavingState)> {
    state.pools.iter().flat_map(|pool| pool.leaving.iter().map(|backend| (&*pool.name, backend)))
}

/// All objectives with their owners, the worst first.
pub(super) fn objectives_worst_first(state: &State) -> Vec<(String, &SloLive)> {
    let pools = state.pools.iter().map(|pool| ("pool", &pool.name, &pool.slo));
    let routes = state.routes.iter().map(|route| ("route", &route.name, &route.slo));
    let named = |(kind, name, slo)| {
        let slo: &Vec<SloLive> = slo;
        slo.iter().map(move |slo| (format!("{kind} {name}"), slo))
    };
    let mut all: Vec<_> = pools.chain(routes).flat_map(named).collect();
    let rank = |slo: &SloLive| match &*slo.state {
        "exhausted" => 0,
        "burning" => 1,
        "missing" => 2,
        _ => 3,
    };
    all.sort_by(|(_, one), (_, other)| {
        rank(one).cmp(&rank(other)).then(other.burn.over("1h").total_cmp(&one.burn.over("1h")))
    });
    all
}

/// Health in one line.
pub(super) fn health_verdict(state: &State) -> String {
    let backends = all_backends(state).count();
    match state.health.troubles.len() {
        0 if state.requests.total == 0 => format!("Ready: {backends} backends, no traffic yet"),
        0 => format!("All is well: {backends} backends up, every budget holds"),
        more => {
            let not = if state.health.level == Level::Bad { "Not well: " } else { "" };
            format!("{not}{more} thing{} to look at", if more == 1 { "" } else { "s" })
        }
    }
}

/// State in words: reachability, breaker, credentials and origin.
pub(super) fn backend_words(backend: &BackendState) -> String {
    let breaker = match &*backend.breaker {
        "open" => ", left out",
        "half_open" => ", tried again",
        _ => "",
    };
    let state = if backend.state == "down" { "DOWN" } else { &backend.state };
    let key = match &backend.credential {
        Some(CredentialState { refused, of, status, .. }) if refused == of => format!(", KEY REFUSED ({status})"),
        Some(CredentialState { refused, of, status, .. }) => format!(", {refused} of {of} keys refused ({status})"),
        None => String::new(),
    };
    format!("{state}{breaker}{key}{}", origin(&backend.origin))
}

/// Its row in the table of backends: name, pool, state and requests in flight.
pub(super) fn leaving_cells(leaving: &LeavingState, pool: &str) -> [String; 15] {
    let state = format!("{}{}", leaving.state, origin(&leaving.origin));
    let known = [leaving.name.to_string(), pool.to_owned(), state, NONE.to_owned(), count(leaving.in_flight.into())];
    let mut known = known.into_iter();
    std::array::from_fn(|column| match known.next() {
        Some(cell) => cell,
        // Without any GPU exporter, the empty column is removed.
        None if column == 13 => String::new(),
        None => NONE.to_owned(),
    })
}

/// Tone of its row.
pub(super) fn leaving_tone(leaving: &LeavingState) -> Tone {
    if leaving.state == "draining" { Tone::Warn } else { Tone::Soft }
}

/// Kind of the origin of a backend that the policy does not name.
fn origin(origin: &str) -> String {
    match origin.split(' ').next() {
        None | Some("" | "policy") => String::new(),
        Some(kind) => format!(", {kind}"),
    }
}

/// Route, pool and backend, without repeated names.
pub(super) fn decision_way(decision: &DecisionState) -> String {
    let mut stops: Vec<&str> =
        [&decision.route, &decision.pool, &decision.backend].into_iter().filter_map(Option::as_deref).collect();
    stops.dedup();
    if stops.is_empty() { super::words::NONE.to_owned() } else { stops.join(" > ") }
}

/// Reason of the decision.
pub(super) fn decision_reason(decision: &DecisionState) -> String {
    let why = super::words::plain(decision.reason.as_deref().or(decision.cache.as_deref()).unwrap_or_default());
    if decision.attempts > 1 { format!("{why}, {} attempts", decision.attempts) } else { why }
}

/// Outcome.
pub(super) fn decision_result(decision: &DecisionState) -> String {
    if decision.outcome == "ok" {
        "ok".to_owned()
    } else {
        format!("{} {}", decision.status, super::words::plain(&decision.outcome))
    }
}
