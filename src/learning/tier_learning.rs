//! What routes with tiers learn of their own traffic: labels from callers, and from conversations that ask again, become weights of
//! their own for scoring prompts, once they are shown to be better.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use arc_swap::{ArcSwap, ArcSwapOption};
use dashmap::DashMap;
use serde::Serialize;

use super::{
    Decided, Stored, Tally,
    recent::{Judged, Recent},
    stored::{BETWEEN_TRIES, StoredRoute},
};
use crate::{
    measure::lock,
    prompt::complexity::{
        Weights,
        learn::{Label, Learner, Promotion, Verdict},
    },
    types::{Moment, Name},
};

/// After going back to earlier weights, so many labels pass before the next try: the same labels would lead to the same weights again.
const AFTER_ROLLBACK: usize = 500;
/// Routes that are not in the policy and whose lessons are kept all the same: they may come back.
const STRAYS: usize = 16;

/// What every route has learned, and the decisions that may still be judged. Shared by reference between threads.
#[derive(Debug, Default)]
pub struct TierLearning {
    routes: DashMap<Name, Arc<RouteLearning>>,
    recent: Mutex<Recent>,
    /// Where it is kept, if anywhere.
    file: ArcSwapOption<PathBuf>,
    /// Held while it is written: two at once would write into one another.
    saving: Mutex<()>,
    /// Whether conversations that ask again count as labels.
    re_ask: AtomicBool,
}

/// What one route has learned.
#[derive(Debug)]
struct RouteLearning {
    /// In use.
    weights: ArcSwap<Weights>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    learner: Learner,
    tally: Tally,
    /// Labels until the next try at better weights.
    until_try: usize,
    /// Whether one is under way.
    trying: bool,
}

/// How a route's learning stands.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
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

impl RouteLearning {
    fn of(learner: Learner, tally: Tally, until_try: usize) -> Self {
        let weights = ArcSwap::from_pointee(learner.weights().clone());
        let state = State { learner, tally, until_try, trying: false };
        Self { weights, state: Mutex::new(state) }
    }
}

impl TierLearning {
    /// Keeps to what the policy says of learning: the file, and whether conversations that ask again count.
    pub fn follow(&self, file: Option<&Path>, re_ask: bool) {
        self.file.store(file.map(|file| Arc::new(file.to_owned())));
        self.re_ask.store(re_ask, Relaxed);
    }

    /// Forgets what routes have learned that are not in the policy, but for those of them that have seen the most labels.
    pub(crate) fn bound(&self, in_policy: impl Fn(&Name) -> bool) {
        let lessons: Vec<_> = self.routes.iter().map(|it| (it.key().clone(), it.value().clone())).collect();
        let strays = lessons.into_iter().filter(|(route, _)| !in_policy(route));
        let mut strays: Vec<_> = strays.map(|(route, lesson)| (lock(&lesson.state).learner.seen(), route)).collect();
        strays.sort_unstable();
        for (_, route) in &strays[..strays.len().saturating_sub(STRAYS)] {
            self.routes.remove(route);
        }
    }

    /// The weights that the prompts of `route` are scored by, where it learned its own.
    pub(crate) fn weights(&self, route: &Name) -> Option<Arc<Weights>> {
        self.routes.get(route).map(|lesson| lesson.weights.load_full())
    }

    /// Remembers a decision, so that it can be judged. It says something of the one before it in its conversation.
    pub(crate) fn decided(self: &Arc<Self>, id: &Arc<str>, decided: Decided, now: Moment) {
        let re_ask = self.re_ask.load(Relaxed);
        let judged = lock(&self.recent).add(id, decided, re_ask, now);
        if let Some((before, verdict)) = judged {
            self.learn(&before, before.label(verdict), |tally| tally.re_ask += 1);
        }
    }

    /// The request `id` of `caller` was answered in full, by this pool: only now can the answer be judged.
    pub(crate) fn answered(&self, id: &Arc<str>, caller: Option<&Name>, pool: &Name) {
        lock(&self.recent).answered(id, caller, pool);
    }

    /// A caller's word on the answer to its request `id`; the first one counts. Whether there was anything to learn from it.
    pub(crate) fn feedback(self: &Arc<Self>, id: &str, caller: Option<&Name>, verdict: Verdict) -> bool {
        let found = lock(&self.recent).judge(id, caller);
        if let Some(decided) = &found {
            self.learn(decided, decided.label(verdict), |tally| tally.feedback += 1);
        }
        found.is_some()
    }

    /// Both ends of the tiers answered the request `id` of `caller`, with answers of this quality.
    pub(crate) fn paired(self: &Arc<Self>, id: &Arc<str>, caller: Option<&Name>, small: f32, large: f32) {
        let found = lock(&self.recent).pair(id, caller);
        if let Some(decided) = found {
            self.learn(&decided, Label::Paired { small, large }, |tally| tally.pairs += 1);
        }
    }

