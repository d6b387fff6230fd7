//! A route's aim for its tiers, prepared for decisions.

use signalbox_types::{Aim, aim::MOST_TIERS};

/// An [`Aim`] for a number of tiers, prepared for decisions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) aim: Aim,
    pub(super) tiers: usize,
    /// For shares: the share of requests that should go above each bar.
    above: [f64; MOST_TIERS],
}

impl Plan {
    pub(super) fn new(aim: &Aim, tiers: usize) -> Self {
        let tiers = tiers.clamp(1, MOST_TIERS);
        let mut above = [0.0; MOST_TIERS];
        if let Aim::Shares(shares) = aim {
            let share =
                |tier: usize| shares.get(tier).copied().filter(|share| share.is_finite()).map_or(0.0, |s| s.max(0.0));
            let sum: f64 = (0..tiers).map(share).sum();
            if sum > 0.0 {
                for bar in (0..tiers - 1).rev() {
                    above[bar] = above[bar + 1] + share(bar + 1) / sum;
                }
            }
        }
        let usable = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
        let aim = match aim {
            Aim::Shares(shares) => Aim::Shares(shares.clone()),
            Aim::MinQuality(least) => Aim::MinQuality(usable(*least)),
            Aim::ValuePerPoint { usd, second_usd } => {
                Aim::ValuePerPoint { usd: usable(*usd), second_usd: usable(*second_usd) }
            }
            Aim::MaxSpendPerHour(usd) => Aim::MaxSpendPerHour(usable(*usd)),
        };
        Self { aim, tiers, above }
    }

    /// Number of bars between tiers.
    pub(super) const fn bars(&self) -> usize {
        self.tiers - 1
    }

    /// Index of the best tier.
    pub(super) const fn top(&self) -> usize {
        self.tiers - 1
    }

    /// Share of requests that should go above the bar, where the aim sets one.
    pub(super) fn above(&self, bar: usize) -> f64 {
        self.above[bar].min(1.0)
    }

    /// Number of controls that move the bars. With shares each bar has its own, since each has its own share to hold.
    /// Otherwise one price of quality serves all bars; where the price is given, nothing is controlled.
    pub(super) fn controls(&self) -> usize {
        match self.aim {
            Aim::Shares(_) => self.bars(),
            Aim::MinQuality(_) | Aim::MaxSpendPerHour(_) => self.bars().min(1),
            Aim::ValuePerPoint { .. } => 0,
        }
    }

    /// Index of the control that moves the bar.
    pub(super) fn control_of(&self, bar: usize) -> usize {
        bar.min(self.controls().saturating_sub(1))
    }

    /// True if one budget covers all keys together.
    pub(super) const fn is_common(&self) -> bool {
        matches!(self.aim, Aim::MaxSpendPerHour(_))
    }

    /// True if state learned under `other` stays valid: the same values are ranked, by the same bars.
    pub(super) fn ranks_like(&self, other: &Self) -> bool {
        let kind = |aim: &Aim| match aim {
            Aim::Shares(_) => 0,
            Aim::MinQuality(_) | Aim::MaxSpendPerHour(_) => 1,
            Aim::ValuePerPoint { .. } => 2,
        };
        self.tiers == other.tiers && kind(&self.aim) == kind(&other.aim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_what_goes_above_each_bar() {
        let above = |shares: &[f64], tiers| {
            let plan = Plan::new(&Aim::Shares(shares.to_vec()), tiers);
            (0..plan.bars()).map(|bar| (plan.above(bar) * 1e3).round() / 1e3).collect::<Vec<_>>()
        };
        assert_eq!(above(&[0.75, 0.25], 2), [0.25]);
        assert_eq!(above(&[50.0, 30.0, 20.0], 3), [0.5, 0.2]);
        assert_eq!(above(&[1.0], 3), [0.0, 0.0], "a tier without a share gets none");
        assert_eq!(above(&[f64::NAN, -1.0, 2.0], 3), [1.0, 1.0]);
        assert_eq!(above(&[], 2), [0.0]);
        assert_eq!(above(&[1.0], 0), [0.0; 0]);
    }

    #[test]
    fn aims_of_one_kind_rank_alike() {
        let plan = |aim| Plan::new(&aim, 2);
        let shares = plan(Aim::Shares(vec![0.5, 0.5]));
        assert!(shares.ranks_like(&plan(Aim::Shares(vec![0.9, 0.1]))));
        assert!(!shares.ranks_like(&plan(Aim::MinQuality(0.8))));
        assert!(plan(Aim::MinQuality(0.8)).ranks_like(&plan(Aim::MaxSpendPerHour(3.0))));
        assert!(!shares.ranks_like(&Plan::new(&Aim::Shares(vec![0.5, 0.5]), 3)));
    }
}
