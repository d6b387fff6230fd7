//! Comparison of policies: each plays the same recorded traffic with the same seeds on its engines.

use std::{sync::Arc, time::Duration};

use super::{
    Profile,
    cluster::{Change, Scheduler, Setting, run},
    figures::{Figures, Slo, figures},
    gateway::Gateway,
    parallel::parallel_map,
    replay::replay,
    router::{Fixed, Router},
    rule_router::RuleRouter,
    timed::Timed,
    trace::Arrival,
};
use signalbox_fleet::Registry;
use signalbox_policy::{Model, Policy, Route};
use signalbox_types::Name;

/// SLO attainment from which a rate counts as carried.
pub const ENOUGH: f64 = 0.9;

/// Bisection steps between two played rates. Between seven rates from 0.5 to 2 that leaves 3 %.
const STEPS: u32 = 3;

/// Routing of simulated requests.
#[derive(Clone, Debug)]
pub enum Routing {
    /// Every request takes this route.
    Route(Arc<Route>),
    /// The rules of the model with this name.
    Model(Name, Arc<Model>),
}

impl Routing {
    /// The routes that it may lead to.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        let (one, rules) = match self {
            Self::Route(route) => (Some(route), None),
            Self::Model(_, model) => (None, Some(model.routes())),
        };
        one.into_iter().chain(rules.into_iter().flatten())
    }

    fn router(&self, seed: u64) -> Box<dyn Router> {
        match self {
            Self::Route(route) => Box::new(Fixed(route.clone())),
            Self::Model(name, model) => Box::new(RuleRouter::new(name.clone(), model.clone(), seed)),
        }
    }
}

/// A policy to be compared.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The policy.
    pub policy: Policy,
    /// Routing of its requests.
    pub routing: Routing,
    /// Profiles of its engines, in the order of the policy; all with the same block size.
    pub profiles: Vec<Profile>,
    /// SLO of each engine's answers.
    pub slos: Vec<Slo>,
    /// Time, engine and kind of scheduled events.
    pub changes: Vec<(Duration, usize, Change)>,
}

/// Traffic that every policy plays.
#[derive(Copy, Clone, Debug)]
pub struct Traffic<'a> {
    /// The recorded arrivals.
    pub arrivals: &'a [Arrival],
    /// Longest time over which a play accepts requests.
    pub limit: Duration,
    /// Plays of each policy at each rate, with seeds from 1.
    pub seeds: u64,
}

/// Highest rate that a policy carries with one seed.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Carried {
    /// Below the lowest rate that was played.
    Less(f64),
    /// About this rate.
    About(f64),
    /// At least the highest rate that was played.
    AtLeast(f64),
}

impl Carried {
    /// The rate, or a bound of it if it lies outside the played rates.
    pub fn rate(self) -> f64 {
        match self {
            Self::Less(rate) | Self::About(rate) | Self::AtLeast(rate) => rate,
        }
    }
}

impl Subject {
    /// Indexes of the engines that its routes can reach, in the order of their pools.
    pub fn engines(&self) -> Vec<usize> {
        let mut engines = Vec::new();
        for target in self.routing.routes().flat_map(|route| &route.targets) {
            for backend in &self.policy.pools[target.pool].backends {
                let named = target.model.is_none() || backend.model == target.model;
                if backend.serves == target.serves && named && !engines.contains(&backend.engine) {
                    engines.push(backend.engine);
                }
            }
        }
        engines
    }

    /// Plays the traffic once.
    pub fn play(&self, traffic: &Traffic<'_>, rate: f64, seed: u64) -> Figures {
        let requests = replay(traffic.arrivals, rate, traffic.limit, seed);
        let setting = Setting {
            engines: self.profiles.clone(),
            changes: self.changes.clone(),
            // The simulation scrapes all engines at once, at the shortest interval in the policy.
            scrape: self.policy.engines.iter().filter_map(|engine| engine.scrape).min(),
            // The engines take consecutive seeds from here.
            seed: seed << 8,
            ..Setting::default()
        };
        let router = self.routing.router(seed);
        let gateway = Gateway::with(self.policy.clone(), router, &self.profiles, &Registry::default(), seed << 8);
        let mut timed = Timed::new(Box::new(gateway));
        let outcomes = run(&setting, &requests, &mut [&mut timed as &mut dyn Scheduler]);
        let engines: Vec<_> = self.profiles.iter().copied().zip(self.slos.iter().copied()).collect();
        Figures { decision: Timed::mean([&timed]), ..figures(&requests, &outcomes, &engines) }
    }
}

/// Plays every subject at every rate with every seed; calls `done` after each play. Indexed by subject, rate, seed.
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

/// Most plays of one goodput search.
pub const SEARCH: u64 = STEPS as u64;

/// The highest rate that each subject carries with each seed, by bisection between the `played` `rates`; calls `done` after each search.
/// Indexed by subject, seed.
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
