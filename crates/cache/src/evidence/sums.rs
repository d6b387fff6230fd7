//! Sums of labels by source, with a limit on each source's weight.
//!
//! The gateway's own labels count in full, and so does a caller's feedback on answers that only it receives. Where many
//! callers share answers, one of them could otherwise disable the cache for all by rejecting every hit, or spread wrong
//! answers by approving them. There, no caller has more than a fixed share of the weight.

/// Source of a label's verdict.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Voice {
    /// The gateway, by regenerating the answer.
    Gateway,
    /// A caller whose answers are given to nobody else.
    Owner,
    /// One of the callers that share answers, by a hash of its key's name.
    Caller(u64),
    /// Any client, where no keys are required: one client may send any number of labels.
    Anyone,
}

impl Voice {
    /// Largest share of the weight.
    const fn share(self) -> Option<f64> {
        match self {
            Self::Gateway | Self::Owner => None,
            Self::Caller(_) => Some(0.25),
            Self::Anyone => Some(0.5),
        }
    }
}

/// Sums of weights.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) good: f64,
    pub(super) bad: f64,
    /// Sum of their squares, for the equivalent number of equal labels.
    pub(super) squares: f64,
}

impl Sums {
    fn add(&mut self, same: bool, weight: f64) {
        *(if same { &mut self.good } else { &mut self.bad }) += weight;
        self.squares += weight * weight;
    }

    pub(super) fn weight(&self) -> f64 {
        self.good + self.bad
    }

    /// Fades as if a share of the labels were removed, not as if all became lighter.
    fn fade(&mut self, left: f64) {
        self.good *= left;
        self.bad *= left;
        self.squares *= left;
    }

    /// Adds the share `part` of `other`, 0 to 1.
    fn plus(self, other: &Self, part: f64) -> Self {
        Self {
            good: self.good + part * other.good,
            bad: self.bad + part * other.bad,
            squares: self.squares + part * other.squares,
        }
    }
}

/// Most callers with separate sums. A new one replaces the one of least weight.
const MAX_CALLERS: usize = 16;

/// Sums by voice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Voices {
    /// Voices without a limit.
    full: Sums,
    bounded: Vec<(Voice, Sums)>,
}

impl Voices {
    pub(super) fn learn(&mut self, voice: Voice, same: bool, weight: f64) {
        if voice.share().is_none() {
            self.full.add(same, weight);
            return;
        }
        let known = self.bounded.iter().position(|(known, _)| *known == voice);
        let at = known.unwrap_or_else(|| {
            if self.bounded.len() == MAX_CALLERS {
                let lightest = (0..MAX_CALLERS)
                    .min_by(|one, other| self.bounded[*one].1.weight().total_cmp(&self.bounded[*other].1.weight()));
                self.bounded.swap_remove(lightest.unwrap_or(0));
            }
            self.bounded.push((voice, Sums::default()));
            self.bounded.len() - 1
        });
        self.bounded[at].1.add(same, weight);
    }

    /// Keeps only the share `left` of each label.
    pub(super) fn fade(&mut self, left: f64) {
        self.full.fade(left);
        self.bounded.iter_mut().for_each(|(_, sums)| sums.fade(left));
    }

    /// Sum of all voices, each within its limit, except `without`.
    pub(super) fn sums(&self, without: Option<Voice>) -> Sums {
        let total = self.total(without);
        let bounded = self.bounded.iter().filter(|(voice, _)| Some(*voice) != without);
        bounded.fold(self.full, |sums, (voice, own)| sums.plus(own, part(*voice, own, total)))
    }

    /// Part of a voice's labels that counts, 0 to 1.
    pub(super) fn part(&self, voice: Voice) -> f64 {
        let own = self.bounded.iter().find(|(known, _)| *known == voice);
        own.map_or(1.0, |(voice, own)| part(*voice, own, self.total(None)))
    }

    /// Voices with a limit.
    pub(super) fn bounded(&self) -> impl Iterator<Item = Voice> {
        self.bounded.iter().map(|(voice, _)| *voice)
    }

