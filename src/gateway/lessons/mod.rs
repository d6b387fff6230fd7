//! What routes with tiers learn of their own traffic: labels from callers, and from conversations that ask again, become weights of
//! their own for scoring prompts, once they are shown to be better.

mod recent;
mod store;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use dashmap::DashMap;
use serde::{Deserialize, Serialize};

pub(super) use self::recent::Decided;
use self::recent::Recent;
pub use self::store::StoreError;
use crate::{
    measure::lock,
    prompt::complexity::{
        Features, Weights,
        learn::{Label, Learner, Promotion, Tier, Verdict},
    },
    types::{Moment, Name},
};

/// Labels between two tries at better weights.
const BETWEEN_TRIES: usize = 50;
/// After going back to earlier weights, so many labels pass before the next try: the same labels would lead to the same weights again.
const AFTER_ROLLBACK: usize = 500;

/// What every route has learned, and the decisions that may still be judged. Shared by reference between threads.
#[derive(Debug, Default)]
pub struct Lessons {
    routes: DashMap<Name, Arc<Lesson>>,
    recent: Mutex<Recent>,
    /// Where it is kept, if anywhere.
    file: ArcSwapOption<PathBuf>,
    /// Whether conversations that ask again count as labels.
    re_ask: std::sync::atomic::AtomicBool,
}

/// What one route has learned.
#[derive(Debug)]
struct Lesson {
    /// In use.
    weights: ArcSwap<Weights>,
    learner: Mutex<Learner>,
    /// Labels until the next try at better weights.
    until_try: AtomicUsize,
    tally: Mutex<Tally>,
}

/// What came in for a route, and what came of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Labels from callers.
    pub feedback: u64,
    /// Labels from conversations that asked again, or went on.
    pub re_ask: u64,
    /// Tries at better weights.
    pub tries: u64,
    /// Those that were better.
    pub promotions: u64,
    /// Times that earlier weights were brought back.
    pub rollbacks: u64,
    /// What the last candidate would have gained in quality a prompt, and the lower bound of that.
    pub last_gain: Option<(f64, f64)>,
}

/// How a route's learning stands.
#[derive(Clone, Debug, Serialize)]
pub struct LessonTold {
    /// The version of the weights in use.
    pub weights: String,
    /// Labels that are kept.
    pub labels: usize,
    /// Quality a prompt that the weights in use would have gained over none, on labels they did not know.
    pub shadow: f64,
    /// What came in, and what came of it.
    #[serde(flatten)]
    pub tally: Tally,
}

/// What became of a word of feedback.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is a label now.
    Learned,
    /// The request was not one that tiers decided: there is nothing to learn from it.
    Noted,
    /// No such request is remembered, or it was another caller's.
    Unknown,
}

impl Lesson {
    fn of(learner: Learner, tally: Tally) -> Self {
        Self {
            weights: ArcSwap::from_pointee(learner.weights().clone()),
            learner: Mutex::new(learner),
            until_try: AtomicUsize::new(BETWEEN_TRIES),
            tally: Mutex::new(tally),
        }
    }
}

impl Lessons {
    /// Keeps to what the policy says of learning: the file, and whether conversations that ask again count.
    pub fn follow(&self, file: Option<&Path>, re_ask: bool) {
        self.file.store(file.map(|file| Arc::new(file.to_owned())));
        self.re_ask.store(re_ask, Relaxed);
    }

    /// The weights that the prompts of `route` are scored by, where it learned its own.
    pub(super) fn weights(&self, route: &Name) -> Option<Arc<Weights>> {
        self.routes.get(route).map(|lesson| lesson.weights.load_full())
    }

    /// Remembers a decision, so that it can be judged. In a conversation, what it says of the decision before it is learned.
    pub(super) fn decided(self: &Arc<Self>, id: &Arc<str>, decided: Decided, now: Moment) {
        let judged = lock(&self.recent).add(id, decided, now);
        if let Some((before, verdict)) = judged.filter(|_| self.re_ask.load(Relaxed)) {
            self.learn(&before, verdict, |tally| tally.re_ask += 1);
        }
    }

    /// A caller's word on the answer to the request `id`; `served` is the pool that answered it, where that is known.
    pub(super) fn feedback(
        self: &Arc<Self>,
        id: &str,
        caller: Option<&Name>,
        served: Option<&Name>,
        verdict: Verdict,
    ) -> Heard {
        let found = lock(&self.recent).find(id);
        let Some(decided) = found else { return Heard::Noted };
        if decided.key.as_ref() != caller {
            return Heard::Unknown;
        }
        let Some(decided) = decided.served_by(served) else { return Heard::Noted };
        self.learn(&decided, verdict, |tally| tally.feedback += 1);
        Heard::Learned
    }

    fn learn(self: &Arc<Self>, decided: &Decided, verdict: Verdict, count: impl FnOnce(&mut Tally)) {
        let new = || Arc::new(Lesson::of(Learner::new(Weights::built_in().clone()), Tally::default()));
        let lesson = self.routes.entry(decided.route.clone()).or_insert_with(new).clone();
        lock(&lesson.learner).observe(&decided.features, Label::Served { tier: decided.tier, verdict });
        count(&mut lock(&lesson.tally));
        let left = lesson.until_try.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(1)));
        if left == Ok(1) {
            let lessons = self.clone();
            // It takes milliseconds: not on the way of a request.
            tokio::task::spawn_blocking(move || {
                lesson.try_better();
                lessons.save();
            });
        }
    }

    /// Brings back the weights that `route` used before its last promotion: `None` where it has learned nothing, `Some(false)` where
    /// there are no earlier ones.
    pub fn roll_back(&self, route: &str) -> Option<bool> {
        let lesson = self.routes.get(route).map(|lesson| lesson.clone())?;
        let mut learner = lock(&lesson.learner);
        let back = learner.rollback();
        if back {
            lesson.weights.store(Arc::new(learner.weights().clone()));
            lesson.until_try.store(AFTER_ROLLBACK, Relaxed);
            lock(&lesson.tally).rollbacks += 1;
        }
        drop(learner);
        self.save();
        Some(back)
    }

    /// How every route that has learned stands, by its name.
    pub fn told(&self) -> Vec<(Name, LessonTold)> {
        let of = |lesson: &Lesson| {
            let learner = lock(&lesson.learner);
            let (weights, labels, shadow) = (learner.weights().version.clone(), learner.labels(), learner.shadow());
            LessonTold { weights, labels, shadow, tally: *lock(&lesson.tally) }
        };
        let mut all: Vec<_> = self.routes.iter().map(|it| (it.key().clone(), of(it.value()))).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

impl Lesson {
    /// Tries whether the labels make better weights, and uses them if so.
    fn try_better(&self) {
        self.until_try.store(BETWEEN_TRIES, Relaxed);
        // Fitted on a copy, so that no request waits for it.
        let mut learner = lock(&self.learner).clone();
        let promotion = learner.promote();
        let mut tally = lock(&self.tally);
        tally.tries += 1;
        match promotion {
            Promotion::TooFew => {}
            Promotion::Kept(gain) => tally.last_gain = Some((gain.mean, gain.lower)),
            Promotion::Promoted(gain) => {
                tally.last_gain = Some((gain.mean, gain.lower));
                tally.promotions += 1;
                let version = &learner.weights().version;
                tracing::info!(version, gain = gain.mean, "better weights for the complexity of prompts are in use");
                self.weights.store(Arc::new(learner.weights().clone()));
                // Labels that came meanwhile are few, and more will come.
                *lock(&self.learner) = learner;
            }
        }
    }
}
