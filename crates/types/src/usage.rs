//! Token counts, as an answer's `usage` object reports them.

/// Token counts of one answer. A count the engine did not report is unknown, never 0.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that the engine found in its prefix cache.
    pub cached_tokens: Option<u64>,
    /// Tokens of the prompt that the engine wrote to its prefix cache, where it charges for that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_written_tokens: Option<u64>,
    /// Tokens of the answer, hidden reasoning included.
    pub completion_tokens: u64,
    /// Tokens of the answer spent on hidden reasoning.
    pub reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Merges usage that arrives in parts: Anthropic reports prompt tokens at the start and output tokens at the end.
    #[must_use]
    pub fn with(self, now: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.max(now.prompt_tokens),
            cached_tokens: now.cached_tokens.or(self.cached_tokens),
            cache_written_tokens: now.cache_written_tokens.or(self.cache_written_tokens),
            completion_tokens: self.completion_tokens.max(now.completion_tokens),
            reasoning_tokens: now.reasoning_tokens.or(self.reasoning_tokens),
        }
    }

    /// Adds the usage of another answer.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Self {
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            cached_tokens: sum(self.cached_tokens, other.cached_tokens),
            cache_written_tokens: sum(self.cache_written_tokens, other.cache_written_tokens),
            completion_tokens: self.completion_tokens.saturating_add(other.completion_tokens),
            reasoning_tokens: sum(self.reasoning_tokens, other.reasoning_tokens),
        }
    }

    /// Tokens of the prompt and the answer together.
    pub fn total(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Tokens of the answer that the stream showed; reasoning counts only if it was shown.
    pub fn shown_tokens(&self, reasoning_shown: bool) -> u64 {
        let hidden = if reasoning_shown { 0 } else { self.reasoning_tokens.unwrap_or(0) };
        self.completion_tokens.saturating_sub(hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_of_several_answers_adds_up() {
        let one = Usage { prompt_tokens: 100, cached_tokens: Some(40), completion_tokens: 20, ..Usage::default() };
        let other = Usage { prompt_tokens: 7, reasoning_tokens: Some(3), completion_tokens: 5, ..Usage::default() };
        let both = Usage {
            prompt_tokens: 107,
            cached_tokens: Some(40),
            completion_tokens: 25,
            reasoning_tokens: Some(3),
            ..Usage::default()
        };
        assert_eq!((one.and(other), other.and(one)), (both, both));
    }

    #[test]
    fn hidden_reasoning_is_not_shown() {
        let usage = Usage { completion_tokens: 1000, reasoning_tokens: Some(900), ..Usage::default() };
        assert_eq!((usage.shown_tokens(false), usage.shown_tokens(true)), (100, 1000));
    }
}
