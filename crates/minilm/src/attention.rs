//! Self-attention: each token's state becomes the mean of all tokens' values, weighted by the products of its query
//! with their keys.

use pulp::{Arch, NullaryFnOnce};

use crate::arithmetic::softmax;

/// Width of a head.
pub(crate) const HEAD: usize = 32;
/// Number of keys multiplied together, so that their sums stay in registers.
const KEYS: usize = 32;

/// Reads the queries, keys and values of each token, side by side, and writes the weighted means to `seen`. `scratch`
/// is memory for a head's keys.
pub(crate) fn attend(query_key_value: &[f32], hidden: usize, scratch: &mut Vec<f32>, seen: &mut Vec<f32>) {
    let tokens = query_key_value.len() / (3 * hidden);
    let blocks = tokens.div_ceil(KEYS);
    seen.clear();
    seen.resize(tokens * hidden, 0.0);
    scratch.clear();
    scratch.resize(blocks * KEYS * (HEAD + 1), 0.0);
    Arch::new().dispatch(Attending { all: query_key_value, hidden, tokens, scratch, seen });
}

/// The work of [`attend`], for dispatch by instruction set.
struct Attending<'a> {
    all: &'a [f32],
    hidden: usize,
    tokens: usize,
    scratch: &'a mut [f32],
    seen: &'a mut [f32],
}

impl NullaryFnOnce for Attending<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for head in (0..self.hidden).step_by(HEAD) {
            one_head(self.all, self.hidden, head, self.tokens, self.scratch, self.seen);
        }
    }
}

#[inline(always)]
fn one_head(all: &[f32], hidden: usize, head: usize, tokens: usize, scratch: &mut [f32], seen: &mut [f32]) {
    let by = (HEAD as f32).sqrt().recip();
    let (keys, scores) = scratch.split_at_mut(scratch.len() / (HEAD + 1) * HEAD);
    let (keys, _) = keys.as_chunks_mut::<KEYS>();
    let part = |token: usize, which: usize| &all[token * 3 * hidden + which * hidden + head..][..HEAD];
    // Keys are stored in blocks, and by dimension within a block. Unused slots stay zero.
    for token in 0..tokens {
        for (dimension, key) in part(token, 1).iter().enumerate() {
            keys[token / KEYS * HEAD + dimension][token % KEYS] = key * by;
        }
    }
    for token in 0..tokens {
        let query = part(token, 0);
        for (keys, scores) in keys.chunks_exact(HEAD).zip(scores.as_chunks_mut::<KEYS>().0) {
            let mut sums = [0.0; KEYS];
            for (x, keys) in query.iter().zip(keys) {
                for (sum, key) in sums.iter_mut().zip(keys) {
                    *sum += x * key;
                }
            }
            *scores = sums;
        }
        softmax(&mut scores[..tokens]);
        let mut sums = [0.0; HEAD];
        for (other, score) in scores[..tokens].iter().enumerate() {
            for (sum, value) in sums.iter_mut().zip(part(other, 2)) {
                *sum += score * value;
            }
        }
        seen[token * hidden + head..][..HEAD].copy_from_slice(&sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_matches_its_definition() {
        for tokens in [1, 2, 31, 32, 33, 65] {
            let hidden = 2 * HEAD;
            let mut random = fastrand::Rng::with_seed(tokens as u64);
            let all: Vec<f32> = (0..tokens * 3 * hidden).map(|_| random.f32() * 4.0 - 2.0).collect();
            let at = |token: usize, which: usize, at: usize| f64::from(all[token * 3 * hidden + which * hidden + at]);
            let (mut scratch, mut seen) = (vec![7.0; 3], Vec::new());
            attend(&all, hidden, &mut scratch, &mut seen);
            for token in 0..tokens {
                for head in [0, HEAD] {
                    let score = |other: usize| {
                        (head..head + HEAD).map(|x| at(token, 0, x) * at(other, 1, x)).sum::<f64>()
                            / (HEAD as f64).sqrt()
                    };
                    let weights: Vec<f64> = (0..tokens).map(|other| score(other).exp()).collect();
                    for x in head..head + HEAD {
                        let sum: f64 = weights.iter().enumerate().map(|(other, weight)| weight * at(other, 2, x)).sum();
                        let wanted = sum / weights.iter().sum::<f64>();
                        assert!((wanted - f64::from(seen[token * hidden + x])).abs() < 1e-4, "{tokens} {token} {x}");
                    }
                }
            }
        }
    }
}
