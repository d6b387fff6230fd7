//! The gateway itself, with a policy of one pool that names only its engines, or their objectives too.

use signalbox::{
    config::Config,
    fleet::Registry,
    policy::compile,
    sim::{cluster::Scheduler, gateway::Gateway},
};

use crate::{peers::Exchanging, policies::Fleet};

/// Without objectives: `ours` is compared with rules that know none.
pub(crate) fn ours(fleet: &Fleet<'_>) -> Box<dyn Scheduler> {
    gateway(fleet, "", &Registry::default())
}

/// Several gateways with one memory; only their queues are their own.
pub(crate) fn one_memory(fleet: &Fleet<'_>) -> Box<dyn Scheduler> {
    gateway(fleet, "", fleet.shared)
}

/// Several gateways that exchange ten times a second which prompts were computed where, and with `loads` what they have
/// under way.
pub(crate) fn exchanging(fleet: &Fleet<'_>, loads: bool) -> Box<dyn Scheduler> {
    let make = |registry: &Registry| gateway(fleet, "", registry);
    Box::new(Exchanging::new(make, (fleet.bus.clone(), fleet.gateway), loads))
}

/// With the scenario's limits as objectives. The part of the limit on TTFT that grows with the prompt has no place in
/// an objective, and is left out.
pub(crate) fn with_objectives(fleet: &Fleet<'_>) -> Box<dyn Scheduler> {
    gateway(fleet, &objectives(fleet), &Registry::default())
}

/// With these objectives and the shorter tail.
pub(crate) fn tail(fleet: &Fleet<'_>) -> Box<dyn Scheduler> {
    gateway(fleet, &format!("{}, overload: tail", objectives(fleet)), &Registry::default())
}

fn objectives(fleet: &Fleet<'_>) -> String {
    let limits = fleet.play.limits;
    let millis = |seconds: f64| (seconds * 1e3).max(1.0) as u64;
    let (ttft, tpot) = (millis(limits.ttft), millis(limits.tpot));
    format!(", objectives: [{{ ttft: {{ p90: {ttft}ms }} }}, {{ tpot: {{ p90: {tpot}ms }} }}]")
}

fn gateway(fleet: &Fleet<'_>, keys: &str, registry: &Registry) -> Box<dyn Scheduler> {
    let engines = &fleet.play.setting.engines;
    let urls: Vec<String> = (0..engines.len()).map(|engine| format!("http://engine-{engine}:8000/v1")).collect();
    let text = format!("pools: {{ main: {{ model: m, backends: [{}]{keys} }} }}", urls.join(", "));
    let policy = Config::parse("bench.yaml", &text, &|_| None, &|_| Ok(String::new()))
        .and_then(|config| compile(&config))
        .expect("the policy is valid");
    let route = policy
        .models
        .get("auto")
        .and_then(|model| model.first())
        .expect("a policy without models has the model `auto`")
        .clone();
    Box::new(Gateway::new(policy, &route, engines, registry, fleet.seed))
}
