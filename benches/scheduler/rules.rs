//! Rules of the baselines, each as its project or paper publishes it.

use crate::{
    account::{Ask, Known, Rule},
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

/// The marginal-cost rule.
pub(crate) fn plain(ask: &Ask<'_>, up: &[&Known], dice: &mut Dice) -> usize {
    least(up, dice, |known| known.queued as f64 + known.uncached(ask.job) * f64::from(known.in_flight + 1))
}

/// The marginal-cost rule without the queue.
pub(crate) fn lmetric(ask: &Ask<'_>, up: &[&Known], dice: &mut Dice) -> usize {
    least(up, dice, |known| known.uncached(ask.job) * f64::from(known.in_flight + 1))
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

/// llm-d's scorers from our own counts of requests that wait and of context, in a KV cache of `capacity` tokens.
pub(crate) fn llmd_own(capacity: f64) -> impl Rule {
    move |ask: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
        let kv = |known: &Known| (known.context as f64 / capacity).min(1.0);
        llmd(ask, up, dice, |known| f64::from(known.waiting), kv)
    }
}

/// llm-d's scorers: prefix 3 (share of the prompt), queue 2 (relative to the shortest and longest), KV cache 2 (free share).
fn llmd(
    ask: &Ask<'_>,
    up: &[&Known],
    dice: &mut Dice,
    waiting: impl Fn(&Known) -> f64,
    kv: impl Fn(&Known) -> f64,
) -> usize {
    let most = up.iter().map(|known| waiting(known)).fold(0.0, f64::max);
    let fewest = up.iter().map(|known| waiting(known)).fold(f64::INFINITY, f64::min);
    least(up, dice, |known| {
        let prefix = known.share(ask.job);
        let queue = if most > fewest { (most - waiting(known)) / (most - fewest) } else { 1.0 };
        -(3.0 * prefix + 2.0 * queue + 2.0 * (1.0 - kv(known)))
    })
}

/// The same, from scraped gauges.
pub(crate) fn llmd_scraped(ask: &Ask<'_>, up: &[&Known], dice: &mut Dice) -> usize {
    let gauges = |known: &Known| known.gauges.unwrap_or_default();
    llmd(ask, up, dice, |known| f64::from(gauges(known).waiting), |known| gauges(known).kv_usage)
}

/// Dynamo's KV router (overlap credit 1, temperature 0): `scale` (`--router-prefill-load-scale`) times the blocks to compute, plus
/// distinct blocks in use, both including this request.
pub(crate) fn dynamo(scale: f64) -> impl Rule {
    move |ask: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
        least(up, dice, |known| {
            let new = u64::from(ask.job.prompt_tokens).saturating_sub(known.matched(ask.job));
            scale * (known.queued + new) as f64 / f64::from(BLOCK) + known.blocks_with(ask.job) as f64
        })
    }
}

/// Shares of a prompt from which on llm-d's affinity filters keep to the engines that have it, and the longest first token for which
/// they do, in seconds.
const AFFINE: [f64; 2] = [0.99, 0.8];
const PENALTY: f64 = 18.0;
/// Probability with which llm-d tries an engine that is predicted to be late.
const EXPLORES: f64 = 0.01;

/// llm-d's predicted-latency profile as its chart ships it: affinity filter, engines that keep `limit` first (all miss it without
/// one), affinity filter, latency scorer (the least headroom, else the least deficit, idle engines first), weighted random. Times to
/// first token alone, as without `streamingMode`; predicted by our predictor's 90th percentile in place of `XGBoost`'s.
pub(crate) fn llmd_predicted(limit: f64) -> impl Rule {
    move |ask: &Ask<'_>, up: &[&Known], dice: &mut Dice| {
        let p90 = |known: &Known| ask.learner.map_or(0.0, |learner| learner.ahead(ask.now, known, ask.job).1.ttft.p90);
        let all: Vec<Predicted<'_>> =
            up.iter().map(|known| Predicted { known, ttft: p90(known), share: known.share(ask.job) }).collect();
        let (inside, outside): (Vec<_>, Vec<_>) = affine(all, AFFINE[0]).into_iter().partition(|it| it.ttft <= limit);
        let explores = inside.is_empty() || (!outside.is_empty() && dice.f64() < EXPLORES);
        let mut left = affine(if explores { outside } else { inside }, AFFINE[1]);
        if left.iter().all(|it| it.ttft > limit) && left.iter().any(|it| it.known.in_flight == 0) {
            left.retain(|it| it.known.in_flight == 0);
        }
        let room = |it: &Predicted<'_>| (limit - it.ttft).abs();
        let least = left.iter().map(room).fold(f64::INFINITY, f64::min);
        let range = left.iter().map(room).fold(0.0, f64::max) - least;
        let weight = |it: &Predicted<'_>| {
            let relative = if range > 1e-9 { (room(it) - least) / range } else { 0.5 };
            ((1.0 - relative) * 100.0).floor() + 1.0
        };
        let mut drawn = dice.f64() * left.iter().map(weight).sum::<f64>();
        let found = left.iter().find(|it| {
            drawn -= weight(it);
            drawn < 0.0
        });
        found.or(left.last()).map_or(up[0].engine, |it| it.known.engine)
    }
}

/// An engine with its predicted time to first token, and the share of the prompt that it has.
#[derive(Copy, Clone)]
struct Predicted<'a> {
    known: &'a Known,
    ttft: f64,
    share: f64,
}

/// The engines that have at least `share` of the prompt, unless there are none or others are that much sooner.
fn affine(all: Vec<Predicted<'_>>, share: f64) -> Vec<Predicted<'_>> {
    let (sticky, others): (Vec<_>, Vec<_>) = all.iter().copied().partition(|it| it.share >= share);
    let best = |some: &[Predicted<'_>]| some.iter().map(|it| it.ttft).fold(f64::INFINITY, f64::min);
    if sticky.is_empty() || best(&sticky) - best(&others) > PENALTY { all } else { sticky }
}
