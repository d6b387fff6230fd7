//! Stability of prompt prefixes, by caller: prompts that differ early from the caller's earlier ones gain little from engines' prefix caches.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use dashmap::{DashMap, Entry};

use signalbox_journal::{AttemptEntry, JournalEntry};
use signalbox_policy::Policy;
use signalbox_prompt::{
    Blocks,
    prefix_stability::{LazyPrompt, PromptHistory, Sketch, StabilityReport, TrackedPrompt},
};
use signalbox_protocol::RequestBody;
use signalbox_telemetry::{KeyMetrics, NO_KEY};
use signalbox_types::{Head, Located, Name};

/// Callers that are tracked, at most 52 KB each: the first ones.
const MOST_CALLERS: usize = 256;

/// The prefix stability of callers.
#[derive(Default)]
pub struct PrefixStability {
    callers: DashMap<Name, Arc<PromptHistory>>,
    /// Number of callers. Counting the map would lock all its shards.
    count: AtomicUsize,
}

/// The prefix stability of one caller.
#[derive(Debug, serde::Serialize)]
pub struct PrefixReport {
    /// Id of the caller's key; `none` for callers without one.
    pub key: Name,
    /// The stability of the beginnings of the caller's prompts, and the departures.
    #[serde(flatten)]
    pub stability: StabilityReport,
}

/// Access to a prompt's text, which is only needed for some prompts.
struct PromptText<'a> {
    body: &'a RequestBody,
    head: Head,
}

impl LazyPrompt for PromptText<'_> {
    fn sketch(&self) -> Sketch {
        Sketch::of(self.body.rendered(), self.head.bytes)
    }

    fn locate(&self, place: u64) -> Located {
        self.body.locate(place)
    }
}

impl PrefixStability {
    /// Compares a prompt with the earlier ones of the caller `id`, and counts an early difference in `metrics`.
    pub fn observe(
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
        let Some(history) = self.history_of(id) else { return };
        let begun = TrackedPrompt { prompt, head: body.head(), session };
        if let Some(part) = history.observe(&begun, &PromptText { body, head: begun.head }) {
            metrics.prefix_change(part.label());
        }
    }

    /// Records the prefix-cache hits that engines reported for a finished request.
    pub(super) fn record_hits(&self, entry: &JournalEntry) {
        let mut reported = entry.attempts.iter().filter_map(AttemptEntry::hits).peekable();
        if reported.peek().is_some()
            && let Some(history) = self.callers.get(entry.key.as_deref().unwrap_or(NO_KEY))
        {
            reported.for_each(|hits| history.answered(hits));
        }
    }

    /// The prompt history of a caller; `None` beyond [`MOST_CALLERS`].
    fn history_of(&self, id: &str) -> Option<Arc<PromptHistory>> {
        if let Some(known) = self.callers.get(id) {
            return Some(known.clone());
        }
        if self.count.load(Relaxed) >= MOST_CALLERS {
            return None;
        }
        Some(match self.callers.entry(id.into()) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                self.count.fetch_add(1, Relaxed);
                new.insert(Arc::default()).clone()
            }
        })
    }

    /// Drops the callers that the active policy does not have.
    pub fn apply_policy(&self, policy: &Policy) {
        self.callers.retain(|id, _| {
            let is_kept = is_known(policy, id);
            self.count.fetch_sub(usize::from(!is_kept), Relaxed);
            is_kept
        });
    }

    /// Reports all tracked callers of the active policy, those with the most early differences first. Requests that started under an earlier
    /// policy may have added other callers.
    pub fn report(&self, policy: &Policy) -> Vec<PrefixReport> {
        let known = self.callers.iter().filter(|it| is_known(policy, it.key()));
        let known: Vec<_> = known.map(|it| (it.key().clone(), it.value().clone())).collect();
        let mut all: Vec<_> = known.into_iter().map(|(key, it)| PrefixReport { key, stability: it.report() }).collect();
        let departed = |it: &PrefixReport| it.stability.departures.iter().map(|it| it.requests).sum::<usize>();
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
    fn the_first_callers_are_tracked() {
        let history = PrefixStability::default();
        for _ in 0..2 {
            let tracked =
                (0..MOST_CALLERS + 40).filter(|number| history.history_of(&number.to_string()).is_some()).count();
            assert_eq!((tracked, history.callers.len(), history.count.load(Relaxed)), (256, 256, 256));
        }
    }
}
