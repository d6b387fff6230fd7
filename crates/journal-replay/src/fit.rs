//! Fits a simulated engine to a real one. A pattern search (Hooke and Jeeves, 1961) on the logarithms of the profile's constants plays the
//! recorded requests at their times on a simulated engine and minimises absolute deviations, so that stalls do not bias it. The fit is
//! validated on the last fifth of the requests, which the search does not see.

use super::{
    observe::{Seen, Watched},
    trial::{Difference, Made, difference, loss, play},
};
use signalbox_sim::Profile;

/// Fewest answers to fit an engine.
pub const MIN_ANSWERS: usize = 20;
/// Most requests that the search uses; the latest ones.
const MAX_FITTED_REQUESTS: usize = 400;
/// Reciprocal of the share held out for validation.
const HELD: usize = 5;
/// Step sizes of the search, as factors.
const STEPS: [f64; 6] = [2.0, 1.5, 1.25, 1.12, 1.06, 1.03];
/// Rounds per step size.
const ROUNDS: usize = 3;
/// A concurrency limit is accepted if it reduces the loss to this share.
const CLEARLY: f64 = 0.97;
/// Concurrency limit if the requests show none.
const UNLIMITED: u32 = 1024;
/// Concurrency limits that are tried.
const SLOTS: [u32; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];

/// A fitted engine.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Profile of the simulated engine.
    pub profile: Profile,
    /// Answers in all, and answers held out for validation.
    pub answers: usize,
    /// See [`answers`](Self::answers).
    pub held_out: usize,
    /// Error of TTFT on the held-out answers.
    pub ttft: Error,
    /// Error of TPOT on the held-out answers.
    pub tpot: Error,
    /// Most concurrent requests in the journal: beyond it, the model extrapolates.
    pub most_at_once: usize,
    /// Share of attempts that failed.
    pub failing: f64,
    /// Median length of answers, in tokens.
    pub output_tokens: u32,
}

/// Deviation of simulated from real times; NaN without values to compare.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Error {
    /// Bias of the median: 0.1 is 10 % too long.
    pub bias: f64,
    /// Median absolute deviation, relative.
    pub typical: f64,
}

/// Fits an engine to `watched`; `None` with fewer than [`MIN_ANSWERS`] answers.
pub fn learn(watched: &Watched) -> Option<Learned> {
    let answers = watched.seen.iter().filter(|seen| seen.output_tokens.is_some()).count();
    if answers < MIN_ANSWERS {
        return None;
    }
    let seen = &watched.seen;
    let usual = median(seen.iter().filter_map(|seen| seen.output_tokens.map(f64::from)).collect()) as u32;
    let usual = usual.max(1);
    let known = seen.len() - seen.len() / HELD;
    let training = &seen[known.saturating_sub(MAX_FITTED_REQUESTS)..known];
    let most_at_once = watched.most_at_once();
    let profile = search(training, usual, most_at_once);
    let made = play(&profile, &seen[known.saturating_sub(MAX_FITTED_REQUESTS)..], usual);
    let (own, held) = made.split_at(training.len());
    let jitter = jitter(training, own);
    let later = &seen[known..];
    Some(Learned {
        profile: Profile { jitter, ..profile },
        answers,
        held_out: later.iter().filter(|seen| seen.output_tokens.is_some()).count(),
        ttft: error(later, held, |it| it.ttft.or(it.whole)),
        tpot: error(later, held, |it| it.tpot),
        most_at_once,
        failing: watched.failing(),
        output_tokens: usual,
    })
}

/// The constants that are searched.
const FIELDS: [fn(&mut Profile) -> &mut f64; 5] = [
    |profile| &mut profile.step_ms,
    |profile| &mut profile.prefill_ms,
    |profile| &mut profile.prompt_ms,
    |profile| &mut profile.sequence_ms,
    |profile| &mut profile.context_ms_per_1k,
];

fn search(seen: &[Seen], usual: u32, most_at_once: usize) -> Profile {
    let mut best = guess(seen);
    let mut least = loss(&best, seen, usual);
    for (turn, step) in STEPS.into_iter().enumerate() {
        for _ in 0..ROUNDS {
            let before = least;
            for field in FIELDS {
                let mut scaled = [step, 1.0 / step].into_iter().map(|factor| {
                    let mut scaled = best;
                    *field(&mut scaled) *= factor;
                    (scaled, loss(&scaled, seen, usual))
                });
                if let Some(better) = scaled.find(|(_, of_scaled)| *of_scaled < least) {
                    (best, least) = better;
                }
            }
            if least > before * 0.999 {
                break;
            }
        }
        // A concurrency limit shows only once the rest is about right.
        if turn == 1 {
            (best, least) = slots(best, least, seen, usual, most_at_once);
        }
    }
    best
}

fn slots(profile: Profile, least: f64, seen: &[Seen], usual: u32, most_at_once: usize) -> (Profile, f64) {
    let fewer = SLOTS.into_iter().filter(|slots| (*slots as usize) < most_at_once);
    let tried = fewer.map(|max_sequences| {
        let limited = Profile { max_sequences, ..profile };
        (limited, loss(&limited, seen, usual))
    });
    tried
        .filter(|(_, of)| *of < least * CLEARLY)
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or((profile, least))
}

