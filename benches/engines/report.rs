//! Tables of the bench.

use std::time::Duration;

use crate::{machine, support::replay::quantile};

/// One answer as its client saw it.
pub(crate) struct Answered {
    pub ttft: Duration,
    /// Mean time per token after the first.
    pub tpot: Duration,
    /// The engine that answered, where the answer says so.
    pub engine: Option<usize>,
}

/// Limits within which an answer counts.
#[derive(Copy, Clone)]
pub(crate) struct Limits {
    pub ttft: Duration,
    pub tpot: Duration,
}

/// Results of a contender's turn.
pub(crate) struct Turn {
    /// Percentage of answers within the limits.
    pub within: f64,
    pub p50: Duration,
    pub p95: Duration,
    pub mean: Duration,
    /// Percentage of answers by the first engine, where answers say so.
    pub first: Option<f64>,
    /// Tokens per second that the foreign clients received in the meantime.
    pub foreign: f64,
}

impl Turn {
    pub(crate) fn of(answers: &[Answered], limits: Limits, foreign: f64) -> Self {
        let count = answers.len().max(1);
        let percentage = |matching: usize| 100.0 * matching as f64 / count as f64;
        let within = answers.iter().filter(|answer| answer.ttft <= limits.ttft && answer.tpot <= limits.tpot);
        let engines: Vec<usize> = answers.iter().filter_map(|answer| answer.engine).collect();
        let mut times: Vec<Duration> = answers.iter().map(|answer| answer.ttft).collect();
        Self {
            within: percentage(within.count()),
            p50: quantile(&mut times, 0.5),
            p95: quantile(&mut times, 0.95),
            mean: times.iter().sum::<Duration>() / count as u32,
            first: (!engines.is_empty()).then(|| percentage(engines.iter().filter(|engine| **engine == 0).count())),
            foreign,
        }
    }
}

/// Prints medians over rounds with their ranges; the ratios of the first contender's p95 to the others' are taken round by round.
pub(crate) fn print(turns: &[(&'static str, Vec<Turn>)], limits: Limits) {
    println!("{}\n", machine::line(&machine::read()));
    println!(
        "| policy | % within {:?} and {:?} | TTFT mean, ms | p50 | p95 | first ÷ it, p95 | % on engine one | foreign tokens/s |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|",
        limits.ttft, limits.tpot
    );
    for (name, of) in turns {
        let milliseconds =
            |figure: fn(&Turn) -> Duration| spread(of.iter().map(|turn| 1e3 * figure(turn).as_secs_f64()), 0);
        let ratios = turns[0].1.iter().zip(of).map(|(first, its)| first.p95.as_secs_f64() / its.p95.as_secs_f64());
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            spread(of.iter().map(|turn| turn.within), 1),
            milliseconds(|turn| turn.mean),
            milliseconds(|turn| turn.p50),
            milliseconds(|turn| turn.p95),
            spread(ratios, 2),
            spread(of.iter().filter_map(|turn| turn.first), 0),
            spread(of.iter().map(|turn| turn.foreign), 0),
        );
    }
}

/// Formats the median and range of some figures.
fn spread(figures: impl Iterator<Item = f64>, digits: usize) -> String {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (sorted.first(), sorted.last()) else { return "–".to_owned() };
    format!("{:.digits$} ({least:.digits$} to {most:.digits$})", sorted[sorted.len() / 2])
}
