//! The other aims on the same clock: a mean quality, a spending limit, a queue.

use std::{collections::VecDeque, ops::Range};

use fastrand::Rng;
use signalbox::{
    schedule::tiers::{Context, TierView, Tierings},
    types::{Aim, Complexity, Moment},
};

use crate::{
    mean,
    rules::{TIERS, ours},
    traffic::{Ask, REGIME, Shape},
};

/// Runs all of them.
pub(crate) fn run(shapes: &[(&str, Shape)], seeds: &Range<u64>) {
    qualities(shapes, seeds);
    spends(seeds);
    queue(seeds);
}

/// Measures the mean quality held, and the share of large requests against the smallest share in hindsight.
fn qualities(shapes: &[(&str, Shape)], seeds: &Range<u64>) {
    println!("## A mean quality\n");
    println!(
        "| traffic | target | small model alone | large model alone | held in 1001–2000 after the shift | worst seed | large share | smallest large share in hindsight |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    // Recorded outcomes have no expected gaps to decide by.
    for (name, shape) in shapes.iter().filter(|(_, shape)| !matches!(shape, Shape::Outcomes(_))) {
        let after = REGIME + 1_000..REGIME + 2_000;
        let all = |of: fn(&Ask) -> f64| {
            let asks = shape.requests(0);
            mean(&asks[after.clone()].iter().map(of).collect::<Vec<_>>())
        };
        let (low, high) = (all(|ask| ask.quality), all(|ask| ask.quality + ask.gap));
        for target in [low + 0.5 * (high - low), high + 0.02] {
            let (mut held, mut large, mut fewest) = (Vec::new(), Vec::new(), Vec::new());
            for seed in seeds.clone() {
                let (asks, mut dice) = (shape.requests(seed), Rng::with_seed(seed));
                let tierings = Tierings::new(&Aim::MinQuality(target), 2, 16);
                let play = |(n, ask)| (ours(&tierings, ask, n, &TIERS, &mut dice) == 1, ask);
                let played: Vec<(bool, &Ask)> = asks.iter().enumerate().map(play).collect();
                let judged = &played[after.clone()];
                let quality = |(high, ask): &(bool, &Ask)| ask.quality + if *high { ask.gap } else { 0.0 };
                held.push(mean(&judged.iter().map(quality).collect::<Vec<_>>()));
                large.push(judged.iter().filter(|play| play.0).count() as f64 / judged.len() as f64 * 100.0);
                fewest.push(fewest_for(judged, held.last().copied().unwrap_or_default()) * 100.0);
            }
            let least = held.iter().copied().fold(f64::INFINITY, f64::min);
            println!(
                "| {name} | {target:.3} | {low:.3} | {high:.3} | {:.3} | {least:.3} | {:.1} % | {:.1} % |",
                mean(&held),
                mean(&large),
                mean(&fewest)
            );
        }
    }
    println!();
}

/// Returns the smallest share of requests that would have held the quality: those with the largest gaps.
fn fewest_for(judged: &[(bool, &Ask)], target: f64) -> f64 {
    let mut gaps: Vec<f64> = judged.iter().map(|(_, ask)| ask.gap).collect();
    gaps.sort_by(|one, other| other.total_cmp(one));
    let mut quality: f64 = judged.iter().map(|(_, ask)| ask.quality).sum();
    let count = gaps.iter().take_while(|gap| {
        let below = quality < target * judged.len() as f64 - 1e-9;
        quality += **gap;
        below
    });
    count.count() as f64 / judged.len() as f64
}

/// Measures five hours of varying demand under a budget that covers only part of it.
fn spends(seeds: &Range<u64>) {
    println!("## A spending limit\n");
    println!(
        "| requests per second | cost of all large, of the budget | most expensive hour, of the budget | mean hour after the first | large share | gap recovered |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, rate) in
        [("5, steady", [5.0; 2]), ("2, steady", [2.0; 2]), ("1 and 9, alternating every half hour", [1.0, 9.0])]
    {
        let (mut dearest, mut hours, mut large, mut recovered, mut asked) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for seed in seeds.clone() {
            let mut dice = Rng::with_seed(seed);
            let tierings = Tierings::new(&Aim::MaxSpendPerHour(12.0), 2, 16);
            let (mut now, mut hour, mut sum, mut most) = (0.0, VecDeque::new(), 0.0, 0.0_f64);
            let (mut gaps, mut won, mut high, mut count, mut late, mut whole) = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
            while now < 5.0 * 3_600.0 {
                now += -dice.f64().max(1e-12).ln() / rate[(now / 1_800.0) as usize % 2];
                let score = dice.f64();
                let complexity = Complexity { score, gap: 0.5 * score * score, quality: 0.5, ..Complexity::default() };
                let tokens = 0.5 + dice.f64();
                let tiers = TIERS.map(|tier| TierView { cost_usd: tier.cost_usd * tokens, ..tier });
                let context = Context { key: 1, session: None, continues: None, tool_loop: false, chance: dice.f64() };
                let tier = tierings.decide(&complexity, &context, &tiers, Moment::from_nanos((now * 1e9) as u64)).tier;
                let cost = tiers[tier].cost_usd;
                hour.push_back((now, cost));
                sum += cost;
                while hour.front().is_some_and(|paid| now - paid.0 > 3_600.0) {
                    sum -= hour.pop_front().unwrap_or_default().1;
                }
                most = most.max(sum);
                late += if now > 3_600.0 { cost } else { 0.0 };
                whole += tiers[1].cost_usd;
                count += 1.0;
                high += tier as f64;
                gaps += complexity.gap;
                won += complexity.gap * tier as f64;
            }
            dearest.push(most / 12.0 * 100.0);
            hours.push(late / 4.0 / 12.0 * 100.0);
            large.push(high / count * 100.0);
            recovered.push(won / gaps * 100.0);
            asked.push(whole / 5.0 / 12.0 * 100.0);
        }
        println!(
            "| {name} | {:.0} % | {:.2} % | {:.1} % | {:.1} % | {:.1} % |",
            mean(&asked),
            dearest.iter().copied().fold(0.0, f64::max),
            mean(&hours),
            mean(&large),
            mean(&recovered)
        );
    }
    println!();
}

/// Measures a queue of five minutes at the large tier, with a share of a quarter.
fn queue(seeds: &Range<u64>) {
    println!("## A queue at the large tier, with a share of 25 %\n");
    println!("| its answers take | share before | during | first 500 after | next 1000 |\n|---|---:|---:|---:|---:|");
    for slower in [1.2, 2.0, 4.0, 20.0] {
        let mut shares = [const { Vec::new() }; 4];
        for seed in seeds.clone() {
            let mut dice = Rng::with_seed(seed);
            let tierings = Tierings::new(&Aim::Shares(vec![0.75, 0.25]), 2, 16);
            let spans = [(0..1_500, 500), (1_500..3_000, 0), (3_000..3_500, 0), (3_500..4_500, 0)];
            for ((span, skip), all) in spans.into_iter().zip(&mut shares) {
                let (from, count) = (span.start, (span.len() - skip) as f64);
                let high: usize = span
                    .map(|n| {
                        let queued = if (1_500..3_000).contains(&n) { slower } else { 1.0 };
                        let noise = 0.8 + 0.4 * dice.f64();
                        let tiers = [TIERS[0], TierView { e2e: TIERS[1].e2e * queued * noise, ..TIERS[1] }];
                        let ask = Ask { score: dice.f64(), quality: 0.5, gap: 0.2, session: None, tool_loop: false };
                        let tier = ours(&tierings, &ask, n, &tiers, &mut dice);
                        if n >= from + skip { tier } else { 0 }
                    })
                    .sum();
                all.push(high as f64 / count * 100.0);
            }
        }
        let columns: Vec<String> = shares.iter().map(|all| format!("{:.1} %", mean(all))).collect();
        println!("| {slower} times as long | {} |", columns.join(" | "));
    }
    println!();
}