/// Starting point: from the lower quartile of times, which had little queueing.
fn guess(seen: &[Seen]) -> Profile {
    let quantile = |mut values: Vec<f64>, share: f64| {
        values.sort_by(f64::total_cmp);
        values.get((values.len() as f64 * share) as usize).copied()
    };
    let tpots = seen.iter().filter_map(|seen| seen.tpot).collect();
    let whole = |seen: &Seen| Some((seen.end - seen.at) / f64::from(seen.output_tokens?.max(1)));
    let step = quantile(tpots, 0.25).or_else(|| quantile(seen.iter().filter_map(whole).collect(), 0.1));
    let step_ms = (step.unwrap_or(0.015) * 1e3).max(0.01);
    let fresh = |seen: &Seen| f64::from(seen.prompt_tokens - seen.cached_tokens);
    let firsts: Vec<(f64, f64)> = seen.iter().filter_map(|seen| Some((fresh(seen), seen.ttft?))).collect();
    let rates = firsts.iter().map(|(tokens, ttft)| (ttft * 1e3 - step_ms).max(0.01) / tokens.max(1.0)).collect();
    let prefill_ms = quantile(rates, 0.1).unwrap_or(0.1).max(1e-4);
    Profile {
        step_ms,
        sequence_ms: step_ms * 0.02,
        context_ms_per_1k: step_ms * 0.005,
        prompt_ms: step_ms * 0.3,
        prefill_ms,
        max_sequences: UNLIMITED,
        ..Profile::small()
    }
}

/// Jitter of a step's time, uniform to both sides, with the spread of TTFT that the model does not explain.
fn jitter(seen: &[Seen], made: &[Made]) -> f64 {
    let left: Vec<f64> = seen.iter().zip(made).filter_map(|(seen, made)| difference(seen, made).ttft).collect();
    let middle = median(left.clone());
    let deviation = 1.4826 * median(left.iter().map(|it| (it - middle).abs()).collect());
    if deviation.is_finite() { (deviation * 3.0_f64.sqrt()).min(0.9) } else { 0.0 }
}

fn error(seen: &[Seen], made: &[Made], of: impl Fn(Difference) -> Option<f64>) -> Error {
    let all: Vec<f64> = seen.iter().zip(made).filter_map(|(seen, made)| of(difference(seen, made))).collect();
    // The median of ratios is close to the ratio of medians, and robust.
    let bias = median(all.clone()).exp() - 1.0;
    Error { bias, typical: median(all.iter().map(|it| it.abs()).collect()).exp() - 1.0 }
}

/// Median; NaN without values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observations of an engine with this profile under `count` requests, `gap` seconds apart on average.
    fn seen(profile: &Profile, count: usize, gap: f64) -> Vec<Seen> {
        let mut dice = fastrand::Rng::with_seed(3);
        let mut at = 0.0;
        let mut all: Vec<Seen> = (0..count)
            .map(|_| {
                at -= (1.0 - dice.f64()).ln() * gap;
                let (prompt_tokens, output_tokens) = (dice.u32(20..1500), Some(dice.u32(5..60)));
                Seen { at, end: at, prompt_tokens, cached_tokens: 0, output_tokens, ttft: Some(0.0), tpot: Some(0.0) }
            })
            .collect();
        let made = play(profile, &all, 1);
        for (seen, made) in all.iter_mut().zip(&made) {
            let first = made.first.unwrap();
            (seen.end, seen.ttft) = (made.last, Some(first - seen.at));
            seen.tpot = Some((made.last - first) / f64::from(made.tokens - 1));
        }
        all
    }

    fn learned(profile: Profile, gap: f64) -> Learned {
        learn(&Watched { seen: seen(&profile, 150, gap), ended: 148, failed: 2 }).unwrap()
    }

    #[test]
    fn an_engine_is_known_again_by_what_it_did() {
        let own = Profile { step_ms: 6.0, sequence_ms: 0.4, prompt_ms: 9.0, prefill_ms: 0.11, ..Profile::small() };
        let Learned { profile, ttft, tpot, failing, .. } = learned(own, 0.12);
        assert!(ttft.bias.abs() < 0.1 && ttft.typical < 0.15, "{ttft:?} {profile:?}");
        assert!(tpot.bias.abs() < 0.1 && tpot.typical < 0.15, "{tpot:?} {profile:?}");
        assert!((profile.prefill_ms / own.prefill_ms).ln().abs() < 0.3, "{profile:?}");
        assert!((failing - 2.0 / 150.0).abs() < 1e-9);
    }

    #[test]
    fn slots_are_seen_where_requests_wait_for_them() {
        let own = Profile { step_ms: 20.0, max_sequences: 2, prefill_ms: 0.05, ..Profile::small() };
        let Learned { profile, ttft, most_at_once, .. } = learned(own, 0.4);
        assert_eq!(profile.max_sequences, 2, "{ttft:?}, {most_at_once} at once");
    }

    #[test]
    fn too_little_is_not_learned_from() {
        let few = seen(&Profile::small(), MIN_ANSWERS - 1, 1.0);
        assert!(learn(&Watched { seen: few, ended: 0, failed: 0 }).is_none());
    }
}
