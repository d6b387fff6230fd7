//! Results of an evaluation of the semantic cache.

use crate::lab::cache_replay::{Counts, Rates};

/// All results.
pub(crate) struct Results {
    /// Pairs that were read, and those that mean the same.
    pub(crate) pairs: usize,
    pub(crate) same: usize,
    /// Stored prompts, queries, and queries with a partner in the store.
    pub(crate) stored: usize,
    pub(crate) queries: usize,
    pub(crate) partners: usize,
    /// Prompts that the cache does not look up.
    pub(crate) without: usize,
    /// Id of the embedder that decides.
    pub(crate) decider: String,
    pub(crate) points: Vec<Point>,
    /// Rows by family and budget, if the file names families.
    pub(crate) families: Vec<Family>,
}

/// Rates at a prevalence and a budget.
pub(crate) struct Point {
    pub(crate) prevalence: f64,
    pub(crate) budget: f64,
    pub(crate) counts: Counts,
    pub(crate) rates: Rates,
}

/// Counts of a family at a budget.
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) budget: f64,
    /// Pairs that differ, and those of them that would be served.
    pub(crate) different: usize,
    pub(crate) wrong: usize,
    /// Pairs that mean the same, and those of them that would be served.
    pub(crate) same: usize,
    pub(crate) right: usize,
}

impl Family {
    pub(crate) fn new(name: &str, budget: f64) -> Self {
        Self { name: name.to_owned(), budget, different: 0, wrong: 0, same: 0, right: 0 }
    }

    /// Counts a pair.
    pub(crate) fn add(&mut self, same: bool, served: bool) {
        let (all, served_ones) =
            if same { (&mut self.same, &mut self.right) } else { (&mut self.different, &mut self.wrong) };
        *all += 1;
        *served_ones += usize::from(served);
    }
}
