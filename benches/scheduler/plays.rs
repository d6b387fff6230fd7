//! Plays scenarios with policies, spread over the processors.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use indicatif::ProgressBar;
use signalbox::sim::cluster::{self, Scheduler};

use crate::{
    policies::{Fleet, Policy},
    scenario::{ENGINES, Scenario, Traces, profile},
    summary::{Figures, figures},
    timed::Timed,
};

/// Does `work` for every one of `jobs`, one thread for each processor; the results in the same order.
pub(crate) fn spread<J: Sync, R: Send>(jobs: &[J], progress: &ProgressBar, work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = |_| {
        let mut done = Vec::new();
        while let Some((at, job)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, jobs.get(at)?)))
        {
            done.push((at, work(job)));
            progress.inc(1);
        }
        done
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || done(thread))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    results.sort_unstable_by_key(|result| result.0);
    assert_eq!(results.len(), jobs.len(), "a play ended in a panic");
    results.into_iter().map(|result| result.1).collect()
}

/// One seed of a scenario with a policy; `None` where its trace is not here.
pub(crate) fn play(scenario: &Scenario, policy: &Policy, traces: &Traces, seed: u64) -> Option<Figures> {
    let play = scenario.play(traces, policy.scrape, seed)?;
    let fleet = |gateway| Fleet { engines: ENGINES, kv_tokens: profile().kv_tokens, seed: seed << 8 | gateway as u64 };
    let mut gateways: Vec<Timed> =
        (0..play.gateways).map(|gateway| Timed::new((policy.make)(&fleet(gateway)))).collect();
    let mut schedulers: Vec<&mut dyn Scheduler> =
        gateways.iter_mut().map(|gateway| gateway as &mut dyn Scheduler).collect();
    let outcomes = cluster::run(&play.setting, &play.requests, &mut schedulers);
    let decisions: u32 = gateways.iter().map(|gateway| gateway.decisions).sum();
    let took: f64 = gateways.iter().map(|gateway| gateway.took.as_secs_f64()).sum();
    let figures = figures(&play.requests, &outcomes, &profile(), ENGINES);
    Some(Figures { decision: took * 1e6 / f64::from(decisions.max(1)), ..figures })
}
