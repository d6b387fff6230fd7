//! Comparison of vector indexes: search time, recall, insert time, memory.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench reports on stdout and panics on errors")]

#[path = "../overhead/machine.rs"]
mod machine;
mod vectors;

use std::time::Instant;

use clap::Parser;
use signalbox::cache::index::{Adaptive, Flat, VectorIndex};
use vectors::Vectors;

/// Command-line arguments.
#[derive(clap::Parser)]
#[command(name = "index", about = "Bench of vector indexes")]
struct Args {
    /// Smoke test with few vectors
    #[arg(long)]
    quick: bool,
    /// Sizes of the index
    #[arg(long, value_delimiter = ',', default_value = "10000,100000")]
    sizes: Vec<usize>,
    /// Sizes up to which graphs are built: a minute or two for 100,000, twenty or more for 1,000,000
    #[arg(long, default_value_t = 100_000)]
    graphs: usize,
    /// Queries per size
    #[arg(long, default_value_t = 2000)]
    queries: usize,
    /// Passed by `cargo bench`; without it (`cargo test --all-targets`) the run is a quick one
    #[arg(long, hide = true)]
    bench: bool,
}

/// Neighbours requested, as in the cache.
const MOST: usize = 8;
/// Recall counts queries whose nearest neighbour has at least this similarity.
const NEAR: f32 = 0.8;

fn main() {
    let mut args = Args::parse();
    if args.quick || !args.bench {
        args.sizes = vec![500];
        args.queries = 50;
    }
    println!("{}\n", machine::line(&machine::read()));
    let vectors = Vectors::read(args.sizes.iter().copied().max().unwrap_or_default());
    println!("{}\n", vectors.description);
    println!(
        "| vectors | index | p50 | p99 | recall@1 | recall@{MOST} | n | insert | bytes/vector |\n|---:|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for size in args.sizes {
        let trial = Trial::new(&vectors, size, args.queries);
        trial.flat("i8 scan", |dimensions| Flat::new(dimensions).scanned());
        for keep in [64, 256, 1024] {
            trial.flat(&format!("signs, {keep} in full"), |dimensions| Flat::new(dimensions).sifted(keep));
        }
        trial.flat("flat as built in", Flat::new);
        if size <= args.graphs {
            trial.graphs();
        }
    }
}

/// Entries, queries, and the similarity of each query's nearest entry.
struct Trial<'a> {
    entries: &'a [Vec<f32>],
    queries: &'a [Vec<f32>],
    nearest: Vec<f32>,
}

/// Memory of this process in bytes; 0 where the system does not tell.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    let (ones, others) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
    let mut sums = [0.0_f32; 8];
    for (one, other) in ones.iter().zip(others) {
        (0..8).for_each(|lane| sums[lane] += one[lane] * other[lane]);
    }
    sums.iter().sum()
}

impl<'a> Trial<'a> {
    fn new(vectors: &'a Vectors, size: usize, queries: usize) -> Self {
        let entries = &vectors.entries[..size];
        let queries = &vectors.queries[..queries.min(vectors.queries.len())];
        // Entry by entry, since the queries fit the processor's caches and a million entries do not.
        let mut nearest = vec![-1.0_f32; queries.len()];
        for entry in entries {
            nearest.iter_mut().zip(queries).for_each(|(nearest, query)| *nearest = nearest.max(dot(entry, query)));
        }
        Self { entries, queries, nearest }
    }

    fn flat(&self, name: &str, new: impl FnOnce(usize) -> Flat) {
        let mut index = new(self.entries[0].len());
        let took = self.fill(&mut index);
        self.search(name, &index, took);
    }

    fn graphs(&self) {
        let before = resident();
        let mut index = Adaptive::new(self.entries[0].len()).sealed_from(1);
        let mut took = self.fill(&mut index);
        let started = Instant::now();
        let plan = index.plan();
        let built = plan.run();
        drop(index.adopt(built));
        let seconds = started.elapsed().as_secs_f64();
        took += seconds * 1e6 / self.entries.len() as f64;
        for candidates in [32, 64, 128, 256, 512] {
            index = index.candidates(candidates);
            self.search(&format!("hnsw, ef {candidates}"), &index, took);
        }
        let each = resident().saturating_sub(before) / self.entries.len();
        println!("\nGraph of {}: built in {seconds:.0} s, {each} resident bytes a vector.\n", self.entries.len());
    }

    /// Fills the index; returns microseconds per vector.
    fn fill(&self, index: &mut impl VectorIndex) -> f64 {
        let started = Instant::now();
        for (number, entry) in (0..).zip(self.entries) {
            index.insert(number, entry);
        }
        started.elapsed().as_secs_f64() * 1e6 / self.entries.len() as f64
    }

    fn search(&self, name: &str, index: &impl VectorIndex, insert: f64) {
        let mut near = Vec::new();
        let (mut times, mut counted, mut first, mut among) = (Vec::new(), 0, 0, 0);
        for (query, nearest) in self.queries.iter().zip(&self.nearest) {
            let started = Instant::now();
            index.search(query, MOST, &mut near);
            times.push(started.elapsed().as_secs_f64() * 1e6);
            if *nearest < NEAR {
                continue;
            }
            // Ties with the nearest count, by the similarity of the unrounded vectors.
            let is_nearest = |number: u64| dot(&self.entries[number as usize], query) >= nearest - 1e-6;
            counted += 1;
            first += usize::from(near.first().is_some_and(|near| is_nearest(near.number)));
            among += usize::from(near.iter().any(|near| is_nearest(near.number)));
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let share = |count: usize| count as f64 / f64::from(counted.max(1));
        println!(
            "| {} | {name} | {:.0} µs | {:.0} µs | {:.3} | {:.3} | {counted} | {insert:.1} µs | {} |",
            self.entries.len(),
            at(0.5),
            at(0.99),
            share(first),
            share(among),
            index.bytes() / self.entries.len(),
        );
    }
}
