//! Traffic on a virtual clock: what is held, how soon after a shift, and what happens to sessions. Seeded; assertions
//! are on counts.

#[cfg(test)]
mod sessions;

use std::{collections::VecDeque, time::Duration};

use fastrand::Rng;
use proptest::{prelude::*, test_runner::RngSeed};

use super::{Context, Decision, Reason, TierView, Tierings};
use signalbox_types::{Aim, Complexity, Moment, aim::MOST_TIERS};

const SMALL: TierView = TierView { cost_usd: 0.000_2, e2e: 2.0, available: true };
const LARGE: TierView = TierView { cost_usd: 0.002, e2e: 6.0, available: true };
const SEEDS: u64 = 20;

/// A route with its clock and random source.
struct Play {
    tierings: Tierings,
    tiers: Vec<TierView>,
    dice: Rng,
    now: Moment,
    pause: Duration,
}

impl Play {
    fn new(aim: &Aim, tiers: &[TierView], seed: u64) -> Self {
        Self {
            tierings: Tierings::new(aim, tiers.len(), 4),
            tiers: tiers.to_vec(),
            dice: Rng::with_seed(seed),
            now: Moment::from_nanos(0),
            pause: Duration::from_millis(100),
        }
    }

    fn shares(shares: &[f64], seed: u64) -> Self {
        Self::new(&Aim::Shares(shares.to_vec()), &[SMALL, LARGE][..shares.len().min(2)], seed)
    }

    /// Sends the next request; its gap follows from its score.
    fn ask(&mut self, score: f64, session: Option<u64>, tool_loop: bool) -> Decision {
        self.now = self.now.plus(self.pause);
        let complexity =
            Complexity { score, quality: 0.9 - 0.6 * score, gap: 0.5 * score * score, ..Complexity::default() };
        let context = Context { key: 7, session, continues: None, tool_loop, chance: self.dice.f64() };
        self.tierings.decide(&complexity, &context, &self.tiers, self.now)
    }

    /// Number of `count` requests with scores as drawn that went above the tier.
    fn above(&mut self, tier: usize, count: usize, mut score: impl FnMut(&mut Rng) -> f64) -> usize {
        (0..count)
            .filter(|_| {
                let score = score(&mut self.dice);
                self.ask(score, None, false).tier > tier
            })
            .count()
    }

    fn idle(&mut self, minutes: u64) {
        self.now = self.now.plus(Duration::from_mins(minutes));
    }
}

/// Mean over the seeds of |count − expected|, in per cent of `of`.
fn mean_error(of: f64, expected: f64, count: impl Fn(u64) -> usize) -> f64 {
    let errors = (0..SEEDS).map(|seed| (count(seed) as f64 - expected).abs() / of * 100.0);
    errors.sum::<f64>() / SEEDS as f64
}

#[test]
fn a_share_is_held_within_a_point_soon_after_a_shift() {
    type Scores = fn(&mut Rng) -> f64;
    let shifts: [(&str, Scores, Scores); 5] = [
        ("harder", |dice| 0.5 * dice.f64(), |dice| 0.5 + 0.5 * dice.f64()),
        ("easier", |dice| 0.5 + 0.5 * dice.f64(), |dice| 0.5 * dice.f64()),
        ("one value, then another", |_| 0.4, |_| 0.7),
        ("spread, then one value", Rng::f64, |_| 0.5),
        (
            "few hard ones, then many",
            |d| if d.f64() < 0.1 { 0.9 } else { 0.1 },
            |d| if d.f64() < 0.6 { 0.9 } else { 0.1 },
        ),
    ];
    for (name, before, after) in shifts {
        for share in if name == "harder" { &[0.1, 0.25, 0.6][..] } else { &[0.25] } {
            let error = mean_error(1_000.0, 1_000.0 * share, |seed| {
                let mut play = Play::shares(&[1.0 - share, *share], seed);
                play.above(0, 1_500, before);
                play.above(0, 1_000, after);
                play.above(0, 1_000, after)
            });
            assert!(error < 1.0, "{name}, a share of {share}: {error} points");
        }
    }
}

