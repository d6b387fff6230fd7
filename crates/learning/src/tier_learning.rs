//! Learned complexity weights of routes with tiers: labels are collected, and new weights are promoted once held-out labels show that they
//! are better.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;

use arc_swap::{ArcSwap, ArcSwapOption};
use dashmap::DashMap;
use serde::Serialize;

use super::{
    LearningFile, Tally, TierDecision,
    recent::{JudgedDecision, RecentDecisions},
    stored::{BETWEEN_TRIES, StoredRoute},
};
use signalbox_prompt::complexity::{
    Weights,
    learn::{Label, Learner, Promotion, Verdict},
};
use signalbox_telemetry::StoreWrites;
use signalbox_types::{Moment, Name};

/// Labels after a rollback before the next attempt: the same labels would lead to the same weights again.
const AFTER_ROLLBACK: usize = 500;
/// Routes outside the policy whose weights are kept, since they may come back.
const KEPT_REMOVED: usize = 16;

/// Learned weights of all routes, and the decisions that can still get a label. Shared by reference between threads.
#[derive(Debug, Default)]
pub struct TierLearning {
    routes: DashMap<Name, Arc<RouteLearning>>,
    recent: Mutex<RecentDecisions>,
    /// The learning file, if any.
    file: ArcSwapOption<PathBuf>,
    /// Outcome of the writes of the file, locked while it is written.
    saving: Mutex<StoreWrites>,
    /// True if repeated questions count as labels.
    re_ask: AtomicBool,
}

/// Learned weights of one route.
#[derive(Debug)]
struct RouteLearning {
    /// The weights in use.
    weights: ArcSwap<Weights>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    learner: Learner,
    tally: Tally,
    /// Labels until the next attempt to promote new weights.
    until_try: usize,
    /// True if an attempt is running.
    is_trying: bool,
}

/// Status of a route's learning.
#[derive(Clone, Debug, Serialize)]
pub struct RouteStatus {
    /// The version of the weights in use.
    pub weights: String,
    /// Labels in memory.
    pub labels: usize,
    /// Quality gain per prompt of the weights in use over no weights, on labels that they were not fitted on.
    pub shadow: f64,
    /// Counts of labels and promotions.
    #[serde(flatten)]
    pub tally: Tally,
}

impl RouteLearning {
    fn of(learner: Learner, tally: Tally, until_try: usize) -> Self {
        let weights = ArcSwap::from_pointee(learner.weights().clone());
        let state = State { learner, tally, until_try, is_trying: false };
        Self { weights, state: Mutex::new(state) }
    }
}

impl TierLearning {
    /// Applies the policy's learning settings: the file, and whether repeated questions count as labels. `writes` gets the
    /// outcomes of writing the file.
    pub fn configure(&self, file: Option<&Path>, re_ask: bool, writes: StoreWrites) {
        if file.is_none() {
            writes.closed();
        } else if self.file.load().as_deref().map(PathBuf::as_path) != file {
            writes.wrote();
        }
        *self.saving.lock() = writes;
        self.file.store(file.map(|file| Arc::new(file.to_owned())));
        self.re_ask.store(re_ask, Relaxed);
    }

    /// Drops the weights of routes outside the policy, except the few that have seen the most labels.
    pub(crate) fn retain_routes(&self, in_policy: impl Fn(&Name) -> bool) {
        let routes = self.routes();
        let removed = routes.into_iter().filter(|(route, _)| !in_policy(route));
        let mut removed: Vec<_> =
            removed.map(|(route, route_learning)| (route_learning.state.lock().learner.seen(), route)).collect();
        removed.sort_unstable();
        for (_, route) in &removed[..removed.len().saturating_sub(KEPT_REMOVED)] {
            self.routes.remove(route);
        }
    }

    /// The learned weights in use for `route`, if it has any.
    pub fn weights(&self, route: &Name) -> Option<Arc<Weights>> {
        self.routes.get(route).map(|route_learning| route_learning.weights.load_full())
    }

    /// Records a decision, so that it can get a label. It may label the decision before it in its conversation.
    pub fn record_decision(self: &Arc<Self>, id: &Arc<str>, decided: TierDecision, now: Moment) {
        let re_ask = self.re_ask.load(Relaxed);
        let judged = self.recent.lock().add(id, decided, re_ask, now);
        if let Some((before, verdict)) = judged {
            self.learn(&before, before.label(verdict), |tally| tally.re_ask += 1);
        }
    }

    /// Records that this pool answered the request `id` of `caller` completely. Only complete answers can get a label.
    pub fn record_answer(&self, id: &Arc<str>, caller: Option<&Name>, pool: &Name) {
        self.recent.lock().answered(id, caller, pool);
    }

    /// Applies a caller's verdict on the answer to its request `id`; the first one counts. Returns whether it became a label.
    pub fn feedback(self: &Arc<Self>, id: &str, caller: Option<&Name>, verdict: Verdict) -> bool {
        let found = self.recent.lock().judge(id, caller);
        if let Some(decided) = &found {
            self.learn(decided, decided.label(verdict), |tally| tally.feedback += 1);
        }
        found.is_some()
    }