    fn learn(self: &Arc<Self>, decided: &Judged, label: Label, count: impl FnOnce(&mut Tally)) {
        let none = || Learner::new(Weights::built_in().clone());
        let new = || Arc::new(RouteLearning::of(none(), Tally::default(), BETWEEN_TRIES));
        let lesson = self.routes.entry(decided.route.clone()).or_insert_with(new).clone();
        let due = {
            let mut state = lock(&lesson.state);
            state.learner.observe(&decided.features, label);
            count(&mut state.tally);
            state.until_try = state.until_try.saturating_sub(1);
            let due = state.until_try == 0 && !state.trying;
            state.trying |= due;
            due
        };
        if due {
            let lessons = self.clone();
            // It takes milliseconds: not on the way of a request.
            tokio::task::spawn_blocking(move || {
                lesson.try_better();
                lessons.save();
            });
        }
    }

    /// Takes over what was read. Routes that have seen as many labels since keep what they know.
    pub fn restore(&self, stored: Stored) {
        for (route, StoredRoute { learner, tally, until_try }) in stored.routes {
            let known = self.routes.get(&*route).map(|lesson| lock(&lesson.state).learner.seen());
            if known >= Some(learner.seen()) {
                tracing::info!(%route, "what was learned since is kept: the file has seen no more labels");
                continue;
            }
            let lesson = RouteLearning::of(learner.restored(), tally, until_try.min(AFTER_ROLLBACK));
            self.routes.insert(route.into(), Arc::new(lesson));
        }
    }

    /// Writes the state of all routes, where the policy names a file. It takes milliseconds: not on a worker.
    pub fn save(&self) {
        let Some(file) = self.file.load_full() else { return };
        let _saving = lock(&self.saving);
        let lessons: Vec<_> = self.routes.iter().map(|it| (it.key().to_string(), it.value().clone())).collect();
        let routes = lessons.into_iter().map(|(route, lesson)| {
            let state = lock(&lesson.state);
            (route, StoredRoute { learner: state.learner.clone(), tally: state.tally, until_try: state.until_try })
        });
        if let Err(error) = Stored::new(routes.collect()).write(&file) {
            tracing::warn!(file = %file.display(), %error, "learning: the state of routes could not be written");
        }
    }

    /// Brings back the weights that `route` used before its last promotion: `None` where it has learned nothing, `Some(false)` where
    /// there are no earlier ones.
    pub fn roll_back(&self, route: &str) -> Option<bool> {
        let lesson = self.routes.get(route).map(|lesson| lesson.clone())?;
        let back = {
            let mut state = lock(&lesson.state);
            let back = state.learner.rollback();
            if back {
                lesson.weights.store(Arc::new(state.learner.weights().clone()));
                state.until_try = AFTER_ROLLBACK;
                state.tally.rollbacks += 1;
            }
            back
        };
        self.save();
        Some(back)
    }

    /// What came in for every route that has learned.
    pub fn tallies(&self) -> Vec<(Name, Tally)> {
        let lessons: Vec<_> = self.routes.iter().map(|it| (it.key().clone(), it.value().clone())).collect();
        lessons.into_iter().map(|(route, lesson)| (route, lock(&lesson.state).tally)).collect()
    }

    /// How every route that has learned stands, by its name.
    pub fn told(&self) -> Vec<(Name, RouteStatus)> {
        let lessons: Vec<_> = self.routes.iter().map(|it| (it.key().clone(), it.value().clone())).collect();
        let of = |lesson: &RouteLearning| {
            let (learner, tally) = {
                let state = lock(&lesson.state);
                (state.learner.clone(), state.tally)
            };
            let weights = learner.weights().version.clone();
            RouteStatus { weights, labels: learner.labels(), shadow: learner.shadow(), tally }
        };
        let mut all: Vec<_> = lessons.into_iter().map(|(route, lesson)| (route, of(&lesson))).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

impl RouteLearning {
    /// Tries whether the labels make better weights, and uses them if so. Fitted on a copy, so that no request waits for it.
    fn try_better(&self) {
        let _trying = Trying(self);
        let (mut tried, rollbacks) = {
            let state = lock(&self.state);
            (state.learner.clone(), state.tally.rollbacks)
        };
        let promotion = tried.promote();
        let mut state = lock(&self.state);
        // Who took weights back meanwhile does not want these either.
        if state.tally.rollbacks != rollbacks {
            return;
        }
        state.tally.tries += 1;
        match promotion {
            Promotion::TooFew => {}
            Promotion::Kept(gain) => state.tally.last_gain = Some((gain.mean, gain.lower)),
            Promotion::Promoted(gain) => {
                state.tally.last_gain = Some((gain.mean, gain.lower));
                state.tally.promotions += 1;
                let version = &tried.weights().version;
                tracing::info!(version, gain = gain.mean, "better weights for the complexity of prompts are in use");
                self.weights.store(Arc::new(tried.weights().clone()));
                state.learner.adopt(tried);
            }
        }
    }
}

/// A try at better weights: over when it is dropped, also by a panic, and then the next one is some labels away.
struct Trying<'a>(&'a RouteLearning);

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.trying = false;
        if state.until_try == 0 {
            state.until_try = BETWEEN_TRIES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        prompt::complexity::{Features, learn::Tier},
        types::Outline,
    };

