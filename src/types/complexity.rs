//! How hard a prompt seems, before any model has answered it.

/// How many of a score's reasons are kept.
pub const REASONS: usize = 4;

/// What was made of a prompt.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Complexity {
    /// The share of prompts, among those that the weights were fitted on, that gain less from a larger model. In `0..=1`.
    pub score: f64,
    /// The quality to expect of a small model's answer, in `0..=1`.
    pub quality: f64,
    /// What a larger model is expected to add to it, in `0..=1`.
    pub gap: f64,
    /// How far the score can be relied on: 0 for a prompt unlike those the weights were fitted on, up to 1.
    pub confidence: f64,
    /// What moved the score most, the strongest first; empty names at the end where there is less.
    pub reasons: [Contribution; REASONS],
}

/// What one feature of a prompt added to its score.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Contribution {
    /// The feature's name.
    pub feature: &'static str,
    /// What it added, in the model's own unit; positive is harder.
    pub amount: f64,
}
