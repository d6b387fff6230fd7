//! The requests of a journal played by a policy: by its own rules, on engines that behave as those of the journal did.

use std::{cell::RefCell, collections::HashMap, rc::Rc, sync::Arc, time::Duration};

use super::{
    entry::{BLOCK_TOKENS, Entries, Entry, Kept},
    tally::{End, Ended, Limits},
    traveller::{Missing, Replayed},
};
use crate::{
    policy::Policy,
    sim::{
        Job, Profile,
        cluster::{Scheduler, Setting, run},
        gateway::Gateway,
        outcome::{self, Outcome},
        traffic::Request,
    },
    types::Usage,
};

/// What is asked of answers where neither the command line nor the pool says so.
const USUAL: Limits = Limits { ttft: Duration::from_secs(1), tpot: Duration::from_millis(50) };

/// A policy to be played.
#[derive(Clone, Debug)]
pub struct Play {
    /// What it says.
    pub policy: Policy,
    /// What its engines are, in the order of the policy.
    pub profiles: Vec<Profile>,
    /// The share of attempts that fail at each.
    pub failing: Vec<f64>,
    /// What is asked of the time to the first token, in place of what pools say.
    pub ttft: Option<Duration>,
    /// The same of the time per further token.
    pub tpot: Option<Duration>,
}

/// What came of a play.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// By request, in the order of the journal.
    pub ended: Vec<Ended>,
    /// What the policy asked of requests that the journal does not have.
    pub missing: Missing,
    /// Most requests that each engine had at once, in the order of the policy.
    pub busiest: Vec<u32>,
}

impl Play {
    /// What is asked of answers of the pool called `name`.
    pub fn limits(&self, name: &str) -> Limits {
        limits(&self.policy, name, self.ttft, self.tpot)
    }

    /// Plays all of `entries` once.
    pub fn run(&self, entries: &Entries, seed: u64) -> Played {
        let lengths = lengths(entries);
        let mut dice = fastrand::Rng::with_seed(seed);
        let sent: Vec<Arc<Entry>> = entries.all.iter().filter(|entry| !self.keeps(entry)).cloned().collect();
        let requests: Vec<Request> = sent.iter().map(|entry| request(entry, &lengths, &mut dice)).collect();
        let profiles: Vec<_> =
            self.profiles.iter().map(|profile| Profile { block_tokens: BLOCK_TOKENS, ..*profile }).collect();
        let setting = Setting {
            engines: profiles.clone(),
            failing: self.failing.clone(),
            scrape: self.policy.engines.iter().filter_map(|engine| engine.scrape).min(),
            // Engines take seeds that follow one another from here.
            seed: seed << 8,
            ..Setting::default()
        };
        let missing = Rc::new(RefCell::default());
        let router = Replayed::new(sent, Rc::clone(&missing), seed);
        let mut gateway = Gateway::with(self.policy.clone(), Box::new(router), &profiles, seed << 8);
        let outcomes = run(&setting, &requests, &mut [&mut gateway as &mut dyn Scheduler]);
        let mut numbers = (0_u32..).zip(&requests).zip(&outcomes);
        let ended = entries.all.iter().map(|entry| {
            if self.keeps(entry) {
                return Ended { pool: entry.was.pool.clone(), end: End::Kept, cost: Some(0.0), ..Ended::default() };
            }
            let Some(((number, request), outcome)) = numbers.next() else { return Ended::default() };
            self.ended(&gateway, number, request, outcome)
        });
        let ended = ended.collect();
        let busiest = gateway.busiest().to_vec();
        drop(gateway);
        let missing = missing.take();
        Played { ended, missing, busiest }
    }

    /// Whether a kept answer would be given again: what was asked before is the same by any policy.
    fn keeps(&self, entry: &Entry) -> bool {
        let Some(caching) = &self.policy.caching else { return false };
        entry.kept.is_some_and(|kept| match kept {
            Kept::Exact => caching.exact.is_some(),
            Kept::Semantic => caching.semantic.is_some(),
            Kept::Coalesced => caching.coalesce,
        })
    }

