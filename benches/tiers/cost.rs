//! Cost of a decision: time, allocations, memory.

use std::{hint::black_box, time::Instant};

use fastrand::Rng;
use signalbox::{
    schedule::tiers::{Context, Tierings},
    types::{Aim, Complexity, Moment},
};
use stats_alloc::Region;

use crate::{ALLOCATOR, rules::TIERS};

/// Decisions per timed block.
const BLOCK: usize = 1_000;

/// Measures `rounds` decisions of each aim.
pub(crate) fn run(rounds: usize) {
    println!("## Cost of a decision\n");
    println!(
        "| aim | keys | sessions | ns, median block | ns, p99 block | allocations | bytes per key |\n|---|---:|---|---:|---:|---:|---:|"
    );
    let aims = [
        ("shares", Aim::Shares(vec![0.75, 0.25])),
        ("shares of three tiers", Aim::Shares(vec![0.6, 0.3, 0.1])),
        ("min_quality", Aim::MinQuality(0.7)),
        ("value_per_quality_point", Aim::ValuePerPoint { usd: 0.001, second_usd: 0.000_01 }),
        ("max_spend_per_hour", Aim::MaxSpendPerHour(1e3)),
    ];
    for (name, aim) in &aims {
        for (keys, sessions) in [(1, false), (1, true), (10_000, true)] {
            row(name, aim, keys, sessions, rounds);
        }
    }
}

fn row(name: &str, aim: &Aim, keys: u64, sessions: bool, rounds: usize) {
    let tiers = if matches!(aim, Aim::Shares(shares) if shares.len() == 3) {
        vec![TIERS[0], TIERS[0], TIERS[1]]
    } else {
        TIERS.to_vec()
    };
    let (mut dice, mut n) = (Rng::with_seed(1), 0_u64);
    let region = Region::new(ALLOCATOR);
    let tierings = Tierings::new(aim, tiers.len(), 10_000);
    let mut decide = |key: u64| {
        n += 1;
        let score = dice.f64();
        let complexity = Complexity { score, quality: 0.6, gap: 0.4 * score, ..Complexity::default() };
        let session = sessions.then(|| dice.u64(..2_000));
        let context = Context { key, session, continues: None, tool_loop: false, chance: dice.f64() };
        black_box(tierings.decide(&complexity, &context, &tiers, Moment::from_nanos(n * 1_000_000)));
    };
    decide(0);
    let before = region.change().bytes_allocated - region.change().bytes_deallocated;
    (1..keys).for_each(&mut decide);
    let held = region.change().bytes_allocated - region.change().bytes_deallocated;
    let bytes =
        if keys > 1 && !matches!(aim, Aim::MaxSpendPerHour(_)) { (held - before) as u64 / (keys - 1) } else { 0 };
    // Warm up until the map of sessions has its capacity.
    (0..200_000).for_each(|n| decide(n % keys));
    let mut nanos = Vec::with_capacity(rounds / BLOCK);
    let region = Region::new(ALLOCATOR);
    for block in 0..rounds / BLOCK {
        let started = Instant::now();
        (0..BLOCK).for_each(|n| decide((block * BLOCK + n) as u64 * 7 % keys));
        nanos.push(started.elapsed().as_nanos() as f64 / BLOCK as f64);
    }
    let change = region.change();
    nanos.sort_by(f64::total_cmp);
    let at = |level: f64| nanos[((nanos.len() - 1) as f64 * level) as usize];
    println!(
        "| {name} | {keys} | {} | {:.0} | {:.0} | {} | {} |",
        if sessions { "2000" } else { "none" },
        at(0.5),
        at(0.99),
        change.allocations + change.reallocations,
        if bytes > 0 { bytes.to_string() } else { String::new() },
    );
}
