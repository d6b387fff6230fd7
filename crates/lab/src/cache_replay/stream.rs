//! Queries against a store, with the candidates of the recall stage and the inputs of a decision.

use super::{
    corpus::{Corpus, Pair},
    rates::Counts,
};
use signalbox_cache::{
    Embedder,
    confidence::{Decision, Prior, Shift, Signals, decide},
    guard::{Comparison, Traits, compare},
    normal,
    semantic::{CANDIDATES, compare_texts},
};

/// Unit vectors in one buffer.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    dimensions: usize,
    values: Vec<f32>,
}

impl Vectors {
    /// Wraps `values`, a sequence of vectors of length `dimensions`.
    pub fn new(dimensions: usize, values: Vec<f32>) -> Self {
        Self { dimensions, values }
    }

    /// Vector of a text.
    pub fn of(&self, text: usize) -> &[f32] {
        &self.values[text * self.dimensions..(text + 1) * self.dimensions]
    }

    /// Cosine similarity of two texts.
    pub fn cosine(&self, one: usize, other: usize) -> f32 {
        dot(self.of(one), self.of(other))
    }
}

/// Eight parallel sums, so that the compiler vectorises.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    for (a, b) in one.chunks_exact(8).zip(other.chunks_exact(8)) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

/// A stored entry found for a query.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Index of its text.
    pub entry: usize,
    /// Similarities.
    pub signals: Signals,
    /// Comparison of the two texts.
    pub comparison: Comparison,
    /// True if the entry's answer serves the query, by the labels.
    pub same: bool,
}

/// A query with its candidates.
#[derive(Clone, Debug)]
pub struct Query {
    /// Index of its text.
    pub text: usize,
    /// True if the store holds a text with the same meaning.
    pub partner: bool,
    /// Candidates, the most similar by the deciding embedder first.
    pub candidates: Vec<Candidate>,
}

impl Query {
    /// A query with the second text of a pair against a store of only the first, given their similarity by the deciding embedder. Text 0 is stored,
    /// text 1 is the query.
    pub fn alone(pair: &Pair, similarity: f32) -> Self {
        let candidate = Candidate {
            entry: 0,
            signals: Signals { similarity, margin: similarity },
            comparison: compare(&Traits::of(&pair.b), &Traits::of(&pair.a)),
            same: pair.same,
        };
        Self { text: 1, partner: pair.same, candidates: vec![candidate] }
    }

    /// Candidate that is served if `budget` is the allowed share of false hits, before any evidence of scope and entry: the one with the highest
    /// confidence.
    pub fn served(&self, prior: &Prior, budget: f32) -> Option<&Candidate> {
        let hits = self.candidates.iter().filter_map(|candidate| {
            let Candidate { signals, comparison, .. } = candidate;
            match decide(prior, &Shift::scope(), &Shift::entry(), signals, comparison, budget) {
                Decision::Serve(belief) => Some((candidate, belief.lower)),
                Decision::Grey(_) | Decision::Miss(_) => None,
            }
        });
        hits.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(candidate, _)| candidate)
    }
}

/// Queries against one store.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Number of stored texts.
    pub stored: usize,
    /// Queries, in the order of the pairs.
    pub queries: Vec<Query>,
}