    /// Records that the cheapest and the most capable tier both answered the request `id` of `caller`, with answers of this quality.
    pub fn record_pair(self: &Arc<Self>, id: &Arc<str>, caller: Option<&Name>, small: f32, large: f32) {
        let found = self.recent.lock().pair(id, caller);
        if let Some(decided) = found {
            self.learn(&decided, Label::Paired { small, large }, |tally| tally.pairs += 1);
        }
    }

    /// All routes, so that no shard of the map stays locked.
    fn routes(&self) -> Vec<(Name, Arc<RouteLearning>)> {
        self.routes.iter().map(|it| (it.key().clone(), it.value().clone())).collect()
    }

    /// Adds a label, and starts an attempt to promote new weights where one is due.
    fn learn(self: &Arc<Self>, decided: &JudgedDecision, label: Label, count: impl FnOnce(&mut Tally)) {
        let none = || Learner::new(Weights::built_in().clone());
        let new = || Arc::new(RouteLearning::of(none(), Tally::default(), BETWEEN_TRIES));
        let route_learning = self.routes.entry(decided.route.clone()).or_insert_with(new).clone();
        let due = {
            let mut state = route_learning.state.lock();
            state.learner.observe(&decided.features, label);
            count(&mut state.tally);
            state.until_try = state.until_try.saturating_sub(1);
            let due = state.until_try == 0 && !state.is_trying;
            state.is_trying |= due;
            due
        };
        if due {
            let learning = self.clone();
            // Fitting takes milliseconds, too long for a request's task.
            tokio::task::spawn_blocking(move || {
                route_learning.try_promotion();
                learning.save();
            });
        }
    }

    /// Adopts the content of a file. Routes that have seen as many labels since keep their own state.
    pub fn restore(&self, stored: LearningFile) {
        for (route, StoredRoute { learner, tally, until_try }) in stored.routes {
            let known = self.routes.get(&*route).map(|route_learning| route_learning.state.lock().learner.seen());
            if known >= Some(learner.seen()) {
                tracing::info!(%route, "learning: the file has no more labels than this process; the state in memory is kept");
                continue;
            }
            let route_learning = RouteLearning::of(learner.restored(), tally, until_try.min(AFTER_ROLLBACK));
            self.routes.insert(route.into(), Arc::new(route_learning));
        }
    }

