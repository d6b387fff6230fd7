//! Nearest vectors: one index for the entries that may answer one another, and none that is shared by those that may not.

mod adaptive;
mod best;
mod codes;
mod flat;
mod graph;
mod kernels;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

pub use self::{
    adaptive::{Adaptive, Plan, Rebuilt, Retired},
    flat::Flat,
};

/// Unit vectors by number, and those nearest to another.
///
/// All are of one length, which the index is made for. A vector of another length is near to nothing: it is not added, and finds
/// nothing. Neither is one without a direction, all zeros, near to anything: its similarity is 0.
pub trait VectorIndex: Send + Sync {
    /// Adds a vector, or puts it in the place of the one that has its number.
    fn insert(&mut self, number: u64, vector: &[f32]);

    /// Takes a vector out; whether there was one.
    fn remove(&mut self, number: u64) -> bool;

    /// Puts at most `most` entries into `near`, the nearest first. What `near` held before is gone.
    fn search(&self, vector: &[f32], most: usize, near: &mut Vec<Near>);

    /// How many vectors it holds.
    fn len(&self) -> usize;

    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What it takes, in bytes.
    fn bytes(&self) -> usize;
}

/// An entry near to what was looked for.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Near {
    /// Its number.
    pub number: u64,
    /// Cosine of the angle between the two, −1 to 1.
    pub similarity: f32,
}

impl Near {
    /// The order of a search's answer; those that are equally near by their numbers.
    fn nearest_first(&self, other: &Self) -> Ordering {
        other.similarity.total_cmp(&self.similarity).then(self.number.cmp(&other.number))
    }
}
