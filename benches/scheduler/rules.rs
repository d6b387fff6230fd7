//! Rules of the baselines, each as its project or paper publishes it.

use crate::{
    account::{Ask, Known},
    workload::BLOCK,
};

type Dice = fastrand::Rng;

/// Returns the engine with the smallest cost; ties are broken at random.
pub(crate) fn least(up: &[&Known], dice: &mut Dice, cost: impl Fn(&Known) -> f64) -> usize {
    let costs: Vec<f64> = up.iter().map(|known| cost(known)).collect();
    let smallest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let equal: Vec<usize> = (0..up.len()).filter(|&at| costs[at] <= smallest).collect();
    up[equal[dice.usize(..equal.len())]].engine
}

/// Returns the better of two different random engines.
pub(crate) fn better_of_two(up: &[&Known], dice: &mut Dice, cost: impl Fn(&Known) -> f64) -> usize {
    let one = dice.usize(..up.len());
    let other = (one + 1 + dice.usize(..up.len().max(2) - 1)) % up.len();
    if cost(up[one]) <= cost(up[other]) { up[one].engine } else { up[other].engine }
}

/// Prequal's hot–cold lexicographic rule: engines above the 84th percentile of requests in flight are hot. Picks the fastest cold
/// engine, or the least loaded one if all are hot. Here all engines are probed and the answers are fresh, which is more than Prequal needs.
pub(crate) fn prequal(_: &Ask<'_>, up: &[&Known], dice: &mut Dice) -> usize {
    let mut loads: Vec<u32> = up.iter().map(|known| known.in_flight).collect();
    loads.sort_unstable();
    let limit = loads[(loads.len() as f64 * 0.84) as usize];
    let cold: Vec<&Known> = up.iter().copied().filter(|known| known.in_flight < limit).collect();
    if cold.is_empty() {
        least(up, dice, |known| f64::from(known.in_flight))
    } else {
        least(&cold, dice, Known::latency)
    }
}

/// SGLang's `cache_aware` as in its current gateway: fewest in flight if the load is uneven (by more than 64 and 1.5 times), the
/// longest match if it covers more than 0.3 of the prompt, else fewest in flight. The older fallback, the smallest tree, did worse.
pub(crate) fn sglang(ask: &Ask<'_>, up: &[&Known], dice: &mut Dice) -> usize {
    let most = up.iter().map(|known| known.in_flight).max().unwrap_or(0);
    let fewest = up.iter().map(|known| known.in_flight).min().unwrap_or(0);
    let uneven = most - fewest > 64 && f64::from(most) > 1.5 * f64::from(fewest);
    let best = up.iter().map(|known| known.matched(ask.job)).max().unwrap_or(0);
    if !uneven && best as f64 > 0.3 * f64::from(ask.job.prompt_tokens) {
        least(up, dice, |known| -(known.matched(ask.job) as f64))
    } else {
        least(up, dice, |known| f64::from(known.in_flight))
    }
}

/// llm-d's scorers: prefix 3 (share of the prompt), queue 2 (relative to the shortest and longest), KV cache 2 (free share).
pub(crate) fn llmd(
    ask: &Ask<'_>,
    up: &[&Known],
    dice: &mut Dice,
    waiting: impl Fn(&Known) -> f64,
    kv: impl Fn(&Known) -> f64,
) -> usize {
    let most = up.iter().map(|known| waiting(known)).fold(0.0, f64::max);
    let fewest = up.iter().map(|known| waiting(known)).fold(f64::INFINITY, f64::min);
    least(up, dice, |known| {
        let prefix = known.matched(ask.job) as f64 / f64::from(ask.job.prompt_tokens.max(1));
        let queue = if most > fewest { (most - waiting(known)) / (most - fewest) } else { 1.0 };
        -(3.0 * prefix + 2.0 * queue + 2.0 * (1.0 - kv(known)))
    })
}

/// The same, from scraped gauges.
pub(crate) fn llmd_scraped(ask: &Ask<'_>, up: &[&Known], dice: &mut Dice) -> usize {
    let gauges = |known: &Known| known.gauges.unwrap_or_default();
    llmd(ask, up, dice, |known| f64::from(gauges(known).waiting), |known| gauges(known).kv_usage)
}

/// Dynamo's KV router with its defaults (overlap weight 1, temperature 0): blocks to compute plus distinct blocks in use, both
/// including this request.
pub(crate) fn dynamo(ask: &Ask<'_>, up: &[&Known], dice: &mut Dice) -> usize {
    least(up, dice, |known| {
        let new = u64::from(ask.job.prompt_tokens).saturating_sub(known.matched(ask.job));
        (known.queued + new) as f64 / f64::from(BLOCK) + known.blocks_with(ask.job) as f64
    })
}
