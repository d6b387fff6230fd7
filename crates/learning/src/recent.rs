//! Recent decisions that can still get a label: from their callers, or from the next request of their conversation.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry::Occupied},
    sync::Arc,
    time::Duration,
};

use signalbox_prompt::complexity::{
    Features,
    learn::{Label, Tier, Verdict},
};
use signalbox_types::{Moment, Name};

/// Decisions that are kept, at about 2 KB each.
const MAX_DECISIONS: usize = 4096;
/// A conversation that asks the same again within this time was not satisfied.
const RE_ASK_WINDOW: Duration = Duration::from_mins(3);
/// Share of words and pairs of words in common from which on two prompts ask the same.
const SAME: f64 = 0.7;
/// Minimum of words and pairs of words; shorter prompts are not compared.
const MIN_WORDS: usize = 6;

/// A choice of a tier.
#[derive(Clone, Debug)]
pub struct TierDecision {
    /// The route with tiers.
    pub route: Name,
    /// Id of the caller's key.
    pub key: Option<Name>,
    /// Features of the prompt: numbers and hashed words, no text.
    pub features: Features,
    /// The pools of the cheapest tier and of the most capable tier.
    pub pools: [Name; 2],
    /// Hash of the conversation's user messages so far; `None` in the middle of a turn.
    pub said: Option<u64>,
    /// The same hash at the turn before.
    pub said_before: Option<u64>,
}

/// A decision that gets a label: everything but the verdict.
#[derive(Clone, Debug)]
pub(super) struct JudgedDecision {
    pub(super) route: Name,
    pub(super) features: Features,
    /// The tier that answered.
    pub(super) tier: Tier,
}

impl JudgedDecision {
    /// The label for a verdict on its answer.
    pub(super) fn label(&self, verdict: Verdict) -> Label {
        Label::Served { tier: self.tier, verdict }
    }
}

/// The state of a decision.
#[derive(Copy, Clone, Debug)]
enum Stage {
    /// No complete answer, or an answer of another pool.
    Open,
    /// Answered completely by this tier.
    Answered(Tier),
    /// Already a label: each decision counts once.
    Judged,
}

#[derive(Debug)]
struct Entry {
    /// The request's own allocation, since clients may reuse ids.
    id: Arc<str>,
    decided: TierDecision,
    at: Moment,
    stage: Stage,
}

impl Entry {
    fn judged(&mut self) -> Option<JudgedDecision> {
        let Stage::Answered(tier) = self.stage else { return None };
        self.stage = Stage::Judged;
        Some(JudgedDecision { route: self.decided.route.clone(), features: self.decided.features.clone(), tier })
    }
}

/// The latest decisions, bounded.
///
/// Clients choose ids. So decisions are kept by caller's key and id, and requests with the same id are distinguished by the id's allocation
/// ([`Arc::ptr_eq`]): while an entry holds it, no other id can have the same address.
#[derive(Debug, Default)]
pub(super) struct RecentDecisions {
    by_id: HashMap<(Option<Name>, Arc<str>), Entry>,
    order: VecDeque<(Option<Name>, Arc<str>)>,
    /// The latest decision of each conversation, by caller's key and hash of the user messages.
    conversations: HashMap<(Option<Name>, u64), Arc<str>>,
}

impl RecentDecisions {
    /// Adds a decision. With `re_ask`, returns the decision before it in its conversation and the verdict that the new request implies.
    ///
    /// Of a caller's requests with the same id, the newest is kept.
    pub(super) fn add(
        &mut self,
        id: &Arc<str>,
        decided: TierDecision,
        re_ask: bool,
        now: Moment,
    ) -> Option<(JudgedDecision, Verdict)> {
        let judged = if re_ask { self.judge_before(&decided, now) } else { None };
        let slot = (decided.key.clone(), id.clone());
        if self.of(&slot).is_some() {
            return judged;
        }
        if self.order.len() == MAX_DECISIONS
            && let Some(oldest) = self.order.pop_front()
            && self.of(&oldest).is_some()
        {
            self.remove(&oldest);
        }
        self.remove(&slot);
        if let Some(said) = decided.said {
            self.conversations.insert((decided.key.clone(), said), id.clone());
        }
        self.order.push_back(slot.clone());
        self.by_id.insert(slot, Entry { id: id.clone(), decided, at: now, stage: Stage::Open });
        judged
    }

    /// The decision on exactly this request.
    fn of(&mut self, slot: &(Option<Name>, Arc<str>)) -> Option<&mut Entry> {
        self.by_id.get_mut(slot).filter(|entry| Arc::ptr_eq(&entry.id, &slot.1))
    }

