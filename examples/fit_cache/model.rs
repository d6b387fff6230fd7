//! Weights with the least loss on weighted candidates.

use signalbox::{
    cache::confidence::{FEATURES, SIGNS},
    lab::cache_replay::Query,
};

/// Share of queries with a partner that the weights assume. Low, because a budget that is kept there is kept where more queries repeat.
pub(crate) const PREVALENCE: f64 = 0.05;

/// Features of a candidate.
pub(crate) type Features = [f32; FEATURES];

/// Hyperparameters of the fit, chosen on held-out queries.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Setting {
    /// Strength of the ridge.
    pub(crate) ridge: f64,
    /// Weight of the adversarial pairs relative to the stream. There, pairs that serve count like pairs that do not: they show which differences
    /// matter, while only the stream shows how probable a match is.
    pub(crate) adversarial: f64,
    /// Log odds from which the slope is fitted once more, if at all.
    pub(crate) probable: Option<f64>,
}

/// Weights and their covariance.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) weights: [f64; FEATURES],
    pub(crate) covariance: [[f64; FEATURES]; FEATURES],
}

/// A candidate with its label and weight.
pub(crate) struct Row {
    pub(crate) features: Features,
    pub(crate) same: bool,
    pub(crate) weight: f64,
}

/// A query with the features of its candidates that no guard rejects.
pub(crate) struct Rated {
    partner: bool,
    candidates: Vec<(Features, bool)>,
}

impl Rated {
    /// Extracts the features of a query.
    pub(crate) fn of(query: &Query) -> Self {
        let open = query.candidates.iter().filter(|candidate| candidate.comparison.guard.is_none());
        let candidates =
            open.map(|candidate| (candidate.signals.features(&candidate.comparison.soft), candidate.same)).collect();
        Self { partner: query.partner, candidates }
    }
}

/// Fits weights to queries of a stream and to adversarial pairs, without the second fit of the slope.
pub(crate) fn fit(stream: &[&Rated], adversarial: &[&Rated], setting: Setting) -> (Fit, Vec<Row>) {
    let mut weights = [0.0f64; FEATURES];
    (weights[0], weights[1]) = (-9.0, 3.0);
    let mut fit = Fit { weights, covariance: [[0.0; FEATURES]; FEATURES] };
    let mut rows = Vec::new();
    // The best candidate of a query depends on the weights.
    for _ in 0..4 {
        rows = weighted(stream, adversarial, &fit.weights, setting.adversarial);
        fit = solve(&rows, setting.ridge);
    }
    rows.truncate(rows.len() - best_candidates(adversarial, &fit.weights).count());
    (fit, rows)
}

/// Returns the best candidate of each query, weighted as in a stream of the prevalence, then the adversarial ones. The weights sum to the
/// number of queries plus the adversarial share.
fn weighted(stream: &[&Rated], adversarial: &[&Rated], weights: &[f64; FEATURES], share: f64) -> Vec<Row> {
    let all = stream.len() as f64;
    let partners = stream.iter().filter(|query| query.partner).count() as f64;
    let (with, without) = (PREVALENCE / partners * all, (1.0 - PREVALENCE) / (all - partners) * all);
    let count = best_candidates(adversarial, weights).count() as f64;
    let own = best_candidates(stream, weights).map(|(partner, row)| (row, if partner { with } else { without }));
    let beside = best_candidates(adversarial, weights).map(|(_, row)| (row, share * all / count));
    own.chain(beside).map(|((features, same), weight)| Row { features, same, weight }).collect()
}

/// Returns the candidate with the highest log odds of each query that has one, and whether the query has a partner.
fn best_candidates<'a>(
    queries: &'a [&Rated],
    weights: &'a [f64; FEATURES],
) -> impl Iterator<Item = (bool, (Features, bool))> + 'a {
    queries.iter().filter_map(|query| {
        let rated = query.candidates.iter().copied();
        let best = rated.max_by(|one, other| log_odds(weights, &one.0).total_cmp(&log_odds(weights, &other.0)));
        best.map(|best| (query.partner, best))
    })
}

pub(crate) fn log_odds(weights: &[f64; FEATURES], features: &Features) -> f64 {
    weights.iter().zip(features).map(|(weight, value)| weight * f64::from(*value)).sum()
}

