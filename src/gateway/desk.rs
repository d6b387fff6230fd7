//! The desk where every request's record ends: metrics, the journal, and the last decisions for the page.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use arc_swap::ArcSwapOption;
use dashmap::DashMap;

use super::{Hall, held::Held};
use crate::{
    accounting::Accounting,
    answers::Answers,
    journal::DecisionLog,
    learning::Learning,
    measure::BytesPerToken,
    otel::Exporter,
    policy::{Policy, Tokenizer},
    prompt::tokens::{Counter, Source},
    telemetry::Metrics,
    types::{
        Clock, Name, Outcome,
        fault::{INTERNAL, STOPPED},
    },
};

/// What records are settled with; shared by the steps that measure.
pub struct Desk {
    /// The gateway's clock.
    pub clock: Clock,
    /// All metrics.
    pub metrics: Metrics,
    /// What callers used and were promised.
    pub accounting: Arc<Accounting>,
    /// The record of finished requests.
    pub decisions: Arc<DecisionLog>,
    /// Where traces go, while the policy asks for it.
    pub otel: ArcSwapOption<Exporter>,
    /// What hashes of prompts and conversations begin with. Known to nobody, so that nobody can make prompts whose hashes collide.
    pub(super) salt: u64,
    /// Bytes per token over all answers.
    pub bytes_per_token: BytesPerToken,
    /// Where requests wait for room.
    pub hall: Arc<Hall>,
    /// Which of its pools each route with limits used last, by its name: the place in the route.
    pub(super) spills: DashMap<Name, usize>,
    /// What routes learn of their own traffic.
    pub learning: Arc<Learning>,
    /// What counts the tokens of each pool's prompts, with what was learned of its templates.
    counters: DashMap<Name, (Tokenizer, Arc<Counter>)>,
    /// Kept answers.
    pub answers: Arc<Answers>,
    /// Bodies of requests in memory.
    pub(super) held: Arc<Held>,
    /// Whether the gateway ends what is left under way.
    cutting: AtomicBool,
}

impl Desk {
    /// An empty desk.
    pub fn new(clock: Clock) -> Self {
        let metrics = Metrics::new();
        Self {
            clock,
            answers: Arc::new(Answers::new(clock, metrics.clone())),
            accounting: Arc::new(Accounting::new(metrics.clone())),
            metrics,
            decisions: Arc::default(),
            otel: ArcSwapOption::empty(),
            salt: fastrand::u64(..),
            bytes_per_token: BytesPerToken::new(),
            hall: Arc::default(),
            spills: DashMap::new(),
            learning: Arc::default(),
            counters: DashMap::new(),
            held: Arc::default(),
            cutting: AtomicBool::new(false),
        }
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
        self.accounting.apply_policy(policy, self.clock.now());
        self.answers.apply_policy(policy);
        self.learning.apply_policy(policy);
        self.spills.retain(|name, _| policy.models.has_route(name));
    }

    /// What counts the tokens of prompts for the pool of this name; anew where its tokenizer is another one.
    pub(super) fn counter(
        &self,
        pool: &Name,
        tokenizer: &Tokenizer,
        source: impl Fn(&Tokenizer) -> Arc<Source>,
    ) -> Arc<Counter> {
        let new = || (tokenizer.clone(), Arc::new(Counter::new(source(tokenizer))));
        let mut known = self.counters.entry(pool.clone()).or_insert_with(new);
        if known.0 != *tokenizer {
            *known = new();
        }
        known.1.clone()
    }
}
