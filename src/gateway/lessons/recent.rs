//! Decisions that can still be judged: by their callers, or by what their conversation asks next.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{Features, Label, Tier, Verdict};
use crate::types::{Moment, Name};

/// Decisions that are remembered, at about 2 KB each.
const MOST: usize = 4096;
/// A conversation that asks the same again within this time was not content.
const AGAIN: Duration = Duration::from_mins(3);
/// The share of words and pairs of words that two prompts have in common from which on they ask the same.
const ALIKE: f64 = 0.7;
/// Fewer words and pairs than this say nothing.
const FEWEST: usize = 6;

/// A decision between tiers.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Decided {
    pub(in crate::gateway) route: Name,
    pub(in crate::gateway) key: Option<Name>,
    /// What was made of the prompt: numbers and hashed words, nothing of its text.
    pub(in crate::gateway) features: Features,
    /// The pools of the cheapest tier and of the most capable one.
    pub(in crate::gateway) pools: [Name; 2],
    /// A hash of what users said in its conversation so far; `None` in the middle of a turn.
    pub(in crate::gateway) said: Option<u64>,
    /// What that was at the turn before.
    pub(in crate::gateway) said_before: Option<u64>,
}

/// A decision that is judged: a label, but for the verdict.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) route: Name,
    pub(super) features: Features,
    /// Who answered.
    pub(super) tier: Tier,
}

impl Judged {
    /// What a verdict on its answer says.
    pub(super) fn label(&self, verdict: Verdict) -> Label {
        Label::Served { tier: self.tier, verdict }
    }
}

/// What is known of a request that somebody judges.
pub(super) enum Found {
    Judged(Box<Judged>),
    /// No tiers decided it, it has no full answer, another pool answered, or it was judged before.
    NothingToLearn,
    AnotherCallers,
}

#[derive(Debug)]
struct Entry {
    decided: Decided,
    at: Moment,
    /// Who answered in full; a decision counts for one label at most, and is then without it.
    answered: Option<Tier>,
}

impl Entry {
    fn judged(&mut self) -> Option<Judged> {
        let tier = self.answered.take()?;
        Some(Judged { route: self.decided.route.clone(), features: self.decided.features.clone(), tier })
    }
}

/// The last decisions, bounded.
#[derive(Debug, Default)]
pub(super) struct Recent {
    by_id: HashMap<Arc<str>, Entry>,
    order: VecDeque<Arc<str>>,
    /// The last decision of each conversation by what was said in it, for each key.
    conversations: HashMap<(Option<Name>, u64), Arc<str>>,
}

impl Recent {
    /// Remembers a decision. With `re_ask`, returns the one before it in its conversation with what the new one says of it.
    ///
    /// Of two requests that their clients gave the same id, the first one is remembered: else one caller could take another's place.
    pub(super) fn add(
        &mut self,
        id: &Arc<str>,
        decided: Decided,
        re_ask: bool,
        now: Moment,
    ) -> Option<(Judged, Verdict)> {
        let judged = if re_ask { self.judge_before(&decided, now) } else { None };
        if self.by_id.contains_key(id) {
            return judged;
        }
        if self.order.len() == MOST
            && let Some(oldest) = self.order.pop_front()
            && let Some(gone) = self.by_id.remove(&oldest)
            && let Some(said) = gone.decided.said
        {
            self.conversations.remove(&(gone.decided.key, said));
        }
        if let Some(said) = decided.said {
            self.conversations.insert((decided.key.clone(), said), id.clone());
        }
        self.order.push_back(id.clone());
        self.by_id.insert(id.clone(), Entry { decided, at: now, answered: None });
        judged
    }

    fn judge_before(&mut self, next: &Decided, now: Moment) -> Option<(Judged, Verdict)> {
        // In the middle of a turn the user has said nothing new.
        next.said?;
        let before = self.conversations.get(&(next.key.clone(), next.said_before?))?;
        let entry = self.by_id.get_mut(before)?;
        let verdict = verdict(&entry.decided, next, entry.answered?, now.since(entry.at))?;
        Some((entry.judged()?, verdict))
    }