#[test]
fn three_tiers_hold_two_shares() {
    for (bar, share) in [(0, 0.4), (1, 0.1)] {
        let error = mean_error(1_000.0, 1_000.0 * share, |seed| {
            let aim = Aim::Shares(vec![0.6, 0.3, 0.1]);
            let mut play = Play::new(&aim, &[SMALL, SMALL, LARGE], seed);
            play.above(bar, 1_500, |dice| 0.3 * dice.f64());
            play.above(bar, 1_000, |dice| 0.2 + 0.6 * dice.f64());
            play.above(bar, 1_000, |dice| 0.2 + 0.6 * dice.f64())
        });
        assert!(error < 1.0, "bar {bar}: {error} points");
    }
}

#[test]
fn the_hardest_go_up() {
    let mut play = settled();
    let mut seen = [[0; 2]; 10];
    for _ in 0..5_000 {
        let score = play.dice.f64();
        seen[(score * 10.0) as usize][play.ask(score, None, false).tier] += 1;
    }
    assert!(seen[..6].iter().all(|tenth| tenth[1] == 0) && seen[9][0] == 0, "{seen:?}");
}

#[test]
fn all_and_nothing_are_held_exactly() {
    for (shares, above) in [([1.0, 0.0], 0), ([0.0, 1.0], 500)] {
        assert_eq!(Play::shares(&shares, 1).above(0, 500, Rng::f64), above);
    }
    assert_eq!(Play::shares(&[1.0], 1).above(0, 50, Rng::f64), 0, "one tier is all there is");
}

#[test]
fn traffic_in_runs_is_not_a_shift() {
    // Share of the hardest quarter that went above: following each run would send some of each.
    let (mut hardest, mut above) = (0, 0);
    for seed in 0..SEEDS {
        let (mut play, mut difficulty) = (Play::shares(&[0.75, 0.25], seed), 0.0);
        for n in 0..6_000 {
            if n % 20 == 0 {
                difficulty = 0.8 * play.dice.f64();
            }
            let score = difficulty + 0.2 * play.dice.f64();
            let tier = play.ask(score, None, false).tier;
            if n >= 2_000 && score > 0.7 {
                (hardest, above) = (hardest + 1, above + tier);
            }
        }
    }
    assert!(above * 100 > hardest * 75, "{above} of {hardest}");
}

#[test]
fn a_preview_equals_the_decision() {
    let mut play = settled();
    for n in 0..500 {
        let complexity = Complexity { score: play.dice.f64(), quality: 0.5, gap: 0.3, ..Complexity::default() };
        let (session, chance) = (Some(play.dice.u64(..40)).filter(|_| n % 3 > 0), play.dice.f64());
        let context = Context { key: 7, session, continues: None, tool_loop: n % 5 == 0, chance };
        let now = play.now.plus(play.pause * n);
        let preview = play.tierings.preview(&complexity, &context, &play.tiers, now);
        let decision = play.tierings.decide(&complexity, &context, &play.tiers, now);
        assert_eq!(
            (preview.tier, preview.intended, preview.reason),
            (decision.tier, decision.intended, decision.reason)
        );
    }
}

/// A play whose bar is at about 0.75.
fn settled() -> Play {
    let mut play = Play::shares(&[0.75, 0.25], 3);
    play.above(0, 2_000, Rng::f64);
    play
}

#[test]
fn an_unavailable_tier_is_replaced_without_compensation() {
    let mut play = settled();
    play.tiers[1].available = false;
    let out: Vec<Decision> = (0..1_000).map(|n| play.ask(f64::from(n % 100) / 100.0, None, false)).collect();
    assert!(out.iter().all(|decision| decision.tier == 0));
    let spilled =
        out.iter().filter(|decision| decision.reason == Reason::Unavailable && decision.intended == 1).count();
    assert!((230..=270).contains(&spilled), "{spilled}");
    play.tiers[1].available = true;
    let after = play.above(0, 400, Rng::f64);
    assert!((80..=120).contains(&after), "{after}");
    play.tiers[0].available = false;
    assert_eq!(play.above(0, 100, Rng::f64), 100);
    play.tiers[1].available = false;
    assert_eq!(play.ask(0.01, None, false).tier, 0, "where none can, it is the one that it belongs to");
}