    /// Writes the state of all routes, where the policy names a file. Takes milliseconds, so not on a worker thread.
    pub fn save(&self) {
        let Some(file) = self.file.load_full() else { return };
        let writes = self.saving.lock();
        let routes = self.routes().into_iter().map(|(route, route_learning)| {
            let state = route_learning.state.lock();
            (
                route.to_string(),
                StoredRoute { learner: state.learner.clone(), tally: state.tally, until_try: state.until_try },
            )
        });
        let shown = file.display();
        match LearningFile::new(routes.collect()).write(&file) {
            Ok(()) if writes.wrote() => {
                tracing::info!(file = %shown, "learning: the learned weights are written again");
            }
            Err(error) if writes.failed(&error) => {
                tracing::warn!(file = %shown, %error, "learning: the learned weights could not be written, will be retried (learning.file)");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Restores the weights that `route` used before its last promotion. `None` where it has learned nothing, `Some(false)` where there are no
    /// earlier weights.
    pub fn roll_back(&self, route: &str) -> Option<bool> {
        let route_learning = self.routes.get(route).map(|route_learning| route_learning.clone())?;
        let back = {
            let mut state = route_learning.state.lock();
            let back = state.learner.rollback();
            if back {
                route_learning.weights.store(Arc::new(state.learner.weights().clone()));
                state.until_try = AFTER_ROLLBACK;
                state.tally.rollbacks += 1;
            }
            back
        };
        self.save();
        Some(back)
    }

    /// Counts of labels and promotions of each route.
    pub fn tallies(&self) -> Vec<(Name, Tally)> {
        let routes = self.routes();
        routes.into_iter().map(|(route, route_learning)| (route, route_learning.state.lock().tally)).collect()
    }

    /// Status of each route that has learned weights or labels, sorted by name.
    pub fn statuses(&self) -> Vec<(Name, RouteStatus)> {
        let routes = self.routes();
        let of = |route_learning: &RouteLearning| {
            let (learner, tally) = {
                let state = route_learning.state.lock();
                (state.learner.clone(), state.tally)
            };
            let weights = learner.weights().version.clone();
            RouteStatus { weights, labels: learner.labels(), shadow: learner.shadow(), tally }
        };
        let mut all: Vec<_> = routes.into_iter().map(|(route, route_learning)| (route, of(&route_learning))).collect();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}

impl RouteLearning {
    /// Fits new weights to the labels and promotes them if they are better. Works on a copy, so that no request waits.
    fn try_promotion(&self) {
        let _guard = AttemptGuard(self);
        let (mut candidate, rollbacks) = {
            let state = self.state.lock();
            (state.learner.clone(), state.tally.rollbacks)
        };
        let promotion = candidate.promote();
        let mut state = self.state.lock();
        // A rollback meanwhile applies to these weights too.
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
                let version = &candidate.weights().version;
                tracing::info!(version, gain = gain.mean, "learning: better complexity weights promoted");
                self.weights.store(Arc::new(candidate.weights().clone()));
                state.learner.adopt(candidate);
            }
        }
    }
}

/// Marks a running attempt. Dropping it, also by a panic, ends the attempt and schedules the next.
struct AttemptGuard<'a>(&'a RouteLearning);

impl Drop for AttemptGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_trying = false;
        if state.until_try == 0 {
            state.until_try = BETWEEN_TRIES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_prompt::complexity::{Features, learn::Tier};
    use signalbox_types::Outline;

    /// Adds a route whose weights were promoted and rolled back.
    fn rolled_back(learning: &Arc<TierLearning>) {
        let route_learning =
            RouteLearning::of(Learner::new(Weights::built_in().clone()), Tally::default(), BETWEEN_TRIES);
        for number in 0..400 {
            let (text, small) = if number % 2 == 0 { ("a poem on the river", 0.0) } else { ("the colour of it", 1.0) };
            let features = Features::of(&Outline::of_text(text));
            route_learning.state.lock().learner.observe(&features, Label::Paired { small, large: 1.0 });
        }
        route_learning.try_promotion();
        learning.routes.insert("r".into(), Arc::new(route_learning));
        assert_eq!(learning.roll_back("r"), Some(true));
    }

    fn until_try(learning: &TierLearning) -> Option<usize> {
        learning.routes.get("r").map(|route_learning| route_learning.state.lock().until_try)
    }

    #[test]
    fn a_rollback_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("learning.json");
        let learning = Arc::new(TierLearning::default());
        learning.configure(Some(&file), false, StoreWrites::default());
        rolled_back(&learning);
        let restarted = TierLearning::default();
        restarted.restore(LearningFile::read(&file).unwrap().unwrap());
        assert_eq!(until_try(&restarted), Some(AFTER_ROLLBACK));

        // Files of older releases have no such field.
        let mut old: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert!(old["routes"]["r"].as_object_mut().unwrap().remove("until_try").is_some());
        std::fs::write(&file, old.to_string()).unwrap();
        let restarted = TierLearning::default();
        restarted.restore(LearningFile::read(&file).unwrap().unwrap());
        assert_eq!(until_try(&restarted), Some(BETWEEN_TRIES));
    }

    /// Adds a route that has seen so many labels.
    fn add_route(learning: &TierLearning, route: &str, labels: u64) {
        let mut learner = Learner::new(Weights::built_in().clone());
        let label = Label::Served { tier: Tier::Small, verdict: Verdict::Ok };
        (0..labels).for_each(|_| learner.observe(&Features::of(&Outline::of_text("hi")), label));
        let route_learning = RouteLearning::of(learner, Tally::default(), BETWEEN_TRIES);
        learning.routes.insert(route.into(), Arc::new(route_learning));
    }

    fn seen(learning: &TierLearning, route: &str) -> Option<u64> {
        learning.routes.get(route).map(|route_learning| route_learning.state.lock().learner.seen())
    }

    #[test]
    fn a_file_does_not_replace_state_with_more_labels() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("learning.json");
        assert!(LearningFile::read(&file).unwrap().is_none());
        let before = TierLearning::default();
        before.configure(Some(&file), false, StoreWrites::default());
        for route in ["one", "two", "three"] {
            add_route(&before, route, 3);
        }
        before.save();
        let learning = TierLearning::default();
        for (route, labels) in [("one", 2), ("two", 4)] {
            add_route(&learning, route, labels);
        }
        learning.restore(LearningFile::read(&file).unwrap().unwrap());
        assert_eq!(["one", "two", "three"].map(|route| seen(&learning, route)), [Some(3), Some(4), Some(3)]);
    }

    #[test]
    fn the_weights_of_few_removed_routes_are_kept() {
        let learning = TierLearning::default();
        (0..20).for_each(|number| add_route(&learning, &format!("{number}"), number));
        learning.retain_routes(|route| **route == *"2");
        assert_eq!(learning.routes.len(), KEPT_REMOVED + 1);
        assert_eq!(
            ["0", "2", "3", "4", "19"].map(|route| seen(&learning, route)),
            [None, Some(2), None, Some(4), Some(19)]
        );
    }

    #[test]
    fn a_failed_attempt_schedules_the_next() {
        let route_learning = RouteLearning::of(Learner::new(Weights::built_in().clone()), Tally::default(), 0);
        route_learning.state.lock().is_trying = true;
        drop(AttemptGuard(&route_learning));
        let state = route_learning.state.lock();
        assert_eq!((state.is_trying, state.until_try), (false, BETWEEN_TRIES));
    }
}