    /// The request was answered in full by this pool.
    pub(super) fn answered(&mut self, id: &str, pool: &Name) {
        if let Some(entry) = self.by_id.get_mut(id) {
            let [small, large] = &entry.decided.pools;
            entry.answered = if pool == small {
                Some(Tier::Small)
            } else if pool == large {
                Some(Tier::Large)
            } else {
                None
            };
        }
    }

    /// A decision whose answer was compared with another tier's.
    pub(super) fn pair(&mut self, id: &str) -> Option<Judged> {
        self.by_id.get_mut(id)?.judged()
    }

    /// What `caller` may judge.
    pub(super) fn judge(&mut self, id: &str, caller: Option<&Name>) -> Found {
        let Some(entry) = self.by_id.get_mut(id) else { return Found::NothingToLearn };
        if entry.decided.key.as_ref() != caller {
            return Found::AnotherCallers;
        }
        entry.judged().map_or(Found::NothingToLearn, |judged| Found::Judged(judged.into()))
    }
}

/// What a conversation's next request says of the one before it: asked again at once, the answer was of no use; gone on, it was good.
fn verdict(before: &Decided, next: &Decided, tier: Tier, after: Duration) -> Option<Verdict> {
    let (one, other) = (before.features.terms.places(), next.features.terms.places());
    if one.len() < FEWEST || other.len() < FEWEST || before.route != next.route {
        return None;
    }
    let alike = alike(one, other);
    match tier {
        Tier::Small if alike >= ALIKE && after <= AGAIN => Some(Verdict::Underpowered),
        Tier::Large if alike >= ALIKE && after <= AGAIN => Some(Verdict::Failed),
        _ if alike < ALIKE / 2.0 => Some(Verdict::Ok),
        _ => None,
    }
}

/// The share of places that two sets have in common (Jaccard).
fn alike(one: &[u16], other: &[u16]) -> f64 {
    let known: std::collections::HashSet<_> = one.iter().collect();
    let common = other.iter().filter(|place| known.contains(place)).count();
    common as f64 / (one.len() + other.len() - common).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Outline;

    fn decided(text: &str, key: &str, said_before: Option<u64>, said: Option<u64>) -> Decided {
        Decided {
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
    fn asking_again_is_told_from_going_on() {
        let mut recent = Recent::default();
        let add = |recent: &mut Recent, id: &str, decided, seconds| {
            let judged = recent.add(&id.into(), decided, true, at(seconds));
            recent.answered(id, &if seconds == 0 { "small" } else { "large" }.into());
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
    fn what_has_no_answer_cannot_be_judged_and_what_has_is_judged_once() {
        let mut recent = Recent::default();
        let key = Some(&Name::from("a"));
        recent.add(&"1".into(), decided(FIRST, "a", None, Some(1)), false, at(0));
        assert!(matches!(recent.judge("1", key), Found::NothingToLearn));
        recent.answered("1", &"large".into());
        recent.add(&"1".into(), decided(ON, "b", None, Some(9)), false, at(0));
        assert!(matches!(recent.judge("1", None), Found::AnotherCallers));
        assert!(matches!(recent.judge("1", key), Found::Judged(judged) if judged.tier == Tier::Large));
        assert!(matches!(recent.judge("1", key), Found::NothingToLearn));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut recent = Recent::default();
        for number in 0..MOST as u64 + 100 {
            recent.add(&number.to_string().into(), decided("hi", "a", None, Some(number)), true, at(number));
            recent.add(&"same".into(), decided("hi", "a", None, Some(number)), true, at(number));
        }
        assert_eq!((recent.by_id.len(), recent.order.len()), (MOST, MOST));
        assert!(recent.conversations.len() <= MOST, "{}", recent.conversations.len());
        assert!(!recent.by_id.contains_key("0") && recent.by_id.contains_key("4000"));
    }
}