impl Stream {
    /// Runs all queries of a corpus against all of its stored texts. `decide` are the vectors of its texts, `vocabulary` has
    /// the words that are not misspelt. `progress` is called after each query.
    pub fn of(corpus: &Corpus, decide: &Vectors, vocabulary: &dyn Embedder, mut progress: impl FnMut()) -> Self {
        let (store, asked) = corpus.sides();
        let traits: Vec<Traits> = corpus.texts.iter().map(|text| Traits::of(normal(text))).collect();
        let groups = corpus.groups_of(&store);
        let mut near: Vec<(f32, usize)> = Vec::new();
        let queries = asked.into_iter().map(|text| {
            near.clear();
            // A zero vector stands for a text that is not looked up.
            let similarities = store.iter().map(|entry| (decide.cosine(*entry, text), *entry));
            near.extend(similarities.filter(|(near, _)| *near != 0.0));
            near.sort_by(|one, other| other.0.total_cmp(&one.0));
            near.truncate(CANDIDATES);
            let found = &near;
            let partner = corpus.has_partner(text, &groups) || found.iter().any(|(_, entry)| corpus.same(*entry, text));
            let similarities: Vec<f32> = found.iter().map(|(similarity, _)| *similarity).collect();
            let candidates = found.iter().enumerate().map(|(at, (similarity, entry))| Candidate {
                entry: *entry,
                signals: Signals {
                    similarity: *similarity,
                    margin: similarity - similarities.get(usize::from(at == 0)).copied().unwrap_or(0.0),
                },
                comparison: compare_texts(&traits[text], &traits[*entry], vocabulary),
                same: corpus.same(*entry, text),
            });
            progress();
            Query { text, partner, candidates: candidates.collect() }
        });
        Self { stored: store.len(), queries: queries.collect() }
    }

    /// Counts the outcomes of the queries at a budget.
    pub fn counts(&self, prior: &Prior, budget: f32) -> Counts {
        let mut counts = Counts::default();
        for query in &self.queries {
            counts.add(query.partner, query.served(prior, budget).map(|hit| hit.same));
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::cache_replay::Half;

    fn pair(a: &str, b: &str, same: bool) -> Pair {
        Pair { a: a.into(), b: b.into(), same }
    }

    /// A vocabulary of all words: none is misspelt.
    #[derive(Debug)]
    struct AllWords;

    impl Embedder for AllWords {
        fn id(&self) -> &'static str {
            "all words"
        }

        fn dimensions(&self) -> usize {
            0
        }

        fn max_tokens(&self) -> usize {
            0
        }

        fn embed(&self, _: &[&str]) -> Result<Vec<Vec<f32>>, signalbox_cache::EmbedError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_query_is_served_with_similar_entries_unless_guards_differ() {
        let pairs = [
            pair("How do I reset my router?", "how do i reset my router", true),
            pair("How do I bake 2 loaves of bread?", "How do I bake 3 loaves of bread?", false),
        ];
        let corpus = Corpus::of(&pairs, Half::All, &HashMap::new());
        let near = Vectors::new(8, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]].map(wide).concat());
        let mut looked_at = 0;
        let stream = Stream::of(&corpus, &near, &AllWords, || looked_at += 1);
        assert_eq!((stream.stored, stream.queries.len(), looked_at), (2, 2, 2));
        let counts = stream.counts(Prior::of("minilm-l6-w8"), 0.05);
        assert_eq!(counts, Counts { with_partner: 1, right: 1, wrong: 0, without: 1, false_hits: 0 });
        assert_eq!(stream.counts(Prior::of("minilm-l6-w8"), 0.0).hits(), 0);
    }

    #[test]
    fn a_zero_vector_has_no_candidates() {
        let pairs = [pair("a", "b", true)];
        let corpus = Corpus::of(&pairs, Half::All, &HashMap::new());
        let none = Vectors::new(8, vec![0.0; 16]);
        let stream = Stream::of(&corpus, &none, &AllWords, || ());
        assert!(stream.queries[0].partner && stream.queries[0].candidates.is_empty());
    }

    #[test]
    fn a_pair_alone_is_decided_by_its_own_similarities() {
        let prior = Prior::of("minilm-l6-w8");
        let right = Query::alone(&pair("How do I reset my router?", "how do i reset my router", true), 0.99);
        assert!(right.partner && right.served(prior, 0.05).is_some_and(|hit| hit.same));
        let other = Query::alone(&pair("Is 5 prime?", "Is 6 prime?", false), 0.99);
        assert!(!other.partner && other.served(prior, 0.05).is_none());
    }

    fn wide(two: [f32; 2]) -> [f32; 8] {
        let mut wide = [0.0; 8];
        wide[..2].copy_from_slice(&two);
        wide
    }
}