    /// Removes the decision on any request with this id. The conversation is kept if a newer decision has replaced this one there.
    fn remove(&mut self, slot: &(Option<Name>, Arc<str>)) {
        let Some(Entry { id, decided, .. }) = self.by_id.remove(slot) else { return };
        if let Some(said) = decided.said
            && let Occupied(last) = self.conversations.entry((decided.key, said))
            && Arc::ptr_eq(last.get(), &id)
        {
            last.remove();
        }
    }

    fn judge_before(&mut self, next: &TierDecision, now: Moment) -> Option<(JudgedDecision, Verdict)> {
        // In the middle of a turn the user has written nothing new.
        next.said?;
        let before = self.conversations.get(&(next.key.clone(), next.said_before?))?.clone();
        let entry = self.of(&(next.key.clone(), before))?;
        let Stage::Answered(tier) = entry.stage else { return None };
        let verdict = verdict(&entry.decided, next, tier, now.since(entry.at))?;
        Some((entry.judged()?, verdict))
    }

    /// Records that this pool answered the request of `caller` completely.
    pub(super) fn answered(&mut self, id: &Arc<str>, caller: Option<&Name>, pool: &Name) {
        if let Some(entry) = self.of(&(caller.cloned(), id.clone()))
            && matches!(entry.stage, Stage::Open)
        {
            let [small, large] = &entry.decided.pools;
            if pool == small {
                entry.stage = Stage::Answered(Tier::Small);
            } else if pool == large {
                entry.stage = Stage::Answered(Tier::Large);
            }
        }
    }

    /// Takes a decision whose answer was compared with another tier's.
    pub(super) fn pair(&mut self, id: &Arc<str>, caller: Option<&Name>) -> Option<JudgedDecision> {
        self.of(&(caller.cloned(), id.clone()))?.judged()
    }

    /// Takes the decision that `caller` judges. `None` where no tier was chosen, the answer is not complete, another pool answered, or the
    /// decision already has a label.
    pub(super) fn judge(&mut self, id: &str, caller: Option<&Name>) -> Option<JudgedDecision> {
        self.by_id.get_mut(&(caller.cloned(), id.into()))?.judged()
    }
}

/// The verdict that a conversation's next request implies: asking the same again soon means that the answer was bad, another question means
/// that it was good.
fn verdict(before: &TierDecision, next: &TierDecision, tier: Tier, after: Duration) -> Option<Verdict> {
    let (one, other) = (before.features.terms.places(), next.features.terms.places());
    if one.len() < MIN_WORDS || other.len() < MIN_WORDS || before.route != next.route {
        return None;
    }
    let similarity = jaccard(one, other);
    match tier {
        Tier::Small if similarity >= SAME && after <= RE_ASK_WINDOW => Some(Verdict::Underpowered),
        Tier::Large if similarity >= SAME && after <= RE_ASK_WINDOW => Some(Verdict::Failed),
        _ if similarity < SAME / 2.0 => Some(Verdict::Ok),
        _ => None,
    }
}

