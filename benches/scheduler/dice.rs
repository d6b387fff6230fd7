//! Samples of the distributions that scenarios are drawn from.

pub(crate) fn exponential(dice: &mut fastrand::Rng, mean: f64) -> f64 {
    -(1.0 - dice.f64()).ln() * mean
}

pub(crate) fn log_uniform(dice: &mut fastrand::Rng, from: f64, to: f64) -> f64 {
    from * (to / from).powf(dice.f64())
}

/// A sample with this median and standard deviation of the logarithm.
pub(crate) fn log_normal(dice: &mut fastrand::Rng, median: f64, sigma: f64) -> f64 {
    let radius = (-2.0 * (1.0 - dice.f64()).ln()).sqrt();
    median * (sigma * radius * (std::f64::consts::TAU * dice.f64()).cos()).exp()
}

/// Draws a number below `count` by a Zipf distribution.
pub(crate) fn zipf(dice: &mut fastrand::Rng, count: u64, exponent: f64) -> u64 {
    let weight = |rank: u64| ((rank + 1) as f64).powf(-exponent);
    let mut left = dice.f64() * (0..count).map(weight).sum::<f64>();
    (0..count)
        .find(|&rank| {
            left -= weight(rank);
            left < 0.0
        })
        .unwrap_or(0)
}