#[test]
fn a_queue_takes_some_of_the_share_without_compensation() {
    let mean = |slower: f64| {
        let mut sums = [0.0; 2];
        for seed in 0..SEEDS {
            let mut play = Play::shares(&[0.75, 0.25], seed);
            play.above(0, 1_000, Rng::f64);
            play.tiers[1].e2e *= slower;
            sums[0] += play.above(0, 1_000, Rng::f64) as f64 / SEEDS as f64;
            play.tiers[1].e2e /= slower;
            sums[1] += play.above(0, 1_000, Rng::f64) as f64 / SEEDS as f64;
        }
        sums
    };
    let (none, some, long) = (mean(1.0), mean(3.0), mean(50.0));
    assert!((245.0..255.0).contains(&none[0]), "{none:?}");
    assert!((160.0..220.0).contains(&some[0]), "{some:?}");
    assert!((120.0..some[0]).contains(&long[0]), "half of it at most: {long:?}");
    assert!((240.0..257.0).contains(&long[1]), "no more than the share afterwards: {long:?}");
}

#[test]
fn a_queue_raises_the_price_while_it_lasts() {
    let budget = Aim::MaxSpendPerHour(20.0);
    let (mut before, mut late) = (0, 0);
    for seed in 0..SEEDS {
        let mut play = Play::new(&budget, &[SMALL, LARGE], seed);
        play.above(0, 1_000, Rng::f64);
        before += play.above(0, 300, Rng::f64);
        play.tiers[1].e2e *= 10.0;
        play.above(0, 900, Rng::f64);
        late += play.above(0, 300, Rng::f64);
    }
    assert!(before > 40 * SEEDS as usize && late * 5 < before * 3, "{before} before, {late} late in the queue");
}

#[test]
fn a_minimum_of_quality_is_held_or_reported_unreachable() {
    let (mut held, mut large) = (0.0, 0);
    for seed in 0..SEEDS {
        let mut play = Play::new(&Aim::MinQuality(0.65), &[SMALL, LARGE], seed);
        play.above(0, 1_500, |dice| 0.5 * dice.f64());
        for n in 0..2_000 {
            let score = 0.2 + 0.7 * play.dice.f64();
            let decision = play.ask(score, None, false);
            if n >= 1_000 {
                held += decision.quality / 1_000.0 / SEEDS as f64;
                large += usize::from(decision.tier == 1);
            }
            assert!(!decision.unreachable);
        }
    }
    assert!((0.645..0.66).contains(&held), "{held}");
    // The small model alone reaches 0.57; the hardest three in ten add 0.09.
    assert!((200..400).contains(&(large / SEEDS as usize)), "{large}");

    let mut play = Play::new(&Aim::MinQuality(0.99), &[SMALL, LARGE], 1);
    play.above(0, 50, Rng::f64);
    assert_eq!(play.above(0, 200, Rng::f64), 200);
    assert!(play.ask(0.5, None, false).unreachable && play.tierings.standing(play.now).unreachable);
    let mut play = Play::new(&Aim::MinQuality(0.1), &[SMALL, LARGE], 1);
    play.above(0, 500, Rng::f64);
    assert!(play.above(0, 200, Rng::f64) < 5, "the small model is enough");
}

#[test]
fn the_value_of_a_point_is_compared_with_money_and_time() {
    // A gap of 0.125 is 12.5 points; up costs 0.0018 USD and 4 s more.
    let tier = |usd, second_usd, e2e| {
        let aim = Aim::ValuePerPoint { usd, second_usd };
        let mut play = Play::new(&aim, &[SMALL, TierView { e2e, ..LARGE }], 1);
        play.ask(0.5, None, false)
    };
    assert_eq!(tier(0.000_15, 0.0, 6.0).tier, 1);
    assert_eq!(tier(0.000_14, 0.0, 6.0).tier, 0);
    assert_eq!(tier(0.000_15, 0.000_1, 6.0).tier, 0);
    assert_eq!(tier(0.000_15, 0.000_1, 2.5).tier, 1);
    assert_eq!(tier(0.000_15, 0.000_1, f64::NAN).tier, 1, "where nothing is known, money alone");
    assert!((tier(0.000_15, 0.0, 6.0).bar - 0.12).abs() < 1e-9, "the gap that it takes");
    // A middle tier that costs nearly as much as the best is skipped.
    let aim = Aim::ValuePerPoint { usd: 0.000_15, second_usd: 0.0 };
    let mut play = Play::new(&aim, &[SMALL, TierView { cost_usd: 0.001_9, ..SMALL }, LARGE], 1);
    assert_eq!(play.ask(0.5, None, false).tier, 2);
}

