//! The estimated difficulty of a prompt, before any model has answered it.

/// Number of reasons kept with a score.
pub const REASONS: usize = 4;

/// The complexity estimate of a prompt.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Complexity {
    /// The share of prompts, among those that the weights were fitted on, that gain less from a larger model, in
    /// `0..=1`.
    pub score: f64,
    /// The expected quality of a small model's answer, in `0..=1`.
    pub quality: f64,
    /// The expected gain of quality from a larger model, in `0..=1`.
    pub gap: f64,
    /// The confidence in the score, from 0 (a prompt unlike those the weights were fitted on) to 1.
    pub confidence: f64,
    /// The features with the largest contributions, the strongest first; unused entries at the end have empty names.
    pub reasons: [Contribution; REASONS],
}

/// The contribution of one feature to a prompt's score.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Contribution {
    /// The feature's name.
    pub feature: &'static str,
    /// The contribution in the model's own unit; positive is harder.
    pub amount: f64,
}
