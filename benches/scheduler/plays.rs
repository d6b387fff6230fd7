//! Runs a scenario with a policy.

use signalbox::sim::{
    cluster::{self, Scheduler},
    figures::{Figures, Slo, figures},
    timed::Timed,
};

use crate::{
    policies::{Fleet, Policy},
    scenario::{ENGINES, Scenario, Traces, profile},
};

/// Runs one seed of a scenario with a policy. `None` if its trace is missing.
pub(crate) fn play(scenario: &Scenario, policy: &Policy, traces: &Traces, seed: u64) -> Option<Figures> {
    let play = scenario.play(traces, policy.scrape, seed)?;
    let fleet = |gateway| Fleet { engines: ENGINES, kv_tokens: profile().kv_tokens, seed: seed << 8 | gateway as u64 };
    let mut gateways: Vec<Timed> =
        (0..play.gateways).map(|gateway| Timed::new((policy.make)(&fleet(gateway)))).collect();
    let mut schedulers: Vec<&mut dyn Scheduler> =
        gateways.iter_mut().map(|gateway| gateway as &mut dyn Scheduler).collect();
    let outcomes = cluster::run(&play.setting, &play.requests, &mut schedulers);
    let engines = [(profile(), Slo::default()); ENGINES];
    let figures = figures(&play.requests, &outcomes, &engines);
    Some(Figures { decision: Timed::mean(&gateways), ..figures })
}
