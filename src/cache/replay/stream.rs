//! Queries over a store, and for each the candidates that the recall stage finds, with all that a decision asks.

use super::corpus::Corpus;
use crate::cache::{
    confidence::Signals,
    guard::{Comparison, Traits, compare},
};

/// How many candidates the recall stage hands on.
const CANDIDATES: usize = 8;

/// Unit vectors, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    dimensions: usize,
    values: Vec<f32>,
}

impl Vectors {
    /// Of `values`, each vector `dimensions` long.
    pub fn new(dimensions: usize, values: Vec<f32>) -> Self {
        Self { dimensions, values }
    }

    /// The vector of a text.
    pub fn of(&self, text: usize) -> &[f32] {
        &self.values[text * self.dimensions..(text + 1) * self.dimensions]
    }

    /// Cosine of two.
    pub fn cosine(&self, one: usize, other: usize) -> f32 {
        dot(self.of(one), self.of(other))
    }
}

/// Eight sums side by side, so that the compiler uses wide registers.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    for (a, b) in one.chunks_exact(8).zip(other.chunks_exact(8)) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

/// An entry that was found for a query.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The entry, as the number of its text.
    pub entry: usize,
    /// Its similarities.
    pub signals: Signals,
    /// The texts beside each other.
    pub comparison: Comparison,
    /// Whether its answer serves, by the labels.
    pub same: bool,
}

/// A query and what was found for it.
#[derive(Clone, Debug)]
pub struct Query {
    /// The number of its text.
    pub text: usize,
    /// Whether the store holds a text that means the same.
    pub partner: bool,
    /// What recall found, the most similar by the embedder that decides first.
    pub candidates: Vec<Candidate>,
}

/// Queries over one store.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How many texts are stored.
    pub stored: usize,
    /// The queries in the order of the pairs.
    pub queries: Vec<Query>,
}

impl Stream {
    /// All queries of a corpus over all of its stored texts. `recall` and `decide` are the vectors of its texts, in their order.
    /// Candidates below `floor` by recall are not looked at. `progress` is called after each query.
    pub fn of(corpus: &Corpus, recall: &Vectors, decide: &Vectors, floor: f32, mut progress: impl FnMut()) -> Self {
        let (store, asked) = corpus.sides();
        let traits: Vec<Traits> = corpus.texts.iter().map(|text| Traits::of(text)).collect();
        let groups = corpus.groups_of(&store);
        let mut near: Vec<(f32, usize)> = Vec::new();
        let queries = asked.into_iter().map(|text| {
            near.clear();
            near.extend(
                store.iter().map(|entry| (recall.cosine(*entry, text), *entry)).filter(|(near, _)| *near >= floor),
            );
            near.sort_by(|one, other| other.0.total_cmp(&one.0));
            near.truncate(CANDIDATES);
            let mut found: Vec<(f32, f32, usize)> =
                near.iter().map(|(recalled, entry)| (decide.cosine(*entry, text), *recalled, *entry)).collect();
            found.sort_by(|one, other| other.0.total_cmp(&one.0));
            let partner =
                corpus.has_partner(text, &groups) || found.iter().any(|(.., entry)| corpus.same(*entry, text));
            let similarities: Vec<f32> = found.iter().map(|(similarity, ..)| *similarity).collect();
            let candidates = found.iter().enumerate().map(|(at, (similarity, recalled, entry))| Candidate {
                entry: *entry,
                signals: Signals {
                    similarity: *similarity,
                    recall: *recalled,
                    margin: similarity - similarities.get(usize::from(at == 0)).copied().unwrap_or(0.0),
                },
                comparison: compare(&traits[text], &traits[*entry]),
                same: corpus.same(*entry, text),
            });
            progress();
            Query { text, partner, candidates: candidates.collect() }
        });
        Self { stored: store.len(), queries: queries.collect() }
    }
}
