//! How callers' prompts begin, by the id of their keys: which of them depart early from those before, so that engines' prefix caches are of
//! little use to them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use dashmap::{DashMap, Entry};

use crate::{
    journal::{AttemptEntry, JournalEntry},
    policy::Policy,
    prompt::{
        Blocks,
        prefix_stability::{LazyPrompt, PromptHistory, Sketch, StabilityReport, TrackedPrompt},
    },
    protocol::RequestBody,
    telemetry::{KeyMetrics, NO_KEY},
    types::{Head, Located, Name},
};

/// Callers that are watched, 52 KB each at most: those that come first.
const MOST_CALLERS: usize = 256;

/// The habits of callers.
#[derive(Default)]
pub struct PrefixStability {
    callers: DashMap<Name, Arc<PromptHistory>>,
    /// How many they are: to count them is more than a request should wait for.
    watched: AtomicUsize,
}

/// A caller, and how its prompts begin.
#[derive(Debug, serde::Serialize)]
pub struct PrefixReport {
    /// The id of its key; `none` for callers without one.
    pub key: Name,
    /// How they begin.
    #[serde(flatten)]
    pub habit: StabilityReport,
}

/// A prompt's words, where they are needed.
struct Words<'a> {
    body: &'a RequestBody,
    head: Head,
}

impl LazyPrompt for Words<'_> {
    fn sketch(&self) -> Sketch {
        Sketch::of(self.body.rendered(), self.head.bytes)
    }

    fn locate(&self, place: u64) -> Located {
        self.body.locate(place)
    }
}

impl PrefixStability {
    /// Compares a prompt with those before it of its caller, who has this `id`, and counts with `metrics` where it departed early.
    pub(crate) fn see(
        &self,
        (id, metrics): (&str, &KeyMetrics),
        body: &RequestBody,
        blocks: &Blocks,
        session: Option<u64>,
    ) {
        let prompt = blocks.prompt();
        if prompt.blocks.is_empty() {
            return;
        }
        let Some(habits) = self.of(id) else { return };
        let begun = TrackedPrompt { prompt, head: body.head(), session };
        if let Some(part) = habits.observe(&begun, &Words { body, head: begun.head }) {
            metrics.prefix_change(part.label());
        }
    }

    /// Notes what engines had cached of a request that is over, where they tell.
    pub(crate) fn answered(&self, line: &JournalEntry) {
        let mut told = line.attempts.iter().filter_map(AttemptEntry::hits).peekable();
        if told.peek().is_some()
            && let Some(habits) = self.callers.get(line.key.as_deref().unwrap_or(NO_KEY))
        {
            told.for_each(|hits| habits.answered(hits));
        }
    }

    fn of(&self, id: &str) -> Option<Arc<PromptHistory>> {
        if let Some(known) = self.callers.get(id) {
            return Some(known.clone());
        }
        if self.watched.load(Relaxed) >= MOST_CALLERS {
            return None;
        }
        Some(match self.callers.entry(id.into()) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                self.watched.fetch_add(1, Relaxed);
                new.insert(Arc::default()).clone()
            }
        })
    }

    /// Forgets the keys that the policy in force does not have.
    pub fn follow(&self, policy: &Policy) {
        self.callers.retain(|id, _| {
            let stays = is_known(policy, id);
            self.watched.fetch_sub(usize::from(!stays), Relaxed);
            stays
        });
    }

    /// Every caller that is watched and known to the policy in force: who departs most comes first. Requests that came under the one before may
    /// have brought others.
    pub fn told(&self, policy: &Policy) -> Vec<PrefixReport> {
        let known = self.callers.iter().filter(|it| is_known(policy, it.key()));
        let known: Vec<_> = known.map(|it| (it.key().clone(), it.value().clone())).collect();
        let mut all: Vec<_> = known.into_iter().map(|(key, it)| PrefixReport { key, habit: it.report() }).collect();
        let departed = |it: &PrefixReport| it.habit.departures.iter().map(|it| it.requests).sum::<usize>();
        all.sort_by(|one, other| departed(other).cmp(&departed(one)).then_with(|| one.key.cmp(&other.key)));
        all
    }
}

fn is_known(policy: &Policy, id: &str) -> bool {
    *id == *NO_KEY || policy.keys.iter().any(|key| *key.id == *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_come_first_are_watched() {
        let habits = PrefixStability::default();
        for _ in 0..2 {
            let watched = (0..MOST_CALLERS + 40).filter(|number| habits.of(&number.to_string()).is_some()).count();
            assert_eq!((watched, habits.callers.len(), habits.watched.load(Relaxed)), (256, 256, 256));
        }
    }
}
