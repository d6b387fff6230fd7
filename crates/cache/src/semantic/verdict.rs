//! Verdict on a lookup: the candidate to serve, if any, and its certainty.

use std::sync::Arc;

use super::entry::Entry;
use crate::{
    confidence::{Belief, Decision, Prior, Reason, Shift, Signals, decide},
    embedder::Embedder,
    guard::{Comparison, Guard, Traits, compare},
};

/// A query and its limits.
#[derive(Copy, Clone, Debug)]
pub struct Weighed<'a> {
    /// Features of the text.
    pub traits: &'a Traits,
    /// The embedder whose vocabulary tells misspelt words.
    pub vocabulary: &'a dyn Embedder,
    /// Prior of the embedder.
    pub prior: &'a Prior,
    /// Evidence of the scope.
    pub scope: Shift,
    /// Allowed share of false hits among hits.
    pub budget: f32,
}

/// Outcome for a query.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The entry's answer may be served.
    Serve(Judged),
    /// It may not be served, but a label for it would be useful.
    Grey(Judged),
    /// A guard rejects the nearest candidate.
    Guarded(Guard, NearMiss),
    /// All candidates are too unlikely to serve.
    Unlikely(NearMiss),
}

/// The nearest candidate where none may be served.
#[derive(Clone, Debug)]
pub struct NearMiss {
    /// The entry.
    pub entry: Arc<Entry>,
    /// Similarity by the deciding embedder.
    pub similarity: f32,
    /// Probability that its answer serves the query, where no guard rejects it.
    pub probability: Option<f32>,
}

/// A candidate after the second stage.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The entry.
    pub entry: Arc<Entry>,
    /// Similarity by the deciding embedder.
    pub similarity: f32,
    /// Probability that the entry's answer serves the query.
    pub belief: Belief,
}

/// Compares the texts of a query and an entry. A misspelt word is the one that was meant, by the embedder's `vocabulary`.
pub fn compare_texts(query: &Traits, entry: &Traits, vocabulary: &dyn Embedder) -> Comparison {
    let found = compare(query, entry);
    let misspelt = !found.alike && query.misspells(entry, &|word| vocabulary.knows(word));
    if misspelt { Comparison { guard: None, alike: true, ..found } } else { found }
}

impl Weighed<'_> {
    fn compare(&self, entry: &Entry) -> Comparison {
        compare_texts(self.traits, &entry.traits, self.vocabulary)
    }
}

/// Weighs the candidates by the query's `vector`, of length 1, of the deciding embedder. Takes the most certain one.
/// `None` without candidates.
pub fn judge(query: &Weighed<'_>, vector: &[f32], candidates: &[Arc<Entry>]) -> Option<Verdict> {
    let mut near: Vec<(f32, &Arc<Entry>)> =
        candidates.iter().map(|entry| (cosine(vector, &entry.vector), entry)).collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut best: Option<(bool, Judged)> = None;
    let mut missed: Option<Verdict> = None;
    for (similarity, entry) in near.iter().copied() {
        // Another text that leads to the same answer does not compete.
        let next = near.iter().find(|(_, other)| !Arc::ptr_eq(&other.record, &entry.record));
        let signals =
            Signals { similarity, margin: similarity - next.map_or(0.0, |(similarity, _)| similarity.max(0.0)) };
        let comparison = query.compare(entry);
        let near = |probability| NearMiss { entry: entry.clone(), similarity, probability };
        let (serve, belief) =
            match decide(query.prior, &query.scope, &entry.shift(), &signals, &comparison, query.budget) {
                Decision::Serve(belief) => (true, belief),
                Decision::Grey(belief) => (false, belief),
                Decision::Miss(reason) => {
                    missed = Some(missed_by(missed, reason, near));
                    continue;
                }
            };
        if best.as_ref().is_none_or(|(_, known)| belief.lower > known.belief.lower) {
            best = Some((serve, Judged { entry: entry.clone(), similarity, belief }));
        }
    }
    match best {
        Some((true, judged)) => Some(Verdict::Serve(judged)),
        Some((false, judged)) => Some(Verdict::Grey(judged)),
        None => missed,
    }
}

/// The verdict after one more candidate that may not be served. A guard on the nearest of those that one rejects says more
/// than a low probability.
fn missed_by(missed: Option<Verdict>, reason: Reason, near: impl Fn(Option<f32>) -> NearMiss) -> Verdict {
    match (missed, reason) {
        (None | Some(Verdict::Unlikely(_)), Reason::Guard(guard)) => Verdict::Guarded(guard, near(None)),
        (None, Reason::Unlikely(probability)) => Verdict::Unlikely(near(Some(probability))),
        (Some(missed), _) => missed,
    }
}

/// Cosine of two vectors of length 1; 0 if their lengths differ.
fn cosine(one: &[f32], other: &[f32]) -> f32 {
    if one.len() != other.len() {
        return 0.0;
    }
    one.iter().zip(other).map(|(one, other)| one * other).sum::<f32>().clamp(-1.0, 1.0)
}
