//! What an evaluation found.

use crate::cache::replay::{Counts, Rates};

/// All that was found.
pub(super) struct Results {
    /// Pairs that were read, and how many of them mean the same.
    pub(super) pairs: usize,
    pub(super) same: usize,
    /// Prompts that were stored, prompts that were asked, and how many of these have a partner in the store.
    pub(super) stored: usize,
    pub(super) queries: usize,
    pub(super) partners: usize,
    /// Prompts that the cache passes by.
    pub(super) without: usize,
    /// The id of the embedder that decides.
    pub(super) decider: String,
    pub(super) points: Vec<Point>,
    /// Where the file tells families: a row for each and each budget.
    pub(super) families: Vec<Family>,
}

/// Rates at a prevalence and a budget.
pub(super) struct Point {
    pub(super) prevalence: f64,
    pub(super) budget: f64,
    pub(super) counts: Counts,
    pub(super) rates: Rates,
}

/// Pairs of a family at a budget.
pub(super) struct Family {
    pub(super) name: String,
    pub(super) budget: f64,
    /// Pairs that differ, and how many of them would be served.
    pub(super) different: usize,
    pub(super) wrong: usize,
    /// Pairs that mean the same, and how many of them would be served.
    pub(super) same: usize,
    pub(super) right: usize,
}

impl Family {
    pub(super) fn new(name: &str, budget: f64) -> Self {
        Self { name: name.to_owned(), budget, different: 0, wrong: 0, same: 0, right: 0 }
    }

    /// Takes in a pair.
    pub(super) fn add(&mut self, same: bool, served: bool) {
        let (all, served_ones) =
            if same { (&mut self.same, &mut self.right) } else { (&mut self.different, &mut self.wrong) };
        *all += 1;
        *served_ones += usize::from(served);
    }
}
