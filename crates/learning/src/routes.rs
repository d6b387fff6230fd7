//! Learned state of routes, by name: tier weights, tier aims and length boundaries. It outlives policies.

use std::{collections::HashMap, sync::Arc};

use dashmap::DashMap;

use super::TierLearning;
use signalbox_policy::Policy;
use signalbox_schedule::{
    boundary::Boundary,
    tiers::{Standing, Tierings},
};
use signalbox_types::{Aim, Moment, Name};

/// Keys that a route with tiers keeps state for.
const MOST_KEYS: usize = 10_000;

/// Learned state of all routes. Shared by reference between threads.
#[derive(Default)]
pub struct Learning {
    /// The weights that routes with tiers learn from labels.
    pub tiers: Arc<TierLearning>,
    /// The controllers that meet the aims of routes with tiers.
    tierings: DashMap<Name, Arc<Tierings>>,
    /// The learned boundaries between short and long prompts.
    boundaries: DashMap<Name, Arc<Boundary>>,
}

impl Learning {
    /// Applies another policy: updates the aims of routes with tiers and drops the state of removed routes. Of the learned weights of removed
    /// routes, the few with the most labels are kept.
    pub fn apply_policy(&self, policy: &Policy) {
        let tiered: HashMap<_, _> = policy.models.tiered().collect();
        self.tierings.retain(|name, tierings| match tiered.get(name) {
            Some(tiers) => {
                tierings.set_aim(&tiers.aim, tiers.routes.len());
                true
            }
            None => false,
        });
        self.tiers.retain_routes(|name| tiered.contains_key(name));
        self.boundaries.retain(|name, _| policy.models.has_route(name));
    }

    /// The boundary between short and long prompts of a route.
    pub fn boundary(&self, route: &Name) -> Arc<Boundary> {
        if let Some(known) = self.boundaries.get(route) {
            return known.clone();
        }
        self.boundaries.entry(route.clone()).or_default().clone()
    }

    /// The chooser among the tiers of a route, which holds its aim.
    pub fn tierings(&self, route: &Name, aim: &Aim, tiers: usize) -> Arc<Tierings> {
        if let Some(known) = self.tierings.get(route) {
            return known.clone();
        }
        let new = || Arc::new(Tierings::new(aim, tiers, MOST_KEYS));
        self.tierings.entry(route.clone()).or_insert_with(new).clone()
    }

    /// The state of each route with tiers, sorted by name.
    pub fn standings(&self, now: Moment) -> Vec<(Name, Standing)> {
        let of = |entry: dashmap::mapref::multiple::RefMulti<'_, Name, Arc<Tierings>>| {
            (entry.key().clone(), entry.value().standing(now))
        };
        let mut standings: Vec<_> = self.tierings.iter().map(of).collect();
        standings.sort_by(|(one, _), (other, _)| one.cmp(other));
        standings
    }

    /// The learned boundaries, in tokens, sorted by route.
    pub fn learned_boundaries(&self) -> Vec<(Name, f64)> {
        let mut all: Vec<_> = self.boundaries.iter().map(|it| (it.key().clone(), it.value().tokens())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}
