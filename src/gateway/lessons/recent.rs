//! Decisions that can still be judged: by their callers, or by what their conversation asks next.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use super::{Features, Tier, Verdict};
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
    /// The tier that was to serve.
    pub(in crate::gateway) tier: Tier,
    /// The pools of the cheapest tier and of the most capable one.
    pub(in crate::gateway) pools: [Name; 2],
    /// The conversation it belongs to.
    pub(in crate::gateway) conversation: Option<u64>,
}

impl Decided {
    /// The same with the tier that really served; `None` where that was another pool than the two.
    pub(super) fn served_by(mut self, pool: Option<&Name>) -> Option<Self> {
        if let Some(pool) = pool {
            let [small, large] = &self.pools;
            self.tier = if pool == small {
                Tier::Small
            } else if pool == large {
                Tier::Large
            } else {
                return None;
            };
        }
        Some(self)
    }
}

/// The last decisions, bounded.
#[derive(Debug, Default)]
pub(super) struct Recent {
    by_id: HashMap<Arc<str>, Decided>,
    order: VecDeque<Arc<str>>,
    /// The last decision of each conversation, and when it was made.
    conversations: HashMap<u64, (Arc<str>, Moment)>,
}

impl Recent {
    /// Remembers a decision. Returns the one before it in its conversation with what the new one says of it.
    pub(super) fn add(&mut self, id: &Arc<str>, decided: Decided, now: Moment) -> Option<(Decided, Verdict)> {
        let judged = decided.conversation.and_then(|conversation| {
            let (before, at) = self.conversations.insert(conversation, (id.clone(), now))?;
            let before = self.by_id.get(&before)?;
            Some((before.clone(), judge(before, &decided, now.since(at))?))
        });
        if self.by_id.insert(id.clone(), decided).is_none() {
            self.order.push_back(id.clone());
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
            && let Some(gone) = self.by_id.remove(&oldest)
            && let Some(conversation) = gone.conversation
            && self.conversations.get(&conversation).is_some_and(|(last, _)| *last == oldest)
        {
            self.conversations.remove(&conversation);
        }
        judged
    }

    pub(super) fn find(&self, id: &str) -> Option<Decided> {
        self.by_id.get(id).cloned()
    }
}

/// What a conversation's next request says of the one before it: asked again at once, the answer was of no use; gone on, it was good.
fn judge(before: &Decided, next: &Decided, after: Duration) -> Option<Verdict> {
    let (one, other) = (before.features.terms.places(), next.features.terms.places());
    if one.len() < FEWEST || other.len() < FEWEST || before.route != next.route {
        return None;
    }
    let alike = alike(one, other);
    match before.tier {
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

    fn decided(text: &str, tier: Tier, conversation: u64) -> Decided {
        Decided {
            route: "r".into(),
            key: None,
            features: Features::of(&Outline::of_text(text)),
            tier,
            pools: ["small".into(), "large".into()],
            conversation: Some(conversation),
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::default().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn asking_again_is_told_from_going_on() {
        let mut recent = Recent::default();
        let first = "How do I reverse a linked list in place without using recursion?";
        assert!(recent.add(&"1".into(), decided(first, Tier::Small, 7), at(0)).is_none());
        let again = "How do I reverse a linked list in place without using recursion, please?";
        let (before, verdict) = recent.add(&"2".into(), decided(again, Tier::Large, 7), at(20)).unwrap();
        assert_eq!((before.tier, verdict), (Tier::Small, Verdict::Underpowered));
        let on = "Thanks. Which cities in Italy are worth a visit in the month of October?";
        let (before, verdict) = recent.add(&"3".into(), decided(on, Tier::Large, 7), at(60)).unwrap();
        assert_eq!((before.tier, verdict), (Tier::Large, Verdict::Ok));
        assert!(recent.add(&"4".into(), decided(on, Tier::Large, 7), at(1000)).is_none(), "too late to be the same");
        assert!(recent.add(&"5".into(), decided(on, Tier::Small, 8), at(1000)).is_none(), "another conversation");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut recent = Recent::default();
        for number in 0..MOST as u64 + 100 {
            recent.add(&number.to_string().into(), decided("hi", Tier::Small, number), at(number));
        }
        assert_eq!((recent.by_id.len(), recent.order.len(), recent.conversations.len()), (MOST, MOST, MOST));
        assert!(recent.find("0").is_none() && recent.find("200").is_some());
    }

    #[test]
    fn a_label_is_about_the_model_that_served() {
        let of = |pool: &str| decided("hi", Tier::Small, 1).served_by(Some(&pool.into())).map(|it| it.tier);
        assert_eq!((of("small"), of("large"), of("long")), (Some(Tier::Small), Some(Tier::Large), None));
    }
}