    /// What a route has learned that went back to earlier weights once.
    fn rolled_back(lessons: &Arc<TierLearning>) {
        let lesson = RouteLearning::of(Learner::new(Weights::built_in().clone()), Tally::default(), BETWEEN_TRIES);
        for number in 0..400 {
            let (text, small) = if number % 2 == 0 { ("a poem on the river", 0.0) } else { ("the colour of it", 1.0) };
            let features = Features::of(&Outline::of_text(text));
            lock(&lesson.state).learner.observe(&features, Label::Paired { small, large: 1.0 });
        }
        lesson.try_better();
        lessons.routes.insert("r".into(), Arc::new(lesson));
        assert_eq!(lessons.roll_back("r"), Some(true));
    }

    fn until_try(lessons: &TierLearning) -> Option<usize> {
        lessons.routes.get("r").map(|lesson| lock(&lesson.state).until_try)
    }

    #[test]
    fn weights_that_were_taken_back_stay_so_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lessons.json");
        let lessons = Arc::new(TierLearning::default());
        lessons.follow(Some(&file), false);
        rolled_back(&lessons);
        let restarted = TierLearning::default();
        restarted.restore(Stored::read(&file).unwrap().unwrap());
        assert_eq!(until_try(&restarted), Some(AFTER_ROLLBACK));

        // Files from before it was kept.
        let mut old: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert!(old["routes"]["r"].as_object_mut().unwrap().remove("until_try").is_some());
        std::fs::write(&file, old.to_string()).unwrap();
        let restarted = TierLearning::default();
        restarted.restore(Stored::read(&file).unwrap().unwrap());
        assert_eq!(until_try(&restarted), Some(BETWEEN_TRIES));
    }

    /// A route that has seen so many labels.
    fn teach(lessons: &TierLearning, route: &str, labels: u64) {
        let mut learner = Learner::new(Weights::built_in().clone());
        let label = Label::Served { tier: Tier::Small, verdict: Verdict::Ok };
        (0..labels).for_each(|_| learner.observe(&Features::of(&Outline::of_text("hi")), label));
        let lesson = RouteLearning::of(learner, Tally::default(), BETWEEN_TRIES);
        lessons.routes.insert(route.into(), Arc::new(lesson));
    }

    fn seen(lessons: &TierLearning, route: &str) -> Option<u64> {
        lessons.routes.get(route).map(|lesson| lock(&lesson.state).learner.seen())
    }

    #[test]
    fn what_is_read_takes_no_place_of_what_has_seen_more() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lessons.json");
        assert!(Stored::read(&file).unwrap().is_none());
        let before = TierLearning::default();
        before.follow(Some(&file), false);
        for route in ["one", "two", "three"] {
            teach(&before, route, 3);
        }
        before.save();
        let lessons = TierLearning::default();
        for (route, labels) in [("one", 2), ("two", 4)] {
            teach(&lessons, route, labels);
        }
        lessons.restore(Stored::read(&file).unwrap().unwrap());
        assert_eq!(["one", "two", "three"].map(|route| seen(&lessons, route)), [Some(3), Some(4), Some(3)]);
    }

    #[test]
    fn routes_that_are_gone_are_remembered_while_they_are_few() {
        let lessons = TierLearning::default();
        (0..20).for_each(|number| teach(&lessons, &format!("{number}"), number));
        lessons.bound(|route| **route == *"2");
        assert_eq!(lessons.routes.len(), STRAYS + 1);
        assert_eq!(
            ["0", "2", "3", "4", "19"].map(|route| seen(&lessons, route)),
            [None, Some(2), None, Some(4), Some(19)]
        );
    }

    #[test]
    fn a_try_that_fails_leaves_room_for_the_next() {
        let lesson = RouteLearning::of(Learner::new(Weights::built_in().clone()), Tally::default(), 0);
        lock(&lesson.state).trying = true;
        drop(Trying(&lesson));
        let state = lock(&lesson.state);
        assert_eq!((state.trying, state.until_try), (false, BETWEEN_TRIES));
    }
}
