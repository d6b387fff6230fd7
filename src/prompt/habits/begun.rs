//! A prompt, as far as it is compared with others.

use super::sketch::Sketch;
use crate::types::{Head, Located, Prompt};

/// Of heads that have most words in common so many are remembered, so that others are not forgotten for them: what changes has a new one each time.
pub(super) const MOST_LIKE: usize = 12;

/// What is looked up in a prompt only where it is needed.
pub trait Look {
    /// The words of its head.
    fn sketch(&self) -> Sketch;
    /// The part in which a byte lies.
    fn locate(&self, place: u64) -> Located;
}

/// A prompt, as far as it is compared.
#[derive(Copy, Clone, Debug)]
pub struct Begun<'a> {
    /// Its blocks.
    pub prompt: Prompt<'a>,
    /// How it begins.
    pub head: Head,
    /// The conversation it belongs to, where its client names one.
    pub session: Option<u64>,
}
