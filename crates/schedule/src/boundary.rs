//! Learned boundary between short and long prompts: the length from which on the pool for long prompts is the better
//! one.
//!
//! Each request gives evidence, since its cost to all requests, itself included, is known for both pools. A request on
//! the wrong side of the boundary moves it a little (stochastic approximation, Robbins and Monro 1951, on the logarithm
//! of the length). The boundary settles where both pools cost the same. A queue in one pool moves it, and the end of
//! that queue moves it back.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Relative step of the boundary per request: 2 %.
const STEP: f64 = 0.02;
/// Least relative difference in cost that counts. Predictions are no more accurate than this.
const CLEAR: f64 = 0.05;
/// Initial boundary in tokens, and its limits.
const FIRST: f64 = 8192.0;
const LIMITS: (f64, f64) = (64.0, 4_194_304.0);

/// A learned length in tokens. Shared by reference. Loads and stores are relaxed, since a lost step is harmless.
#[derive(Debug)]
pub struct Boundary(AtomicU64);

impl Default for Boundary {
    fn default() -> Self {
        Self(AtomicU64::new(FIRST.to_bits()))
    }
}

impl Boundary {
    /// Length in tokens from which on a prompt is long.
    pub fn tokens(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    /// Learns from a prompt of `tokens` tokens that would cost `short` seconds in the pool for short prompts and `long`
    /// seconds in the other.
    pub fn learn(&self, tokens: u64, short: f64, long: f64) {
        let (tokens, boundary) = (tokens as f64, self.tokens());
        let moved = if tokens < boundary && long < short * (1.0 - CLEAR) {
            boundary * (1.0 - STEP)
        } else if tokens >= boundary && short < long * (1.0 - CLEAR) {
            boundary * (1.0 + STEP)
        } else {
            return;
        };
        self.0.store(moved.clamp(LIMITS.0, LIMITS.1).to_bits(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The boundary after `requests` of random lengths, where the short pool takes `slow` milliseconds per token and
    /// the long one 100 ms plus a quarter of that per token.
    fn learned(boundary: &Boundary, requests: u64, slow: f64) -> f64 {
        let mut dice = fastrand::Rng::with_seed(7);
        for _ in 0..requests {
            let tokens = 2.0_f64.powf(5.0 + 12.0 * dice.f64());
            boundary.learn(tokens as u64, slow * tokens, 0.1 + 0.25 * slow.min(1e-3) * tokens);
        }
        boundary.tokens()
    }

    #[test]
    fn the_boundary_settles_where_both_pools_cost_the_same() {
        let boundary = Boundary::default();
        // 1 ms · n = 100 ms + 0.25 ms · n at 133 tokens.
        let first = learned(&boundary, 4000, 1e-3);
        assert!((110.0..160.0).contains(&first), "{first}");
        // 0.1 ms · n = 100 ms + 0.025 ms · n at 1333 tokens.
        let faster = learned(&boundary, 4000, 1e-4);
        assert!((1100.0..1600.0).contains(&faster), "{faster}");
    }

    #[test]
    fn small_differences_do_not_move_the_boundary() {
        let boundary = Boundary::default();
        boundary.learn(100, 1.0, 0.97);
        boundary.learn(100_000, f64::NAN, 1.0);
        assert!((boundary.tokens() - FIRST).abs() < 1e-9);
    }
}
