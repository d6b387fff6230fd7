//! Profiles of simulated engines: speed, memory and limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The speed, memory and limits of one simulated engine. A field left out of YAML has the value of [`Profile::small`].
///
/// One step takes
/// `step_ms + sequence_ms · decoding + context_ms_per_1k · context / 1000 + prefill_ms · Σ tokens · (1 + position / slowdown_tokens)`
/// milliseconds, plus `prompt_ms` where a prompt begins in it.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Milliseconds every step takes, whatever is in it (default 14.9).
    pub step_ms: f64,
    /// Milliseconds each decoding sequence adds to a step (default 0.08).
    pub sequence_ms: f64,
    /// Milliseconds each 1000 tokens of decoding context add to a step (default 0.06).
    pub context_ms_per_1k: f64,
    /// Milliseconds added to a step in which at least one prompt begins (default 5.1).
    pub prompt_ms: f64,
    /// Milliseconds each prompt token takes that is not found in the prefix cache (default 0.35).
    pub prefill_ms: f64,
    /// The position, in tokens, at which a prompt token takes twice `prefill_ms` (default 30 000).
    pub slowdown_tokens: f64,
    /// Tokens one step may compute: decoding sequences take one each, prompts share the rest (default 2048).
    pub chunk_tokens: u32,
    /// Sequences that may run at once; the others wait (default 128).
    pub max_sequences: u32,
    /// Tokens the KV cache holds (default 300 000).
    pub kv_tokens: u32,
    /// Tokens of one KV block, the unit of allocation and of prefix caching (default 16).
    pub block_tokens: u32,
    /// Tokens prompt and answer may have together, vLLM's `max_model_len` (default 32 768).
    pub context_tokens: u32,
    /// Jitter of a step's time as a share of it, uniform to both sides (default 0.03).
    pub jitter: f64,
}

impl Default for Profile {
    fn default() -> Self {
        Self::small()
    }
}

impl Profile {
    /// A 3B model on one L40S: 15 ms between tokens, 20 ms + 0.35 ms per prompt token to the first.
    pub const fn small() -> Self {
        Self {
            step_ms: 14.9,
            sequence_ms: 0.08,
            context_ms_per_1k: 0.06,
            prompt_ms: 5.1,
            prefill_ms: 0.35,
            slowdown_tokens: 30_000.0,
            chunk_tokens: 2_048,
            max_sequences: 128,
            kv_tokens: 300_000,
            block_tokens: 16,
            context_tokens: 32_768,
            jitter: 0.03,
        }
    }

    /// A 70B model on eight H100: 25 ms between tokens, 80 ms + 0.5 ms per prompt token to the first.
    pub const fn large() -> Self {
        Self {
            step_ms: 24.8,
            sequence_ms: 0.15,
            context_ms_per_1k: 0.04,
            prompt_ms: 55.2,
            prefill_ms: 0.5,
            chunk_tokens: 4_096,
            kv_tokens: 1_000_000,
            context_tokens: 131_072,
            ..Self::small()
        }
    }

    /// An 8B to 14B long-context model on H100: 12 ms between tokens, 30 ms + 0.25 ms per prompt token to the first.
    pub const fn long() -> Self {
        Self {
            step_ms: 11.9,
            sequence_ms: 0.1,
            context_ms_per_1k: 0.02,
            prompt_ms: 18.1,
            prefill_ms: 0.25,
            chunk_tokens: 4_096,
            max_sequences: 64,
            kv_tokens: 1_200_000,
            context_tokens: 1_048_576,
            ..Self::small()
        }
    }

    /// An 8B model on one H100: 12 ms between tokens, 30 ms + 0.06 ms per prompt token to the first.
    pub const fn h100_8b() -> Self {
        Self { prefill_ms: 0.06, max_sequences: 128, kv_tokens: 400_000, context_tokens: 200_000, ..Self::long() }
    }

    /// Names of the built-in profiles.
    pub const NAMES: [&str; 4] = ["small", "large", "long", "h100-8b"];