#[test]
fn no_hour_costs_more_than_its_budget_and_most_of_it_is_used() {
    for budget in [1.0, 12.0] {
        let mut play = Play::new(&Aim::MaxSpendPerHour(budget), &[SMALL, LARGE], 1);
        let (mut hour, mut sum, mut late) = (VecDeque::new(), 0.0, 0.0);
        let end = Moment::from_nanos(3 * 3_600_000_000_000);
        play.pause = Duration::from_secs(1);
        while play.now < end {
            play.pause =
                Duration::from_millis(if (play.now.nanos() / 600_000_000_000).is_multiple_of(2) { 150 } else { 600 });
            let score = play.dice.f64();
            let session = play.dice.u64(..500);
            let tier = play.ask(score, Some(session), score < 0.5).tier;
            hour.push_back((play.now, play.tiers[tier].cost_usd));
            sum += play.tiers[tier].cost_usd;
            while hour.front().is_some_and(|paid| play.now.since(paid.0) > Duration::from_hours(1)) {
                sum -= hour.pop_front().unwrap().1;
            }
            // The cheapest tier alone takes 3 USD an hour.
            assert!(budget < 3.1 || sum <= budget + 0.002, "{sum}");
            late = f64::max(late, if play.now > Moment::from_nanos(3_600_000_000_000) { sum } else { 0.0 });
        }
        assert!(late > 0.9 * budget, "{late} of {budget}");
        let standing = play.tierings.standing(play.now);
        assert!((standing.spend_hour - sum).abs() < 0.05 * sum && standing.keys == 0);
        if budget < 3.1 {
            let spent = play.tierings.standing(play.now).spend_hour;
            assert!(spent > budget, "the cheapest tier stays open");
            assert_eq!(play.ask(1.0, None, false).tier, 0);
        }
    }
}

#[test]
fn a_new_key_begins_with_what_the_route_learned() {
    let mut play = Play::shares(&[0.75, 0.25], 1);
    play.above(0, 2_000, |dice| 0.2 * dice.f64());
    let ask = |key, score| {
        let complexity = Complexity { score, ..Complexity::default() };
        let context = Context { key, session: None, continues: None, tool_loop: false, chance: 0.5 };
        play.tierings.decide(&complexity, &context, &play.tiers, play.now).tier
    };
    assert_eq!([ask(1, 0.19), ask(2, 0.19), ask(3, 0.05)], [1, 1, 0]);
    (10..20).for_each(|key| _ = ask(key, 0.1));
    assert_eq!(play.tierings.standing(play.now).keys, 4, "no more than may be remembered");
}

#[test]
fn another_aim_keeps_the_valid_state() {
    let mut play = Play::shares(&[0.75, 0.25], 1);
    play.above(0, 1_000, |dice| 0.3 * dice.f64());
    play.tierings.set_aim(&Aim::Shares(vec![0.5, 0.5]), 2);
    let half = play.above(0, 1_000, |dice| 0.3 * dice.f64());
    assert!((480..=520).contains(&half), "{half}");
    play.tierings.set_aim(&Aim::MaxSpendPerHour(1e6), 2);
    assert_eq!(play.above(0, 100, |dice| 0.1 + dice.f64()), 100, "nothing is too dear");
    play.tierings.set_aim(&Aim::Shares(vec![0.0, 0.0, 1.0]), 3);
    assert_eq!(play.ask(0.1, None, false).tier, 1, "the best of those that there are views of");
    play.tiers.push(LARGE);
    assert_eq!(play.ask(0.1, Some(1), false).tier, 2);
    play.tierings.set_aim(&Aim::Shares(vec![1.0]), 1);
    assert_eq!(play.ask(0.9, Some(1), false).tier, 0);
    assert_eq!(play.tierings.standing(play.now).tiers.len(), 1);
}