/// Jaccard similarity of two sets of hashed terms.
fn jaccard(one: &[u16], other: &[u16]) -> f64 {
    let known: std::collections::HashSet<_> = one.iter().collect();
    let common = other.iter().filter(|term| known.contains(term)).count();
    common as f64 / (one.len() + other.len() - common).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Outline;

    fn decided(text: &str, key: &str, said_before: Option<u64>, said: Option<u64>) -> TierDecision {
        TierDecision {
            route: "r".into(),
            key: Some(key.into()),
            features: Features::of(&Outline::of_text(text)),
            pools: ["small".into(), "large".into()],
            said,
            said_before,
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    const FIRST: &str = "How do I reverse a linked list in place without using recursion?";
    const AGAIN: &str = "How do I reverse a linked list in place without using recursion, please?";
    const ON: &str = "Thanks. Which cities in Italy are worth a visit in the month of October?";

    #[test]
    fn asking_again_is_distinguished_from_another_question() {
        let mut recent = RecentDecisions::default();
        let add = |recent: &mut RecentDecisions, id: &str, decided: TierDecision, seconds| {
            let (id, key) = (id.into(), decided.key.clone());
            let judged = recent.add(&id, decided, true, at(seconds));
            recent.answered(&id, key.as_ref(), &if seconds == 0 { "small" } else { "large" }.into());
            judged.map(|(judged, verdict)| (judged.tier, verdict))
        };
        assert_eq!(add(&mut recent, "1", decided(FIRST, "a", None, Some(1)), 0), None);
        assert_eq!(add(&mut recent, "x", decided(FIRST, "b", Some(1), Some(2)), 10), None, "another caller's");
        assert_eq!(add(&mut recent, "t", decided(FIRST, "a", Some(1), None), 10), None, "in the middle of a turn");
        let again = decided(AGAIN, "a", Some(1), Some(2));
        assert_eq!(add(&mut recent, "2", again.clone(), 20), Some((Tier::Small, Verdict::Underpowered)));
        assert_eq!(add(&mut recent, "2b", again, 21), None, "a decision is judged once");
        assert_eq!(add(&mut recent, "3", decided(ON, "a", Some(2), Some(3)), 60), Some((Tier::Large, Verdict::Ok)));
        assert_eq!(add(&mut recent, "4", decided(ON, "a", Some(3), Some(4)), 1000), None, "too late to be the same");
    }

    #[test]
    fn only_complete_answers_are_judged_and_only_once() {
        let mut recent = RecentDecisions::default();
        let (key, id) = (Name::from("a"), Arc::from("1"));
        let tier = |judged: Option<JudgedDecision>| judged.map(|judged| judged.tier);
        recent.add(&id, decided(FIRST, "a", None, Some(1)), false, at(0));
        assert_eq!(tier(recent.judge("1", Some(&key))), None);
        recent.answered(&id, Some(&key), &"large".into());
        assert_eq!(tier(recent.judge("1", None)), None, "another caller's");
        assert_eq!(tier(recent.judge("1", Some(&key))), Some(Tier::Large));
        recent.answered(&id, Some(&key), &"large".into());
        recent.add(&id, decided(FIRST, "a", None, Some(1)), false, at(0));
        assert_eq!(tier(recent.judge("1", Some(&key))), None, "it stays judged");
        assert_eq!(tier(recent.pair(&id, Some(&key))), None);
    }

    #[test]
    fn requests_with_the_same_id_are_distinguished() {
        let mut recent = RecentDecisions::default();
        let (a, b) = (Name::from("a"), Name::from("b"));
        let [first, second, others]: [Arc<str>; 3] = ["1", "1", "1"].map(Arc::from);
        let tier = |judged: Option<JudgedDecision>| judged.map(|judged| judged.tier);
        recent.add(&first, decided(FIRST, "a", None, Some(1)), true, at(0));
        recent.add(&others, decided(FIRST, "b", None, Some(1)), true, at(0));
        recent.answered(&others, Some(&b), &"small".into());
        assert_eq!(tier(recent.pair(&others, Some(&a))), None, "another caller's");
        assert_eq!(tier(recent.judge("1", Some(&a))), None, "the other caller's answer does not complete it");
        recent.answered(&first, Some(&a), &"small".into());
        assert_eq!(tier(recent.judge("1", Some(&a))), Some(Tier::Small));

        // A second request of the same caller: a decision of its own, which the end of the first one does not touch.
        recent.add(&second, decided(ON, "a", None, Some(1)), true, at(1));
        recent.answered(&first, Some(&a), &"large".into());
        assert_eq!(tier(recent.pair(&first, Some(&a))), None);
        assert_eq!(tier(recent.judge("1", Some(&a))), None);
        recent.answered(&second, Some(&a), &"large".into());
        assert_eq!(tier(recent.judge("1", Some(&a))), Some(Tier::Large));
        assert_eq!(tier(recent.judge("1", Some(&b))), Some(Tier::Small), "it was left alone");
        assert_eq!((recent.by_id.len(), recent.conversations.len()), (2, 2));
    }

    #[test]
    fn a_conversation_keeps_its_newest_decision_when_older_ones_are_evicted() {
        let mut recent = RecentDecisions::default();
        let (key, newest) = (Name::from("a"), Arc::from("newest"));
        recent.add(&"oldest".into(), decided(FIRST, "a", None, Some(1)), true, at(0));
        recent.add(&newest, decided(FIRST, "a", None, Some(1)), true, at(0));
        recent.answered(&newest, Some(&key), &"small".into());
        for number in 2..=MAX_DECISIONS as u64 {
            recent.add(&number.to_string().into(), decided("hi", "a", None, Some(number)), true, at(0));
        }
        assert!(!recent.by_id.contains_key(&(Some(key), "oldest".into())));
        assert!(recent.add(&"again".into(), decided(AGAIN, "a", Some(1), Some(0)), true, at(1)).is_some());
    }

    #[test]
    fn memory_is_bounded() {
        let mut recent = RecentDecisions::default();
        for number in 0..MAX_DECISIONS as u64 + 100 {
            recent.add(&number.to_string().into(), decided("hi", "a", None, Some(number)), true, at(number));
            recent.add(&"same".into(), decided("hi", "a", None, Some(number)), true, at(number));
        }
        assert_eq!((recent.by_id.len(), recent.order.len()), (MAX_DECISIONS / 2 + 1, MAX_DECISIONS));
        assert!(recent.conversations.len() <= MAX_DECISIONS, "{}", recent.conversations.len());
        let known = |id: &str| recent.by_id.contains_key(&(Some("a".into()), id.into()));
        assert!(!known("0") && known("4000") && known("same"));
    }
}
