//! Token prices.

use super::Usage;

/// Prices in US dollars per million tokens.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Price {
    /// Prompt tokens that were computed.
    pub input: f64,
    /// Prompt tokens found in the engine's prefix cache.
    pub cached_input: f64,
    /// Prompt tokens that the engine wrote to its prefix cache.
    pub cache_write: f64,
    /// Tokens of the answer.
    pub output: f64,
}

impl Price {
    /// True if nothing costs anything.
    pub fn is_free(&self) -> bool {
        [self.input, self.cached_input, self.cache_write, self.output].iter().all(|price| *price <= 0.0)
    }

    /// The cost of `usage` in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let cached = usage.cached_tokens.unwrap_or(0).min(usage.prompt_tokens);
        let written = usage.cache_written_tokens.unwrap_or(0).min(usage.prompt_tokens - cached);
        let fresh = usage.prompt_tokens - cached - written;
        let prompt = fresh as f64 * self.input + cached as f64 * self.cached_input + written as f64 * self.cache_write;
        (prompt + usage.completion_tokens as f64 * self.output) / 1e6
    }
}

/// A part of the amount `whole` for people: in cents, and more precisely if the whole is below ten cents.
pub fn dollars(usd: f64, whole: f64) -> String {
    let digits = if whole > 0.0 && whole < 0.1 { (-whole.log10()).ceil().min(8.0) as usize + 1 } else { 2 };
    format!("{usd:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_small_amounts_are_precise() {
        let shown =
            [(0.000_01, 50.0), (12.345, 50.0), (0.000_08, 0.0001), (0.02, 0.05)].map(|(usd, of)| dollars(usd, of));
        assert_eq!(shown, ["0.00", "12.35", "0.00008", "0.020"]);
    }

    #[test]
    fn cached_tokens_are_charged_at_their_own_price() {
        let price = Price { input: 1.0, cached_input: 0.1, cache_write: 1.25, output: 2.0 };
        let usage = Usage {
            prompt_tokens: 1_000_000,
            cached_tokens: Some(500_000),
            completion_tokens: 250_000,
            ..Usage::default()
        };
        assert!((price.cost(&usage) - (0.5 + 0.05 + 0.5)).abs() < 1e-12);
    }
}
