//! The desk where every request's record ends: metrics, the journal, and the last decisions for the page.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwapOption;
use dashmap::DashMap;

use super::{
    AccessLog, Hall, cache::Cache, callers::Callers, disk::Disk, habits::Habits, held::Held, lessons::Lessons,
    line::Line, meaning::Meanings, shadow::Purse, shared::Shared, slo::Slos,
};
use crate::{
    cache::Purge,
    measure::{BytesPerToken, Rate},
    otel::Exporter,
    policy::{Policy, Tokenizer},
    prompt::tokens::{Counter, TokenizerSlot},
    schedule::{
        boundary::Boundary,
        tiers::{Standing, Tierings},
    },
    telemetry::{Journal, Metrics},
    types::{
        Aim, Clock, Moment, Name, Outcome,
        fault::{INTERNAL, STOPPED},
    },
};

/// How many decisions are remembered for the page and for `GET /admin/decisions/{id}`.
pub const REMEMBERED: usize = 1000;

/// Keys that a route with tiers remembers.
const MOST_KEYS: usize = 10_000;

/// What records are settled with; shared by the steps that measure.
pub struct Desk {
    /// The gateway's clock.
    pub clock: Clock,
    /// All metrics.
    pub metrics: Metrics,
    /// Where decisions are written, while the policy asks for it.
    pub journal: ArcSwapOption<Journal>,
    /// Where requests that are over are told, while the policy asks for it.
    pub access_log: ArcSwapOption<AccessLog>,
    /// Where traces go, while the policy asks for it.
    pub otel: ArcSwapOption<Exporter>,
    /// What hashes of prompts and conversations begin with. Known to nobody, so that nobody can make prompts whose hashes collide.
    pub(super) salt: u64,
    /// Bytes per token over all answers.
    pub bytes_per_token: BytesPerToken,
    /// Requests that ended, per second.
    pub rate: Rate,
    /// What is kept of answers.
    pub cache: Cache,
    /// What of it is on disk.
    pub disk: Disk,
    /// What of it other gateways have.
    pub shared: Shared,
    /// What callers use of what they may use.
    pub callers: Callers,
    /// Where requests wait for room.
    pub hall: Arc<Hall>,
    /// Which of its pools each route with limits used last, by its name: the place in the route.
    pub(super) spills: DashMap<Name, usize>,
    /// The lengths from which on prompts are long, where that is learned, by the route's name.
    boundaries: DashMap<Name, Arc<Boundary>>,
    /// What routes with tiers learn of their own traffic.
    pub lessons: Arc<Lessons>,
    /// What holds the aims of routes with tiers, by the route's name.
    tierings: DashMap<Name, Arc<Tierings>>,
    /// What counts the tokens of each pool's prompts, with what was learned of its templates.
    counters: DashMap<Name, (Tokenizer, Arc<Counter>)>,
    /// Answers to prompts that mean the same.
    pub meanings: Arc<Meanings>,
    /// What traffic of our own making may cost.
    pub(super) purse: Arc<Purse>,
    /// How often something was forgotten.
    purges: AtomicU64,
    /// How callers' prompts begin.
    pub habits: Habits,
    /// The error budgets of pools and routes.
    pub slos: Slos,
    /// Bodies of requests in memory.
    pub(super) held: Arc<Held>,
    /// Whether the gateway ends what is left under way.
    cutting: AtomicBool,
    recent: Mutex<VecDeque<Arc<Line>>>,
}

