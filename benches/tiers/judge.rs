//! Judgement of a run: error of the share after the shift, loss of quality, changes of model within sessions.

use std::collections::{HashMap, HashSet};

use crate::traffic::{Ask, REGIME};

/// |share − target| over the 500, 1000 and 2000 requests after the shift, and over the second thousand of them.
pub(crate) const SPANS: [(&str, usize, usize); 4] =
    [("1–500", 0, 500), ("1–1000", 0, 1_000), ("1–2000", 0, 2_000), ("1001–2000", 1_000, 2_000)];

/// |share − target| in each of the [`SPANS`].
pub(crate) fn errors(large: &[bool], share: f64) -> [f64; SPANS.len()] {
    let after = &large[REGIME..];
    SPANS.map(|(_, from, to)| {
        let count = after[from..to].iter().filter(|large| **large).count();
        (count as f64 / (to - from) as f64 - share).abs()
    })
}

/// Loss against the best fixed threshold of each regime at the same share, as a part of all that the large model adds (a difference in
/// performance gap recovered). Mean of both regimes.
///
/// The fixed threshold is chosen in hindsight. Sessions are sticky with it too: one that rose stays.
pub(crate) fn loss(asks: &[Ask], large: &[bool]) -> f64 {
    let regimes = asks.chunks(REGIME).zip(large.chunks(REGIME));
    let losses: Vec<f64> = regimes
        .map(|(asks, large)| {
            let all: f64 = asks.iter().map(|ask| ask.gap).sum();
            let ours: f64 = asks.iter().zip(large).filter(|play| *play.1).map(|play| play.0.gap).sum();
            let count = large.iter().filter(|large| **large).count();
            (best(asks, count) - ours) / all
        })
        .collect();
    losses.iter().sum::<f64>() / losses.len() as f64
}

/// Gain of the large model if the best threshold sends it `count` requests.
fn best(asks: &[Ask], count: usize) -> f64 {
    let mut scores: Vec<f64> = asks.iter().map(|ask| ask.score).collect();
    scores.sort_by(|one, other| other.total_cmp(one));
    if asks.iter().all(|ask| ask.session.is_none()) {
        // Requests exactly on the threshold go in part, with their mean gap.
        let Some(bar) = count.checked_sub(1).map(|last| scores[last]) else { return 0.0 };
        let above = asks.iter().filter(|ask| ask.score > bar);
        let (sum, above) = above.fold((0.0, 0), |(sum, above), ask| (sum + ask.gap, above + 1));
        let same: Vec<f64> = asks.iter().filter(|ask| ask.score.total_cmp(&bar).is_eq()).map(|ask| ask.gap).collect();
        return sum + same.iter().sum::<f64>() / same.len() as f64 * (count - above) as f64;
    }
    let with = |bar: f64| {
        let mut high = HashSet::new();
        let served = asks.iter().filter(|ask| {
            let session = ask.session.unwrap_or_default();
            ask.score > bar && high.insert(session) || high.contains(&session)
        });
        served.fold((0.0, 0), |(sum, served), ask| (sum + ask.gap, served + 1))
    };
    // Interpolates between the two thresholds next to the count.
    let place = scores.partition_point(|bar| with(*bar).1 < count).min(scores.len() - 1);
    let (low, high) = (with(scores[place.saturating_sub(1)]), with(scores[place]));
    let part = (count - low.1.min(count)) as f64 / (high.1 - low.1).max(1) as f64;
    low.0 + (high.0 - low.0) * part.min(1.0)
}

/// Model changes per session: mean, and maximum.
pub(crate) fn flips(asks: &[Ask], large: &[bool]) -> Option<(f64, u32)> {
    let mut sessions: HashMap<u64, (bool, u32)> = HashMap::new();
    for (ask, large) in asks.iter().zip(large) {
        let (last, flips) = sessions.entry(ask.session?).or_insert((*large, 0));
        *flips += u32::from(last != large);
        *last = *large;
    }
    let all: u32 = sessions.values().map(|session| session.1).sum();
    let most = sessions.values().map(|session| session.1).max()?;
    Some((f64::from(all) / sessions.len() as f64, most))
}
