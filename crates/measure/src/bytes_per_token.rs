//! A prompt's token count estimated from its bytes, learned from the counts that engines report.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::Rls;

/// Bytes per token before anything was learned: about right for English prose and for code.
const DEFAULT: f64 = 4.0;
/// Byte-fallback tokenizers come close to one byte per token.
const LOWEST: f64 = 1.0;
/// Repetitive or heavily escaped text. Beyond this the bytes were not text (an image, for example).
const HIGHEST: f64 = 12.0;
/// In shorter prompts nearly all tokens may come from the chat template, or the count may be wrong.
const FEWEST_TOKENS: u64 = 32;
/// Prior standard deviations of the template's tokens (from 0) and of tokens per byte (from the default).
const SPREAD: [f64; 2] = [32.0, 0.1];
/// The most tokens that a chat template adds.
const LONGEST_TEMPLATE: f64 = 4096.0;
/// Remembers about the last hundred prompts.
const FORGETTING: f64 = 0.99;

/// Tokens of a prompt as a linear function of its bytes of text, kept per model. It turns a body's length into a token
/// estimate without running a tokenizer.
///
/// A chat template adds its own tokens to every prompt. A mean of bytes ÷ tokens would attribute them to the text: an
/// engine that got only short prompts would seem to have a worse tokenizer than its twin that got the long ones, and
/// long prompts would be overestimated there.
#[derive(Debug)]
pub struct BytesPerToken {
    fit: Mutex<Rls<2>>,
    /// Bits of the bytes per token, as `f64`.
    bits: AtomicU64,
    /// Tokens of the template.
    template: AtomicU32,
}

impl BytesPerToken {
    /// The initial estimate: 4.0 bytes per token and no template.
    pub fn new() -> Self {
        Self {
            fit: Mutex::new(Rls::new([0.0, 1.0 / DEFAULT], SPREAD, FORGETTING)),
            bits: AtomicU64::new(DEFAULT.to_bits()),
            template: AtomicU32::new(0),
        }
    }

    /// Learns from a prompt of `bytes` bytes of text that the engine counted as `tokens`. Ignores prompts that are too
    /// short and ratios that no text has.
    pub fn observe(&self, bytes: u64, tokens: u64) {
        let ratio = bytes as f64 / tokens as f64;
        if tokens < FEWEST_TOKENS || !(LOWEST..=HIGHEST).contains(&ratio) {
            return;
        }
        let mut fit = self.fit.lock();
        let x = [1.0, bytes as f64];
        let expected = fit.predict(&x).max(1.0);
        fit.observe(&x, tokens as f64, expected);
        let [template, slope] = *fit.coefficients();
        self.bits.store((1.0 / slope.clamp(1.0 / HIGHEST, 1.0 / LOWEST)).to_bits(), Relaxed);
        self.template.store(template.min(LONGEST_TEMPLATE) as u32, Relaxed);
    }

    /// Bytes of text per token, between 1 and 12.
    pub fn value(&self) -> f64 {
        f64::from_bits(self.bits.load(Relaxed))
    }

    /// The estimated tokens of `bytes` bytes of text, rounded up; about four billion at most.
    pub fn tokens(&self, bytes: u64) -> u64 {
        let tokens = bytes as f64 / self.value();
        // `ceil` is a function call on targets without SSE4.1, and 64-bit conversions take several instructions where
        // 32-bit ones take one. Decisions call this for every backend.
        let whole = tokens as u32;
        u64::from(whole) + u64::from(f64::from(whole) < tokens)
    }

    /// The estimated tokens of a prompt with `bytes` bytes of text, or of a prefix of that length, including the
    /// template.
    pub fn prompt_tokens(&self, bytes: u64) -> u64 {
        if bytes == 0 { 0 } else { self.tokens(bytes) + u64::from(self.template.load(Relaxed)) }
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
        assert_eq!([0, 8, 9, u64::MAX].map(|bytes| ratio.tokens(bytes)), [0, 2, 3, 1 << 32]);
        for _ in 0..200 {
            ratio.observe(2_500, 1_000);
        }
        assert!((990..=1_010).contains(&ratio.prompt_tokens(2_500)), "{}", ratio.prompt_tokens(2_500));
    }

    #[test]
    fn the_template_is_separated_from_the_text_whatever_the_mix() {
        let tokens = |bytes: u64| 44 + bytes / 3;
        for long in [0.02, 0.5, 1.0] {
            let (ratio, mut dice) = (BytesPerToken::new(), fastrand::Rng::with_seed(1));
            for _ in 0..400 {
                let bytes = if dice.f64() < long { dice.u64(3_000..7_000) } else { dice.u64(90..130) };
                ratio.observe(bytes, tokens(bytes));
            }
            let (got, want) = (ratio.prompt_tokens(5_000) as f64, tokens(5_000) as f64);
            assert!((got / want - 1.0).abs() < 0.03, "{got} for {want}, {long} of them long");
        }
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