    /// Largest total weight in which no voice exceeds its share.
    fn total(&self, without: Option<Voice>) -> f64 {
        let own = || self.bounded.iter().filter(move |(voice, _)| Some(*voice) != without);
        let mut total = self.full.weight() + own().map(|(_, sums)| sums.weight()).sum::<f64>();
        // A voice above its share gets exactly that share of the rest; then others may exceed theirs.
        for _ in 0..=own().count() {
            let (mut rest, mut shares) = (self.full.weight(), 0.0);
            for (voice, sums) in own() {
                match voice.share() {
                    Some(share) if sums.weight() > share * total => shares += share,
                    _ => rest += sums.weight(),
                }
            }
            let next = if shares < 1.0 { (rest / (1.0 - shares)).min(total) } else { 0.0 };
            if next >= total {
                break;
            }
            total = next;
        }
        total
    }
}

/// Part of a voice's labels that counts at a total weight of `total`.
fn part(voice: Voice, own: &Sums, total: f64) -> f64 {
    match voice.share() {
        Some(share) if own.weight() > 0.0 => (share * total / own.weight()).min(1.0),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn voices(gateway: usize, callers: &[usize]) -> Voices {
        let mut voices = Voices::default();
        (0..gateway).for_each(|_| voices.learn(Voice::Gateway, true, 1.0));
        for (caller, labels) in callers.iter().enumerate() {
            (0..*labels).for_each(|_| voices.learn(Voice::Caller(caller as u64), false, 1.0));
        }
        voices
    }

    #[test]
    fn no_voice_exceeds_its_share() {
        assert!((voices(30, &[1000]).sums(None).bad - 10.0).abs() < 1e-9, "a quarter of 40");
        assert!((voices(30, &[5]).sums(None).bad - 5.0).abs() < 1e-9, "less is left as it is");
        assert!(voices(0, &[1000, 1000, 1000]).sums(None).weight() < 1e-9, "three have a third each");
        assert!((voices(0, &[9, 9, 9, 9]).sums(None).bad - 36.0).abs() < 1e-9);
        assert!((voices(0, &[100, 1, 1, 1]).sums(None).bad - 4.0).abs() < 1e-9);
        let mut anyone = voices(8, &[]);
        (0..100).for_each(|_| anyone.learn(Voice::Anyone, false, 1.0));
        assert!((anyone.sums(None).bad - 8.0).abs() < 1e-9 && (anyone.part(Voice::Anyone) - 0.08).abs() < 1e-9);
        assert!((anyone.sums(Some(Voice::Anyone)).weight() - 8.0).abs() < 1e-9);
        let mut owner = voices(0, &[]);
        (0..7).for_each(|_| owner.learn(Voice::Owner, false, 1.0));
        assert!((owner.sums(None).bad - 7.0).abs() < 1e-9 && owner.bounded().count() == 0);
    }

    #[test]
    fn callers_are_bounded_and_the_lightest_is_replaced() {
        let labels: Vec<usize> = (1..=40).collect();
        let voices = voices(0, &labels);
        assert_eq!(voices.bounded.len(), MAX_CALLERS);
        assert!(voices.bounded().any(|voice| voice == Voice::Caller(39)));
    }

    proptest! {
        #[test]
        fn shares_hold_for_any_labels(gateway in 0usize..40, callers in prop::collection::vec(0usize..200, 0..12)) {
            let voices = voices(gateway, &callers);
            let total = voices.sums(None).weight();
            prop_assert!(total <= (gateway + callers.iter().sum::<usize>()) as f64 + 1e-6);
            for (voice, own) in &voices.bounded {
                let counted = own.weight() * voices.part(*voice);
                prop_assert!(counted <= 0.25 * total + 1e-6, "{counted} of {total}");
            }
            if callers.iter().filter(|labels| **labels > 0).count() >= 4 || gateway > 0 {
                prop_assert!(total > 0.0);
            }
        }
    }
}
