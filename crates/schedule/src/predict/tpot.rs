//! Time per token after the first, as a linear function of the batch.

/// The batch that an answer is decoded in.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Other requests that are decoding.
    pub decoding: u32,
    /// Their context: tokens of prompts and of answers so far.
    pub context: u64,
    /// Tokens of this request's own prompt.
    pub prompt: u64,
    /// Uncached prompt tokens per second recently dispatched to the engine, which interrupt the answer; 0 where
    /// unknown.
    pub arriving: f64,
}

/// Least length of an answer for a mean over its gaps.
pub(super) const FEWEST_TOKENS: u64 = 5;
/// Coefficients of the model.
pub(super) const TERMS: usize = 4;
/// Seconds: per step; per request in the batch; per 1000 tokens of context; per 1000 prompt tokens a second. Typical
/// for most engines.
pub(super) const PRIOR: [f64; TERMS] = [0.015, 0.0002, 0.00005, 0.005];
/// Spread of engines around these values.
pub(super) const SPREAD: [f64; TERMS] = [0.02, 0.001, 0.0005, 0.02];
/// Speeds apply to steps of any length.
pub(super) const LEAST_SECONDS: f64 = 0.0;
/// Weight of an observation: answers that overlap in time were interrupted by the same prompts and are not independent.
pub(super) const NOVELTY: f64 = 0.2;
/// All residuals are in one class.
pub(super) const CLASSES: usize = 1;

impl Batch {
    /// Factors of the coefficients.
    pub(super) fn terms(&self) -> [f64; TERMS] {
        let context = self.context.saturating_add(self.prompt).min(1_000_000_000);
        let arriving = if self.arriving > 0.0 { self.arriving.min(1e9) / 1000.0 } else { 0.0 };
        [1.0, f64::from(self.decoding) + 1.0, context as f64 / 1000.0, arriving]
    }
}
