//! Policies compared: each plays the same recorded traffic, with the same seeds, on the engines that it names.

use std::{sync::Arc, time::Duration};

use super::{
    Profile,
    cluster::{Change, Scheduler, Setting, run},
    figures::{Figures, Slo, figures},
    gateway::Gateway,
    parallel::parallel_map,
    replay::replay,
    timed::Timed,
    trace::Arrival,
};
use crate::policy::{Policy, Route};

/// The share that has to be within the SLO for a rate to count as carried.
pub const ENOUGH: f64 = 0.9;

/// Halvings of the interval between two rates that were played. Of seven rates from 0.5 to 2, that leaves 3 %.
const STEPS: u32 = 3;

/// A policy under study.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What it says.
    pub policy: Policy,
    /// The route that every request takes.
    pub route: Arc<Route>,
    /// What its engines play, in the order of the policy; all with blocks of one size.
    pub profiles: Vec<Profile>,
    /// What is asked of the answers of each.
    pub slos: Vec<Slo>,
    /// What happens to them: when, to which, what.
    pub changes: Vec<(Duration, usize, Change)>,
}

/// The traffic that all policies play.
#[derive(Copy, Clone, Debug)]
pub struct Traffic<'a> {
    /// What was recorded.
    pub arrivals: &'a [Arrival],
    /// The longest that a play goes on taking requests.
    pub limit: Duration,
    /// Plays of each policy at each rate, seeded from 1.
    pub seeds: u64,
}

/// The highest rate that one seed carries.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Carried {
    /// Not even the least rate that was played.
    Less(f64),
    /// This one.
    About(f64),
    /// The highest rate that was played, and maybe more.
    AtLeast(f64),
}

impl Carried {
    /// The rate: a bound of it where it was not within the rates that were played.
    pub fn rate(self) -> f64 {
        match self {
            Self::Less(rate) | Self::About(rate) | Self::AtLeast(rate) => rate,
        }
    }
}

impl Subject {
    /// The places of the engines that its route can lead to, in the order of its pools.
    pub fn engines(&self) -> Vec<usize> {
        let mut engines = Vec::new();
        for target in &self.route.targets {
            for backend in &self.policy.pools[target.pool].backends {
                let named = target.model.is_none() || backend.model == target.model;
                if backend.serves == target.serves && named && !engines.contains(&backend.engine) {
                    engines.push(backend.engine);
                }
            }
        }
        engines
    }

    /// One play.
    pub fn play(&self, traffic: &Traffic<'_>, rate: f64, seed: u64) -> Figures {
        let requests = replay(traffic.arrivals, rate, traffic.limit, seed);
        let setting = Setting {
            engines: self.profiles.clone(),
            changes: self.changes.clone(),
            // The simulation asks all engines at once: as often as the policy does the one it asks most often.
            scrape: self.policy.engines.iter().filter_map(|engine| engine.scrape).min(),
            // Engines take seeds that follow one another from here.
            seed: seed << 8,
            ..Setting::default()
        };
        let gateway = Gateway::new(self.policy.clone(), &self.route, &self.profiles, seed << 8);
        let mut timed = Timed::new(Box::new(gateway));
        let outcomes = run(&setting, &requests, &mut [&mut timed as &mut dyn Scheduler]);
        let engines: Vec<_> = self.profiles.iter().copied().zip(self.slos.iter().copied()).collect();
        Figures { decision: Timed::mean([&timed]), ..figures(&requests, &outcomes, &engines) }
    }
}

/// Plays every subject at every rate with every seed, and calls `done` after each play. By subject, by rate, by seed.
pub fn play_all(
    subjects: &[Subject],
    traffic: &Traffic<'_>,
    rates: &[f64],
    done: impl Fn() + Sync,
) -> Vec<Vec<Vec<Figures>>> {
    let mut jobs = Vec::new();
    for subject in subjects {
        for &rate in rates {
            jobs.extend((1..=traffic.seeds).map(|seed| (subject, rate, seed)));
        }
    }
    let mut played = parallel_map(&jobs, done, |(subject, rate, seed)| subject.play(traffic, *rate, *seed)).into_iter();
    let mut seeds = || played.by_ref().take(traffic.seeds as usize).collect::<Vec<_>>();
    subjects.iter().map(|_| rates.iter().map(|_| seeds()).collect()).collect()
}

/// Plays of one subject and seed that a search for its goodput takes, at most.
pub const SEARCH: u64 = STEPS as u64;

/// The highest rate each subject carries with each seed, by bisection between the `rates` that were `played`; calls `done` after
/// each search. By subject, by seed.
pub fn goodput(
    subjects: &[Subject],
    traffic: &Traffic<'_>,
    rates: &[f64],
    played: &[Vec<Vec<Figures>>],
    done: impl Fn() + Sync,
) -> Vec<Vec<Carried>> {
    let seeds = traffic.seeds as usize;
    let jobs: Vec<_> = (0..subjects.len()).flat_map(|at| (0..seeds).map(move |seed| (at, seed))).collect();
    let found = parallel_map(&jobs, done, |&(at, seed)| {
        let carries = |rate: usize| played[at][rate][seed].attainment >= ENOUGH;
        let Some(last) = (0..rates.len()).rev().find(|&rate| carries(rate)) else {
            return Carried::Less(rates.first().copied().unwrap_or(f64::NAN));
        };
        let Some(&next) = rates.get(last + 1) else { return Carried::AtLeast(rates[last]) };
        let (mut good, mut too_much) = (rates[last], next);
        for _ in 0..STEPS {
            let middle = (good * too_much).sqrt();
            if subjects[at].play(traffic, middle, seed as u64 + 1).attainment >= ENOUGH {
                good = middle;
            } else {
                too_much = middle;
            }
        }
        Carried::About(good)
    });
    found.chunks(seeds.max(1)).map(<[Carried]>::to_vec).collect()
}
