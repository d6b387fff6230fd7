//! Token prices.

use super::Usage;

/// Prices in US dollars per million tokens.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Price {
    /// Prompt tokens that were computed.
    pub input: f64,
    /// Prompt tokens found in the engine's prefix cache.
    pub cached_input: f64,
    /// Tokens of the answer.
    pub output: f64,
}

impl Price {
    /// The cost of `usage` in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let cached = usage.cached_tokens.unwrap_or(0).min(usage.prompt_tokens);
        let fresh = usage.prompt_tokens - cached;
        (fresh as f64 * self.input + cached as f64 * self.cached_input + usage.completion_tokens as f64 * self.output)
            / 1e6
    }
}

/// An amount for people: cents, and two digits of amounts below ten cents.
pub fn dollars(usd: f64) -> String {
    let digits = if usd > 0.0 && usd < 0.1 { (-usd.log10()).ceil().min(8.0) as usize + 1 } else { 2 };
    format!("{usd:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_keep_two_digits() {
        let shown = [0.0, 0.25, 12.345, 0.0123, 0.000_12, 1e-12].map(dollars);
        assert_eq!(shown, ["0.00", "0.25", "12.35", "0.012", "0.00012", "0.000000000"]);
    }

    #[test]
    fn cached_tokens_are_charged_at_their_own_price() {
        let price = Price { input: 1.0, cached_input: 0.1, output: 2.0 };
        let usage = Usage {
            prompt_tokens: 1_000_000,
            cached_tokens: Some(500_000),
            completion_tokens: 250_000,
            ..Usage::default()
        };
        assert!((price.cost(&usage) - (0.5 + 0.05 + 0.5)).abs() < 1e-12);
    }
}