    /// The built-in profile called `name`, one of [`NAMES`](Self::NAMES).
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "small" => Some(Self::small()),
            "large" => Some(Self::large()),
            "long" => Some(Self::long()),
            "h100-8b" => Some(Self::h100_8b()),
            _ => None,
        }
    }

    /// Name of the built-in profile that this equals, apart from the block size.
    pub fn name(&self) -> Option<&'static str> {
        let same = |name: &&str| {
            Self::named(name).is_some_and(|named| Self { block_tokens: self.block_tokens, ..named } == *self)
        };
        Self::NAMES.into_iter().find(same)
    }

    /// Name of the first field with an impossible value, if any.
    pub fn nonsense(&self) -> Option<&'static str> {
        let least = f64::from(f32::MIN_POSITIVE);
        let times = [
            ("step_ms", self.step_ms, least),
            ("sequence_ms", self.sequence_ms, 0.0),
            ("context_ms_per_1k", self.context_ms_per_1k, 0.0),
            ("prompt_ms", self.prompt_ms, 0.0),
            ("prefill_ms", self.prefill_ms, 0.0),
            ("slowdown_tokens", self.slowdown_tokens, 1.0),
            ("jitter", self.jitter, 0.0),
        ];
        let counts = [
            ("chunk_tokens", self.chunk_tokens),
            ("max_sequences", self.max_sequences),
            ("kv_tokens", self.kv_tokens),
            ("block_tokens", self.block_tokens),
            ("context_tokens", self.context_tokens),
        ];
        let time = times.into_iter().find(|(_, time, least)| !(time.is_finite() && time >= least));
        let count = || counts.into_iter().find(|(_, count)| *count == 0).map(|(field, _)| field);
        time.map(|(field, ..)| field).or_else(count)
    }

    /// Size of the KV cache in whole blocks, at least one.
    pub(crate) fn kv_blocks(&self) -> u32 {
        (self.kv_tokens / self.block_tokens.max(1)).max(1)
    }

    /// Most tokens of prompt and answer of one request: the smaller of context and KV cache.
    pub fn longest(&self) -> u32 {
        self.kv_blocks().saturating_mul(self.block_tokens.max(1)).min(self.context_tokens)
    }

    /// TTFT of a prompt of `prompt_tokens` on an idle engine with a cold cache, without jitter.
    pub fn idle_ttft(&self, prompt_tokens: u32) -> Duration {
        let steps = prompt_tokens.div_ceil(self.chunk_tokens.max(1)).max(1);
        millis(self.step_ms * f64::from(steps) + self.prompt_ms + self.prefill(0, prompt_tokens))
    }

    /// Time between two tokens of a lone request after `context_tokens`, without jitter.
    #[cfg(test)]
    pub(super) fn idle_itl(&self, context_tokens: u32) -> Duration {
        millis(self.step_ms + self.decode(1, u64::from(context_tokens)))
    }

    /// Milliseconds that `sequences` decoding over `context` tokens in total add to a step.
    pub(super) fn decode(&self, sequences: u32, context: u64) -> f64 {
        self.sequence_ms * f64::from(sequences) + self.context_ms_per_1k * context as f64 / 1000.0
    }

    /// Milliseconds to compute `tokens` prompt tokens from `position` on.
    pub(super) fn prefill(&self, position: u32, tokens: u32) -> f64 {
        let middle = f64::from(position) + f64::from(tokens) / 2.0;
        self.prefill_ms * f64::from(tokens) * (1.0 + middle / self.slowdown_tokens.max(1.0))
    }
}

/// `ms` milliseconds, at least one microsecond, so that every step advances time. NaN counts as zero.
pub(super) fn millis(ms: f64) -> Duration {
    Duration::from_nanos(((ms * 1e6) as u64).max(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profiles_have_the_documented_speeds() {
        for (name, itl, base, per_token) in [
            ("small", 15.0, 20.0, 0.35),
            ("large", 25.0, 80.0, 0.5),
            ("long", 12.0, 30.0, 0.25),
            ("h100-8b", 12.0, 30.0, 0.06),
        ] {
            let profile = Profile::named(name).unwrap();
            assert!((profile.idle_itl(500).as_secs_f64() * 1e3 - itl).abs() < 0.1, "{name}");
            let ttft = profile.idle_ttft(100).as_secs_f64() * 1e3;
            assert!((ttft - base - 100.0 * per_token).abs() < 0.1, "{name}: {ttft}");
            assert!(profile.kv_tokens >= profile.context_tokens, "{name}: the longest request must fit");
        }
        assert_eq!(Profile::named("huge"), None);
    }

    #[test]
    fn a_full_batch_is_two_to_three_times_slower_than_an_idle_engine() {
        for profile in [Profile::small(), Profile::large(), Profile::long()] {
            let full = profile.step_ms + profile.decode(profile.max_sequences, u64::from(profile.kv_tokens) / 2);
            let factor = full / profile.step_ms;
            assert!((2.0..3.0).contains(&factor), "{factor}");
        }
    }

    #[test]
    fn a_profile_is_readable_from_yaml_with_defaults() {
        let profile: Profile = serde_saphyr::from_str("prefill_ms: 1.5\nmax_sequences: 4\n").unwrap();
        assert_eq!(profile, Profile { prefill_ms: 1.5, max_sequences: 4, ..Profile::small() });
        assert!(serde_saphyr::from_str::<Profile>("prefil_ms: 1").is_err());
    }

    #[test]
    fn nonsense_numbers_still_move_time_on() {
        assert_eq!(millis(f64::NAN), Duration::from_micros(1));
        assert_eq!(millis(-5.0), Duration::from_micros(1));
    }
}
