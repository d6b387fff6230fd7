//! Results of an evaluation of the semantic cache.

use crate::cache_replay::{Counts, Rates};

/// All results.
pub struct Results {
    /// Pairs that were read.
    pub pairs: usize,
    /// Pairs that mean the same.
    pub same: usize,
    /// Stored prompts.
    pub stored: usize,
    /// Queries.
    pub queries: usize,
    /// Queries with a partner in the store.
    pub partners: usize,
    /// Prompts that the cache does not look up.
    pub without: usize,
    /// Id of the embedder that decides.
    pub decider: String,
    /// Rates by prevalence and budget.
    pub points: Vec<Point>,
    /// Rows by family and budget, if the file names families.
    pub families: Vec<Family>,
}

/// Rates at a prevalence and a budget.
pub struct Point {
    /// Share of queries that have a partner.
    pub prevalence: f64,
    /// The wrong answers that are allowed, as a share of hits.
    pub budget: f64,
    /// Counts of hits and misses.
    pub counts: Counts,
    /// The rates that follow from them.
    pub rates: Rates,
}

/// Counts of a family at a budget.
pub struct Family {
    /// Its name.
    pub name: String,
    /// The wrong answers that are allowed, as a share of hits.
    pub budget: f64,
    /// Pairs that differ.
    pub different: usize,
    /// Pairs that differ and would be served.
    pub wrong: usize,
    /// Pairs that mean the same.
    pub same: usize,
    /// Pairs that mean the same and would be served.
    pub right: usize,
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
