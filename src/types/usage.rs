//! Tokens, as an answer's `usage` object reports them.

/// Token counts of one answer. A count the engine did not report is unknown, never 0.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that the engine found in its prefix cache.
    pub cached_tokens: Option<u64>,
    /// Tokens of the answer, hidden reasoning included.
    pub completion_tokens: u64,
    /// Tokens of the answer spent on hidden reasoning.
    pub reasoning_tokens: Option<u64>,
}