pub(crate) fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Solves for the weights and their covariance by Newton's method (iteratively reweighted least squares) with a ridge. A weight of the wrong
/// sign is removed and the others are fitted again.
fn solve(rows: &[Row], ridge: f64) -> Fit {
    let mut active = [true; FEATURES];
    loop {
        let mut weights = [0.0; FEATURES];
        weights[0] = -4.0;
        let mut covariance = [[0.0; FEATURES]; FEATURES];
        for _ in 0..40 {
            let mut hessian = [[0.0; FEATURES]; FEATURES];
            let mut gradient = [0.0; FEATURES];
            for row in rows {
                let p = logistic(log_odds(&weights, &row.features));
                let residual = row.weight * (f64::from(u8::from(row.same)) - p);
                for (i, value) in row.features.iter().enumerate().filter(|(i, _)| active[*i]) {
                    gradient[i] += residual * f64::from(*value);
                    for (j, other) in row.features.iter().enumerate().filter(|(j, _)| active[*j]) {
                        hessian[i][j] += row.weight * p * (1.0 - p) * f64::from(*value) * f64::from(*other);
                    }
                }
            }
            for i in 0..FEATURES {
                let held = if i == 0 { 1e-6 } else { ridge };
                gradient[i] -= held * weights[i];
                hessian[i][i] += if active[i] { held } else { 1e12 };
            }
            covariance = invert(hessian);
            let steps: Vec<f64> =
                covariance.iter().map(|row| row.iter().zip(&gradient).map(|(a, b)| a * b).sum()).collect();
            let largest = steps.iter().fold(0.0f64, |most, step| most.max(step.abs()));
            let damp = (2.0 / largest).min(1.0);
            weights.iter_mut().zip(&steps).for_each(|(weight, step)| *weight += damp * step);
            if largest < 1e-9 {
                break;
            }
        }
        let wrong = (0..FEATURES).filter(|at| active[*at] && weights[*at] * f64::from(SIGNS[*at]) < 0.0);
        let Some(worst) = wrong.max_by(|one, other| weights[*one].abs().total_cmp(&weights[*other].abs())) else {
            (0..FEATURES).filter(|at| !active[*at]).for_each(|at| weights[at] = 0.0);
            return Fit { weights, covariance };
        };
        active[worst] = false;
    }
}

/// Rescales the log odds to the measured rates of the more probable candidates (Platt, 1999). Labels of improbable candidates are wrong
/// more often than the model, and flatten the slope for all. Platt's targets keep the slope finite.
pub(crate) fn sharpen(rows: &[Row], fit: &Fit, probable: f64) -> Fit {
    let known: Vec<(f64, &Row)> = rows
        .iter()
        .map(|row| (log_odds(&fit.weights, &row.features), row))
        .filter(|(odds, _)| *odds > probable)
        .collect();
    let count = |same: bool| known.iter().filter(|(_, row)| row.same == same).count() as f64;
    let targets = [1.0 / (count(false) + 2.0), (count(true) + 1.0) / (count(true) + 2.0)];
    let (mut offset, mut slope) = (0.0, 1.0);
    for _ in 0..50 {
        let (mut g, mut h) = ([0.0f64; 2], [[1e-9f64, 0.0], [0.0, 1e-9]]);
        for (x, row) in &known {
            let p = logistic(offset + slope * x);
            let residual = row.weight * (targets[usize::from(row.same)] - p);
            let curve = row.weight * p * (1.0 - p);
            (g[0], g[1]) = (g[0] + residual, g[1] + residual * x);
            h = [[h[0][0] + curve, h[0][1] + curve * x], [h[1][0] + curve * x, h[1][1] + curve * x * x]];
        }
        let determinant = h[0][0] * h[1][1] - h[0][1] * h[1][0];
        offset += (h[1][1] * g[0] - h[0][1] * g[1]) / determinant;
        slope += (h[0][0] * g[1] - h[1][0] * g[0]) / determinant;
    }
    let mut weights = fit.weights.map(|weight| weight * slope);
    weights[0] += offset;
    Fit { weights, covariance: fit.covariance.map(|row| row.map(|entry| entry * slope * slope)) }
}

/// Inverts a positive definite matrix by Gauss-Jordan elimination.
fn invert(mut matrix: [[f64; FEATURES]; FEATURES]) -> [[f64; FEATURES]; FEATURES] {
    let mut inverse = [[0.0; FEATURES]; FEATURES];
    for (at, row) in inverse.iter_mut().enumerate() {
        row[at] = 1.0;
    }
    for at in 0..FEATURES {
        let pivot = matrix[at][at];
        for column in 0..FEATURES {
            matrix[at][column] /= pivot;
            inverse[at][column] /= pivot;
        }
        for row in (0..FEATURES).filter(|row| *row != at) {
            let times = matrix[row][at];
            for column in 0..FEATURES {
                matrix[row][column] -= times * matrix[at][column];
                inverse[row][column] -= times * inverse[at][column];
            }
        }
    }
    inverse
}
