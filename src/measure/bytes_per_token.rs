//! How many bytes of prompt make a token, learned from what engines report.

use std::sync::atomic::{AtomicU64, Ordering};

/// Before anything was learned: about right for English prose and for code.
const DEFAULT: f64 = 4.0;
/// Byte-fallback tokenizers come close to one byte a token.
const LOWEST: f64 = 1.0;
/// Repetitive or heavily escaped text; beyond it the bytes were not text (an image, say).
const HIGHEST: f64 = 12.0;
/// Below this many tokens the chat template's own tokens outweigh the caller's text.
const FEWEST_TOKENS: u64 = 32;
/// The weight of a new sample: about the last twenty prompts count.
const WEIGHT: f64 = 0.05;

/// A moving average of prompt bytes ÷ reported prompt tokens, kept for each model: what turns a body's length into an
/// estimate of its tokens without running a tokenizer.
#[derive(Debug)]
pub struct BytesPerToken {
    bits: AtomicU64,
}

impl BytesPerToken {
    /// Nothing learned yet: 4.0.
    pub fn new() -> Self {
        Self { bits: AtomicU64::new(DEFAULT.to_bits()) }
    }

    /// Learns from a prompt of `bytes` bytes of text that the engine counted as `tokens`. A prompt too short to tell,
    /// or with a ratio no text has, teaches nothing.
    pub fn observe(&self, bytes: u64, tokens: u64) {
        if tokens < FEWEST_TOKENS {
            return;
        }
        let sample = bytes as f64 / tokens as f64;
        if !(LOWEST..=HIGHEST).contains(&sample) {
            return;
        }
        let mut bits = self.bits.load(Ordering::Relaxed);
        loop {
            let mean = f64::from_bits(bits);
            let next = (mean + WEIGHT * (sample - mean)).to_bits();
            match self.bits.compare_exchange_weak(bits, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => bits = seen,
            }
        }
    }

    /// Bytes a token, between 1 and 12.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.bits.load(Ordering::Relaxed)).clamp(LOWEST, HIGHEST)
    }

    /// The tokens that `bytes` bytes of prompt will make, rounded up.
    pub fn tokens(&self, bytes: u64) -> u64 {
        (bytes as f64 / self.value()).ceil() as u64
    }
}

impl Default for BytesPerToken {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    #[test]
    fn it_starts_at_four_and_converges() {
        let ratio = BytesPerToken::new();
        assert!((ratio.value() - 4.0).abs() < 1e-12);
        assert_eq!(ratio.tokens(9), 3);
        for _ in 0..200 {
            ratio.observe(2_500, 1_000);
        }
        assert!((ratio.value() - 2.5).abs() < 0.001);
    }

    #[test]
    fn images_and_bare_templates_teach_nothing() {
        let ratio = BytesPerToken::new();
        ratio.observe(4_000_000, 800);
        ratio.observe(10, 500);
        ratio.observe(100, 20);
        ratio.observe(0, 0);
        assert!((ratio.value() - 4.0).abs() < 1e-12);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn it_never_leaves_its_bounds(samples in prop::collection::vec((0..u64::MAX, 0..u64::MAX), 0..50)) {
            let ratio = BytesPerToken::new();
            for (bytes, tokens) in samples {
                ratio.observe(bytes, tokens);
            }
            prop_assert!((LOWEST..=HIGHEST).contains(&ratio.value()));
        }
    }
}
