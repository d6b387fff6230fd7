//! Verdict on a lookup: the candidate to serve, if any, and its certainty.

use std::sync::Arc;

use super::entry::Entry;
use crate::{
    confidence::{Belief, Decision, Prior, Reason, Shift, Signals, decide, is_open},
    guard::{Guard, Traits, compare},
};

/// A query and its limits.
#[derive(Copy, Clone, Debug)]
pub struct Weighed<'a> {
    /// Features of the text.
    pub traits: &'a Traits,
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
    Guarded(Guard),
    /// All candidates are too unlikely to serve.
    Unlikely,
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

/// Verdict that is certain before the deciding embedder makes the query's vector, which takes milliseconds: guards
/// reject all candidates, or no similarity would make one probable enough. `None` where it depends on the vector.
pub fn early_verdict(query: &Weighed<'_>, candidates: &[Arc<Entry>]) -> Option<Verdict> {
    let mut guarded = None;
    for entry in candidates {
        let comparison = compare(query.traits, &entry.traits);
        if is_open(query.prior, &query.scope, &entry.shift(), &comparison, query.budget) {
            return None;
        }
        // Nearest first.
        guarded = guarded.or(comparison.guard);
    }
    Some(guarded.map_or(Verdict::Unlikely, Verdict::Guarded))
}

/// Weighs the candidates by the query's `vector`, of length 1, of the deciding embedder. Takes the most certain one.
pub fn judge(query: &Weighed<'_>, vector: &[f32], candidates: &[Arc<Entry>]) -> Verdict {
    let similarities: Vec<f32> = candidates.iter().map(|entry| cosine(vector, &entry.vector)).collect();
    let mut best: Option<(bool, Judged)> = None;
    let mut guarded: Option<(f32, Guard)> = None;
    for (at, entry) in candidates.iter().enumerate() {
        let similarity = similarities[at];
        // Another text that leads to the same answer does not compete.
        let rivals = candidates.iter().zip(&similarities).filter(|(it, _)| !Arc::ptr_eq(&it.record, &entry.record));
        let next = rivals.map(|(_, similarity)| *similarity).fold(0.0, f32::max);
        let signals = Signals { similarity, margin: similarity - next };
        let comparison = compare(query.traits, &entry.traits);
        let (serve, belief) =
            match decide(query.prior, &query.scope, &entry.shift(), &signals, &comparison, query.budget) {
                Decision::Serve(belief) => (true, belief),
                Decision::Grey(belief) => (false, belief),
                Decision::Miss(Reason::Guard(guard)) => {
                    if guarded.is_none_or(|(nearest, _)| similarity > nearest) {
                        guarded = Some((similarity, guard));
                    }
                    continue;
                }
                Decision::Miss(Reason::Unlikely(_)) => continue,
            };
        if best.as_ref().is_none_or(|(_, known)| belief.lower > known.belief.lower) {
            best = Some((serve, Judged { entry: entry.clone(), similarity, belief }));
        }
    }
    match (best, guarded) {
        (Some((true, judged)), _) => Verdict::Serve(judged),
        (Some((false, judged)), _) => Verdict::Grey(judged),
        (None, Some((_, guard))) => Verdict::Guarded(guard),
        (None, None) => Verdict::Unlikely,
    }
}

/// Cosine of two vectors of length 1; 0 if their lengths differ.
fn cosine(one: &[f32], other: &[f32]) -> f32 {
    if one.len() != other.len() {
        return 0.0;
    }
    one.iter().zip(other).map(|(one, other)| one * other).sum::<f32>().clamp(-1.0, 1.0)
}
