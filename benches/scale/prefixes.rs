//! The prefix index alone, in this process: a gateway fills it only as far as its engines' caches reach.

use std::{
    fmt::Write,
    hint::black_box,
    time::{Duration, Instant},
};

use signalbox::{
    schedule::prefix::{HolderId, PrefixIndex},
    types::{Layout, Prompt},
};

use crate::report::grouped;

/// Name of the dimension.
pub(crate) const NAME: &str = "prefix blocks";

/// Backends that share the blocks.
const HOLDERS: usize = 64;
/// Blocks of a prompt: 100 kB.
const PROMPT: u64 = 331;
/// Prompts of which times are the mean.
const TIMED: u64 = 2_000;
/// Memory that holds the most blocks.
const MEMORY: usize = 1 << 30;

/// Fills an index with more and more blocks. A quick run stops at the second point.
pub(crate) fn measure(quick: bool) -> String {
    let points: &[u64] = if quick { &[1_000, 100_000] } else { &[1_000, 100_000, 1_000_000, 5_000_000] };
    let mut table = format!(
        "| {NAME} | match at {HOLDERS} backends, µs | add a prompt, µs | memory, MB | bytes per block |\n|---:|---:|---:|---:|---:|\n"
    );
    for &blocks in points {
        let index = PrefixIndex::new(MEMORY);
        let holders: Vec<HolderId> = (0..HOLDERS).map(|_| index.join(u64::MAX)).collect();
        let prompts = blocks.div_ceil(PROMPT);
        (0..prompts).for_each(|number| add(&index, &holders, number));
        let (held, bytes) = (index.len(), index.bytes());
        let mut matched = vec![0; HOLDERS];
        let matching = timed(|number| {
            // A conversation that goes on: its beginning is known.
            index.matched(prompt(&hashes(number % prompts)), &holders, black_box(&mut matched));
        });
        let adding = timed(|number| add(&index, &holders, prompts + number));
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (megabytes, each) = (bytes as f64 / 1e6, bytes as f64 / held as f64);
        let held = grouped(held as u64);
        writeln!(table, "| {held} | {:.1} | {:.1} | {megabytes:.0} | {each:.0} |", micros(matching), micros(adding))
            .ok();
    }
    table
}

fn add(index: &PrefixIndex, holders: &[HolderId], number: u64) {
    let hashes = hashes(number);
    let prompt = prompt(&hashes);
    let reuse = index.insert(holders[number as usize % holders.len()], prompt);
    index.confirm(prompt, &reuse);
}

/// Mean time of a step, without that of its hashes, which a gateway computes as it reads the prompt.
fn timed(mut step: impl FnMut(u64)) -> Duration {
    let began = Instant::now();
    (0..TIMED).for_each(|number| drop(black_box(hashes(number))));
    let hashing = began.elapsed();
    let began = Instant::now();
    (0..TIMED).for_each(&mut step);
    began.elapsed().saturating_sub(hashing).div_f64(TIMED as f64)
}

/// Hashes of a prompt that differs from others from its start.
fn hashes(number: u64) -> Vec<u64> {
    let mut dice = fastrand::Rng::with_seed(number);
    (0..PROMPT).map(|_| dice.u64(..)).collect()
}

fn prompt(hashes: &[u64]) -> Prompt<'_> {
    Prompt { bytes: Layout::Growing.bytes(hashes.len()), blocks: hashes, layout: Layout::Growing, ..Prompt::default() }
}
