//! Decision rules: ours, and simple ones to compare with.

use std::{collections::HashMap, time::Duration};

use fastrand::Rng;
use signalbox::{
    schedule::tiers::{Context, TierView, Tierings},
    types::{Aim, Complexity, Moment},
};

use crate::traffic::{Ask, REGIME};

/// Requests after which the window quantile is updated.
const WINDOW: usize = 1_000;
/// Tiers without queues: the large one costs ten times as much and takes three times as long.
pub(crate) const TIERS: [TierView; 2] = [
    TierView { cost_usd: 0.000_2, e2e: 2.0, available: true },
    TierView { cost_usd: 0.002, e2e: 6.0, available: true },
];
/// Time between two requests.
pub(crate) const PAUSE: Duration = Duration::from_millis(200);

/// A rule that decides on tiers.
#[derive(Copy, Clone)]
pub(crate) enum Rule {
    Ours,
    /// The threshold that gives the share on the first regime.
    Static,
    /// The quantile of the previous thousand requests, updated every thousand.
    Window,
    /// Random draws by the deficit alone.
    Deficit,
    /// The best threshold of each regime, known beforehand: the reference of the loss.
    Hindsight,
}

impl Rule {
    pub(crate) const ALL: [(&str, Self); 5] = [
        ("ours", Self::Ours),
        ("static threshold", Self::Static),
        ("quantile of a window", Self::Window),
        ("deficit alone", Self::Deficit),
        ("best threshold in hindsight", Self::Hindsight),
    ];

    /// Decides all requests at a share of the large model; returns true for those that went to it. The other rules keep sessions as
    /// ours does: one that rose stays.
    pub(crate) fn run(self, asks: &[Ask], share: f64, seed: u64) -> Vec<bool> {
        let mut dice = Rng::with_seed(seed ^ 0x5eed);
        if matches!(self, Self::Ours) {
            let tierings = Tierings::new(&Aim::Shares(vec![1.0 - share, share]), 2, 16);
            return asks.iter().enumerate().map(|(n, ask)| ours(&tierings, ask, n, &TIERS, &mut dice) == 1).collect();
        }
        if matches!(self, Self::Hindsight) {
            let mut high = HashMap::new();
            return asks.chunks(REGIME).flat_map(|regime| in_hindsight(regime, share, &mut high, &mut dice)).collect();
        }
        let mut bar = bar_of(&asks[..asks.len() / 2], share);
        let (mut owed, mut high) = (0.0, HashMap::new());
        let mut large = Vec::with_capacity(asks.len());
        for (n, ask) in asks.iter().enumerate() {
            if matches!(self, Self::Window) && n >= WINDOW && n % WINDOW == 0 {
                bar = bar_of(&asks[n - WINDOW..n], share);
            }
            let passes = match self {
                Self::Deficit => dice.f64() < share + 0.015 * owed,
                _ => bar.passes(ask.score, &mut dice),
            };
            let passes = keep(&mut high, ask, passes);
            owed += share - f64::from(u8::from(passes));
            large.push(passes);
        }
        large
    }
}

/// True if the request goes to the large model, by itself or because its session rose before.
fn keep(high: &mut HashMap<u64, bool>, ask: &Ask, passes: bool) -> bool {
    let Some(session) = ask.session else { return passes };
    let stays = high.entry(session).or_insert(false);
    *stays |= passes;
    *stays
}

/// Decides a regime by the one threshold that sends its share to the large model, sessions included. `high` holds the sessions that
/// rose so far.
fn in_hindsight(asks: &[Ask], share: f64, high: &mut HashMap<u64, bool>, dice: &mut Rng) -> Vec<bool> {
    let mut run = |bar: Bar, high: &mut HashMap<u64, bool>| -> Vec<bool> {
        asks.iter().map(|ask| keep(high, ask, bar.passes(ask.score, dice))).collect()
    };
    if asks.iter().all(|ask| ask.session.is_none()) {
        return run(bar_of(asks, share), high);
    }
    let (mut low, mut top) = (0.0, 1.0);
    for _ in 0..40 {
        let score = f64::midpoint(low, top);
        let large = run(Bar { score, chance: 0.0 }, &mut high.clone()).into_iter().filter(|large| *large).count();
        if large as f64 > share * asks.len() as f64 { low = score } else { top = score }
    }
    run(Bar { score: top, chance: 0.0 }, high)
}

/// Returns our tier for the `n`th request.
pub(crate) fn ours(tierings: &Tierings, ask: &Ask, n: usize, tiers: &[TierView], dice: &mut Rng) -> usize {
    let complexity = Complexity { score: ask.score, quality: ask.quality, gap: ask.gap, ..Complexity::default() };
    let context =
        Context { key: 1, session: ask.session, continues: None, tool_loop: ask.tool_loop, chance: dice.f64() };
    tierings.decide(&complexity, &context, tiers, Moment::default().plus(PAUSE * n as u32)).tier
}

/// A threshold, with the probability of requests exactly on it.
#[derive(Copy, Clone)]
pub(crate) struct Bar {
    score: f64,
    chance: f64,
}

impl Bar {
    pub(crate) fn passes(self, score: f64, dice: &mut Rng) -> bool {
        score > self.score || (score.total_cmp(&self.score).is_eq() && dice.f64() < self.chance)
    }
}

/// Returns the threshold that the share of these requests passes.
pub(crate) fn bar_of(asks: &[Ask], share: f64) -> Bar {
    let mut scores: Vec<f64> = asks.iter().map(|ask| ask.score).collect();
    scores.sort_by(f64::total_cmp);
    let count = scores.len() as f64;
    let score = scores[(((1.0 - share) * count) as usize).min(scores.len() - 1)];
    let above = scores.iter().filter(|other| **other > score).count() as f64;
    let same = scores.iter().filter(|other| other.total_cmp(&score).is_eq()).count() as f64;
    Bar { score, chance: (share * count - above) / same }
}