    fn ended(&self, gateway: &Gateway, number: u32, request: &Request, outcome: &Outcome) -> Ended {
        let told = gateway.told(number);
        let pool = told.sent.map(|(pool, _)| &self.policy.pools[pool]);
        let prompt_tokens = u64::from(outcome.prompt_tokens);
        let usage = Usage {
            prompt_tokens,
            cached_tokens: Some(outcome.cached_tokens.into()),
            completion_tokens: outcome.tokens.into(),
            reasoning_tokens: None,
        };
        let begun = outcome.tokens > 0 || outcome.end == outcome::End::Answered;
        Ended {
            pool: pool.map(|pool| pool.name.to_string()),
            ttft: outcome.ttft.filter(|_| !request.whole).map(|ttft| ttft.as_secs_f64()),
            tpot: outcome.tpot().filter(|_| !request.whole).map(|tpot| tpot.as_secs_f64()),
            cost: pool.filter(|_| begun).and_then(|pool| pool.price).map(|price| price.cost(&usage)),
            prompt_tokens,
            cached_tokens: outcome.cached_tokens.into(),
            end: match outcome.end {
                outcome::End::Answered => End::Answered,
                outcome::End::Left => End::Left,
                outcome::End::Refused => End::Refused(told.refused.unwrap_or("refused").to_owned()),
                outcome::End::Cut | outcome::End::Open => End::Failed,
            },
            limits: pool.map(|pool| self.limits(&pool.name)),
        }
    }
}

/// What is asked of answers of the pool called `name`: by the command line, by the pool's objectives, or the usual.
fn limits(policy: &Policy, name: &str, ttft: Option<Duration>, tpot: Option<Duration>) -> Limits {
    let objectives = policy.pools.iter().find(|pool| *pool.name == *name).map(|pool| pool.objectives);
    let objectives = objectives.unwrap_or_default();
    Limits {
        ttft: ttft.or(objectives.ttft).unwrap_or(USUAL.ttft),
        tpot: tpot.or(objectives.tpot).unwrap_or(USUAL.tpot),
    }
}

/// The requests of the journal as they really ended. What was asked of them is read from `play`, so that both are held to the same.
pub fn recorded(entries: &Entries, play: &Play) -> Vec<Ended> {
    let ended = |entry: &Arc<Entry>| {
        let was = &entry.was;
        let end = match (&was.refused, entry.kept) {
            (_, Some(_)) => End::Kept,
            (Some(reason), _) => End::Refused(reason.clone()),
            _ if entry.leaves.is_some() => End::Left,
            _ if was.answered => End::Answered,
            _ => End::Failed,
        };
        let enough = entry.output_tokens.is_some_and(|tokens| tokens > 4);
        Ended {
            pool: was.pool.clone(),
            ttft: was.ttft.filter(|_| entry.stream),
            tpot: was.tpot.filter(|_| entry.stream && enough),
            cost: was.cost,
            prompt_tokens: entry.prompt_tokens.into(),
            cached_tokens: entry.cached_tokens.into(),
            end,
            limits: was.pool.as_deref().map(|pool| play.limits(pool)),
        }
    };
    entries.all.iter().map(ended).collect()
}

/// Lengths of answers, by the model that was asked for.
fn lengths(entries: &Entries) -> HashMap<&str, Vec<u32>> {
    let mut all: HashMap<&str, Vec<u32>> = HashMap::new();
    for entry in &entries.all {
        if let (Some(model), Some(tokens)) = (&entry.model, entry.output_tokens) {
            all.entry(model).or_default().push(tokens);
        }
    }
    all
}

fn request(entry: &Entry, lengths: &HashMap<&str, Vec<u32>>, dice: &mut fastrand::Rng) -> Request {
    let drawn =
        entry.model.as_deref().and_then(|model| lengths.get(model)).map_or(1, |all| all[dice.usize(..all.len())]);
    let blocks = entry.blocks.clone();
    let session = entry.particulars.as_ref().and_then(|it| it.session.as_deref()).and_then(super::line::hash);
    Request {
        at: entry.at,
        job: Job {
            prompt_tokens: entry.prompt_tokens,
            // Where the prompt's blocks are not known, as much of it is cached as was then.
            warm_tokens: if blocks.is_some() { 0 } else { entry.cached_tokens },
            blocks: blocks.unwrap_or_default(),
            output_tokens: entry.output_tokens.unwrap_or(drawn),
        },
        leaves: entry.leaves,
        whole: !entry.stream,
        session,
    }
}
