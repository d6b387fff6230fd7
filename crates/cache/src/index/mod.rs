//! Nearest-neighbour search: one index per set of entries that may answer one another; no index is shared beyond.

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

/// Unit vectors by number, with nearest-neighbour search.
///
/// All vectors have the length that the index was created for. A vector of another length matches nothing: it is not
/// added, and finds nothing. A zero vector has a similarity of 0 to all.
pub trait VectorIndex: Send + Sync {
    /// Adds a vector, or replaces the one with its number.
    fn insert(&mut self, number: u64, vector: &[f32]);

    /// Removes a vector. Returns false if there was none.
    fn remove(&mut self, number: u64) -> bool;

    /// Replaces the contents of `near` by at most `most` entries, nearest first.
    fn search(&self, vector: &[f32], most: usize, near: &mut Vec<Near>);

    /// Number of vectors.
    fn len(&self) -> usize;

    /// True without vectors.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size in bytes.
    fn bytes(&self) -> usize;
}

/// A search result.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Near {
    /// Its number.
    pub number: u64,
    /// Cosine of the angle, −1 to 1.
    pub similarity: f32,
}

impl Near {
    /// Order of search results; equal similarities by number.
    fn nearest_first(&self, other: &Self) -> Ordering {
        other.similarity.total_cmp(&self.similarity).then(self.number.cmp(&other.number))
    }
}