#[test]
fn threads_share_a_route() {
    let tierings = Tierings::new(&Aim::Shares(vec![0.75, 0.25]), 2, 8);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let tierings = &tierings;
            scope.spawn(move || {
                let mut dice = Rng::with_seed(seed);
                for n in 0..5_000 {
                    let complexity = Complexity { score: dice.f64(), ..Complexity::default() };
                    let session = (n % 2 == 0).then(|| dice.u64(..500));
                    let context =
                        Context { key: n % 3, session, continues: None, tool_loop: false, chance: dice.f64() };
                    tierings.decide(&complexity, &context, &[SMALL, LARGE], Moment::from_nanos(n * 1_000_000));
                    if n % 1_000 == 0 {
                        tierings.set_aim(&Aim::Shares(vec![0.75, 0.25 + n as f64 * 1e-9]), 2);
                    }
                }
            });
        }
    });
    let standing = tierings.standing(Moment::from_nanos(5_000_000_000));
    assert_eq!((standing.decisions, standing.keys), (20_000, 3));
    assert!((standing.tiers[1].settled_share - 0.25).abs() < 0.05, "{standing:?}");
}

fn aim() -> impl Strategy<Value = Aim> {
    let any = prop_oneof![any::<f64>(), 0.0..1.0_f64];
    prop_oneof![
        prop::collection::vec(any.clone(), 0..10).prop_map(Aim::Shares),
        any.clone().prop_map(Aim::MinQuality),
        (any.clone(), any.clone()).prop_map(|(usd, second_usd)| Aim::ValuePerPoint { usd, second_usd }),
        any.prop_map(Aim::MaxSpendPerHour),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// For any input, the tier exists, is available if any tier is, and the decision is valid.
    #[test]
    fn any_input_gives_a_valid_decision(
        aims in prop::collection::vec((aim(), 0..11_usize), 1..4),
        asks in prop::collection::vec(
            (prop::array::uniform5(prop_oneof![any::<f64>(), 0.0..1.0_f64]), prop::option::of(0..3_u64), any::<(bool, u64)>(),
             prop::collection::vec((any::<f64>(), any::<f64>(), any::<bool>()), 0..10)),
            0..60,
        ),
    ) {
        let tierings = Tierings::new(&aims[0].0, aims[0].1, 2);
        for (n, ([score, quality, gap, chance, _], session, (tool_loop, nanos), views)) in asks.into_iter().enumerate() {
            let (aim, tiers) = &aims[n * aims.len() / 60];
            tierings.set_aim(aim, *tiers);
            let usable = (*tiers).clamp(1, MOST_TIERS).min(views.len().max(1));
            let views: Vec<TierView> =
                views.iter().map(|(cost_usd, e2e, available)| TierView { cost_usd: *cost_usd, e2e: *e2e, available: *available }).collect();
            let complexity = Complexity { score, quality, gap, ..Complexity::default() };
            let context = Context { key: nanos % 4, session, continues: None, tool_loop, chance };
            let now = Moment::from_nanos(nanos >> (n % 40));
            let decision = tierings.decide(&complexity, &context, &views, now);
            prop_assert!(decision.tier < usable && decision.intended < usable, "{decision:?}");
            let any = views.iter().take(usable).any(|view| view.available);
            prop_assert!(!any || views[decision.tier].available, "{decision:?}");
            prop_assert!((0.0..=1.0).contains(&decision.share) && (0.0..=1.0).contains(&decision.quality), "{decision:?}");
            prop_assert!(!decision.bar.is_nan(), "{decision:?}");
            let standing = tierings.standing(now);
            prop_assert_eq!(standing.tiers.len(), (*tiers).clamp(1, MOST_TIERS));
            prop_assert!(standing.spend_hour >= 0.0 && standing.keys <= 2);
            prop_assert!(standing.bars.iter().all(|bar| !bar.is_nan()), "{standing:?}");
        }
    }
}
