//! Policies to compare with: one static threshold, and a threshold learned per entry.

use std::collections::HashMap;

use signalbox::lab::cache_replay::{Counts, Query, Stream, at_prevalence};

/// Serves the nearest candidate from a similarity on, as `GPTCache` does.
pub(crate) fn at_threshold(stream: &Stream, threshold: f32) -> Counts {
    let mut counts = Counts::default();
    for query in &stream.queries {
        let nearest = query.candidates.first().filter(|candidate| candidate.signals.similarity >= threshold);
        counts.add(query.partner, nearest.map(|candidate| candidate.same));
    }
    counts
}

/// Returns the most hits of any one threshold with at most `error` wrong ones per hit, in the stream as it is.
pub(crate) fn most_hits(stream: &Stream, error: f64) -> usize {
    let nearest = stream.queries.iter().filter_map(|query| query.candidates.first());
    let mut order: Vec<(f32, bool)> = nearest.map(|nearest| (nearest.signals.similarity, nearest.same)).collect();
    order.sort_by(|one, other| other.0.total_cmp(&one.0));
    let (mut wrong, mut most) = (0, 0);
    for (at, (_, same)) in order.iter().enumerate() {
        wrong += usize::from(!same);
        if wrong as f64 <= error * (at + 1) as f64 {
            most = at + 1;
        }
    }
    most
}

/// Returns the best hit rate of any one threshold with at most `error` false hits per hit.
pub(crate) fn fixed(stream: &Stream, prevalence: f64, error: f64) -> f64 {
    let mut order: Vec<(&Query, f32, bool)> = stream
        .queries
        .iter()
        .filter_map(|query| query.candidates.first().map(|nearest| (query, nearest.signals.similarity, nearest.same)))
        .collect();
    order.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut counts = at_threshold(stream, 2.0);
    best(&mut counts, order.into_iter().map(|(query, _, same)| (query.partner, same)), prevalence, error)
}

/// Serves one more query at a time and keeps the highest hit rate whose error is small enough.
fn best(counts: &mut Counts, served: impl Iterator<Item = (bool, bool)>, prevalence: f64, error: f64) -> f64 {
    let mut most = 0.0f64;
    for (partner, same) in served {
        match (same, partner) {
            (true, _) => counts.right += 1,
            (false, true) => counts.wrong += 1,
            (false, false) => counts.false_hits += 1,
        }
        let of = |part: usize, all: usize| part as f64 / all.max(1) as f64;
        let false_hits = prevalence * of(counts.wrong, counts.with_partner)
            + (1.0 - prevalence) * of(counts.false_hits, counts.without);
        let hits = prevalence * of(counts.right, counts.with_partner) + false_hits;
        if false_hits <= error * hits {
            most = most.max(hits);
        }
    }
    most
}

/// Labels an entry needs before it may serve.
const LABELS: usize = 4;

/// Returns the best hit rate, over values of `delta` and with at most `error` false hits per hit, of a logistic threshold per entry that is
/// learned from the entry's labels. It explores with the probability that keeps the error below `delta` (after Schroeder and others,
/// vCache, 2025, from its mathematics). A query that explores goes upstream and becomes a label.
pub(crate) fn per_entry(stream: &Stream, prevalence: f64, error: f64) -> f64 {
    let runs = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3].map(|delta| {
        let rates = at_prevalence(&learn(stream, delta), prevalence);
        if rates.per_hit.rate <= error { rates.hit_rate.rate } else { 0.0 }
    });
    runs.into_iter().fold(0.0, f64::max)
}

fn learn(stream: &Stream, delta: f64) -> Counts {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut order: Vec<&Query> = stream.queries.iter().collect();
    rng.shuffle(&mut order);
    let mut labels: HashMap<usize, Vec<(f64, bool)>> = HashMap::new();
    let mut counts = Counts::default();
    for query in order {
        let nearest = query.candidates.first();
        let hit = nearest.filter(|nearest| {
            let seen = labels.get(&nearest.entry).map_or(&[][..], Vec::as_slice);
            let explore = exploration(seen, f64::from(nearest.signals.similarity), delta);
            rng.f64() >= explore
        });
        if let (Some(nearest), None) = (nearest, hit) {
            labels.entry(nearest.entry).or_default().push((f64::from(nearest.signals.similarity), nearest.same));
        }
        counts.add(query.partner, hit.map(|nearest| nearest.same));
    }
    counts
}

/// Probability to explore: 1 below [`LABELS`], else such that a served answer is false with probability `delta` at most.
fn exploration(labels: &[(f64, bool)], similarity: f64, delta: f64) -> f64 {
    if labels.len() < LABELS {
        return 1.0;
    }
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    // The posterior of threshold and steepness over a grid, with a flat prior.
    let (mut all, mut serves) = (0.0, 0.0);
    for step in 0..40 {
        let threshold = 0.5 + 0.0125 * f64::from(step);
        for steepness in [10.0, 20.0, 40.0, 80.0] {
            let likelihood: f64 = labels
                .iter()
                .map(|(near, same)| {
                    let p = logistic(steepness * (near - threshold)).clamp(1e-9, 1.0 - 1e-9);
                    if *same { p } else { 1.0 - p }
                })
                .product();
            all += likelihood;
            serves += likelihood * logistic(steepness * (similarity - threshold));
        }
    }
    let wrong = 1.0 - serves / all;
    if wrong <= delta { 0.0 } else { 1.0 - delta / wrong }
}