impl Desk {
    /// An empty desk.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            metrics: Metrics::new(),
            journal: ArcSwapOption::empty(),
            access_log: ArcSwapOption::empty(),
            otel: ArcSwapOption::empty(),
            salt: fastrand::u64(..),
            bytes_per_token: BytesPerToken::new(),
            rate: Rate::new(),
            cache: Cache::new(),
            disk: Disk::default(),
            shared: Shared::default(),
            callers: Callers::default(),
            hall: Arc::default(),
            spills: DashMap::new(),
            boundaries: DashMap::new(),
            lessons: Arc::default(),
            tierings: DashMap::new(),
            counters: DashMap::new(),
            meanings: Arc::new(Meanings::new()),
            purse: Arc::default(),
            purges: AtomicU64::new(0),
            habits: Habits::default(),
            slos: Slos::default(),
            held: Arc::default(),
            cutting: AtomicBool::new(false),
            recent: Mutex::default(),
        }
    }

    /// From which length on the route called `name` takes a prompt for long.
    pub(super) fn boundary(&self, name: &Name) -> Arc<Boundary> {
        if let Some(known) = self.boundaries.get(name) {
            return known.clone();
        }
        self.boundaries.entry(name.clone()).or_default().clone()
    }

    /// What chooses among the tiers of the route called `name`, and holds what it aims at.
    pub(super) fn tierings(&self, name: &Name, aim: &Aim, tiers: usize) -> Arc<Tierings> {
        if let Some(known) = self.tierings.get(name) {
            return known.clone();
        }
        let new = || Arc::new(Tierings::new(aim, tiers, MOST_KEYS));
        self.tierings.entry(name.clone()).or_insert_with(new).clone()
    }

    /// The gateway ends what is under way.
    pub fn cut(&self) {
        self.cutting.store(true, Relaxed);
    }

    /// How something ended that was dropped where it stood.
    pub(super) fn left(&self) -> Outcome {
        if std::thread::panicking() {
            Outcome::Failed(INTERNAL)
        } else if self.cutting.load(Relaxed) {
            Outcome::Failed(STOPPED)
        } else {
            Outcome::ClientGone
        }
    }

    /// Keeps to another policy: routes with tiers go on with their new aims, and what belongs to routes that are gone is forgotten; of their
    /// lessons a few are kept.
    pub fn follow(&self, policy: &Policy) {
        self.slos.follow(policy, self.clock.now());
        self.purse.follow(policy.background.as_ref());
        self.cache.follow(policy.caching.as_ref());
        self.meanings.follow(policy.caching.as_ref());
        let tiered: HashMap<_, _> = policy.models.tiered().collect();
        self.tierings.retain(|name, tierings| match tiered.get(name) {
            Some(tiers) => {
                tierings.follow(&tiers.aim, tiers.routes.len());
                true
            }
            None => false,
        });
        self.lessons.bound(|name| tiered.contains_key(name));
        self.boundaries.retain(|name, _| policy.models.has_route(name));
        self.spills.retain(|name, _| policy.models.has_route(name));
    }

    /// Forgets the kept answers that `purge` says, also on disk; how many those in memory were. Other gateways that share are told. It
    /// looks at every one, and waits for the disk.
    pub fn forget(&self, purge: &Purge) -> usize {
        self.shared.purge(purge);
        self.forget_here(purge)
    }

    /// The same for what another gateway has told.
    pub(super) fn forget_here(&self, purge: &Purge) -> usize {
        self.disk.note(purge);
        self.purges.fetch_add(1, Relaxed);
        let gone = self.cache.purge(purge) + self.meanings.purge(purge);
        self.disk.purge(purge);
        gone
    }

    /// How often something was forgotten so far: what is about to be kept, and was answered before, may be what was meant.
    pub(super) fn purges(&self) -> u64 {
        self.purges.load(Relaxed)
    }

    /// How each route with tiers stands, by its name.
    pub fn standings(&self, now: Moment) -> Vec<(Name, Standing)> {
        let of = |entry: dashmap::mapref::multiple::RefMulti<'_, Name, Arc<Tierings>>| {
            (entry.key().clone(), entry.value().standing(now))
        };
        let mut standings: Vec<_> = self.tierings.iter().map(of).collect();
        standings.sort_by(|(one, _), (other, _)| one.cmp(other));
        standings
    }

    /// Where each route that learns its boundary between short and long prompts has it, in tokens.
    pub fn learned_boundaries(&self) -> Vec<(Name, f64)> {
        let mut all: Vec<_> = self.boundaries.iter().map(|it| (it.key().clone(), it.value().tokens())).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// What counts the tokens of prompts for the pool of this name; anew where its tokenizer is another one.
    pub(super) fn counter(
        &self,
        pool: &Name,
        tokenizer: &Tokenizer,
        source: impl Fn(&Tokenizer) -> Arc<TokenizerSlot>,
    ) -> Arc<Counter> {
        let new = || (tokenizer.clone(), Arc::new(Counter::new(source(tokenizer))));
        let mut known = self.counters.entry(pool.clone()).or_insert_with(new);
        if known.0 != *tokenizer {
            *known = new();
        }
        known.1.clone()
    }

    pub(super) fn keep(&self, line: Line) {
        if line.outcome == Outcome::Complete.label()
            && line.explained.as_ref().is_some_and(|explained| explained.tier.is_some())
            && let Some(attempt) = line.answered.and_then(|at| line.attempts.get(at))
        {
            self.lessons.answered(&line.id, line.key.as_ref(), &attempt.pool);
        }
        let line = Arc::new(line);
        if let Some(journal) = &*self.journal.load() {
            journal.write(line.clone());
        }
        if line.background.is_none()
            && let Some(log) = &*self.access_log.load()
        {
            log.write(line.clone());
        }
        let mut recent = self.recent();
        if recent.len() == REMEMBERED {
            recent.pop_front();
        }
        recent.push_back(line);
    }

    /// The last `most` decisions, newest first.
    pub fn last(&self, most: usize) -> Vec<Arc<Line>> {
        self.recent().iter().rev().take(most).cloned().collect()
    }

    /// The decision on the request with this id, while it is remembered.
    pub fn find(&self, id: &str) -> Option<Arc<Line>> {
        self.recent().iter().rev().find(|line| *line.id == *id).cloned()
    }

    /// The same for `caller`'s own request, whoever else gave one that id.
    pub(super) fn find_of(&self, id: &str, caller: Option<&Name>) -> Option<Arc<Line>> {
        self.recent().iter().rev().find(|line| *line.id == *id && line.key.as_ref() == caller).cloned()
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Arc<Line>>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
