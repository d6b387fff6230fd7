//! The view of a prompt that is compared with earlier ones.

use super::sketch::Sketch;
use signalbox_types::{Head, Located, Prompt};

/// The most prompts with similar heads that are remembered, so that they do not push out others: a head with a changing
/// value is new each time.
pub(super) const MOST_LIKE: usize = 12;

/// Parts of a prompt that are read only if needed.
pub trait LazyPrompt {
    /// The sketch of its head.
    fn sketch(&self) -> Sketch;
    /// The part that contains the byte `place`.
    fn locate(&self, place: u64) -> Located;
}

/// A prompt as it is compared with earlier ones.
#[derive(Copy, Clone, Debug)]
pub struct TrackedPrompt<'a> {
    /// Its blocks.
    pub prompt: Prompt<'a>,
    /// Its head.
    pub head: Head,
    /// The conversation it belongs to, if its client names one.
    pub session: Option<u64>,
}
