//! Figures from blocks: quantiles per round, then their median and range over rounds, as a table and as JSON.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::{
    client::Sample,
    engine::Kind,
    plan::{Block, Measured},
};

/// A figure of a sample, in microseconds.
type Metric = fn(&Sample) -> Option<f64>;

const TOTAL: Metric = |sample| Some(sample.total.as_secs_f64() * 1e6);
const FIRST: Metric = |sample| Some(sample.first.as_secs_f64() * 1e6);
const OWN: Metric = |sample| sample.own.map(f64::from);

/// Median and range of a figure over the rounds.
#[derive(Copy, Clone)]
struct Spread {
    middle: f64,
    least: f64,
    most: f64,
}

/// Figures of one target in one scenario.
struct Row {
    scenario: &'static str,
    kind: Kind,
    target: &'static str,
    samples: usize,
    failed: usize,
    rate: Spread,
    cpu: Option<f64>,
    /// Latency p50, p90, p99.
    total: [Spread; 3],
    first: [Spread; 3],
    /// Median of the mean time between tokens.
    gap: Option<Spread>,
    /// Difference to the direct target in the same round; `None` for that target itself.
    added: Option<Added>,
    /// Self-reported overhead: p50 and p99.
    own: Option<[Spread; 2]>,
}

/// Differences to the direct target.
struct Added {
    total: [Spread; 2],
    first: [Spread; 2],
    gap: Option<Spread>,
    /// Median latency relative to the direct one.
    ratio: Spread,
    rate: Spread,
}

/// All figures.
pub(crate) struct Report(Vec<Row>);

impl Report {
    pub(crate) fn of(measured: &[Measured]) -> Self {
        let rows =
            measured.iter().flat_map(|one| one.targets.iter().map(move |(target, blocks)| row(one, target, blocks)));
        Self(rows.collect())
    }

    /// Renders a Markdown table.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::ASCII_MARKDOWN).set_header([
            "scenario",
            "target",
            "requests",
            "p50",
            "p90",
            "p99",
            "TTFT p50",
            "p99",
            "added p50 (range)",
            "added p99",
            "added TTFT p50",
            "times direct",
            "self-reported p50 / p99",
            "req/s",
            "CPU/req",
        ]);
        for row in &self.0 {
            let added = row.added.as_ref();
            let of = |find: &dyn Fn(&Added) -> String| added.map_or_else(String::new, find);
            table.add_row([
                row.scenario.to_owned(),
                row.target.to_owned(),
                if row.failed == 0 {
                    row.samples.to_string()
                } else {
                    format!("{} ({} failed)", row.samples, row.failed)
                },
                time(row.total[0].middle),
                time(row.total[1].middle),
                time(row.total[2].middle),
                time(row.first[0].middle),
                time(row.first[2].middle),
                of(&|added| ranged(added.total[0])),
                of(&|added| time(added.total[1].middle)),
                of(&|added| time(added.first[0].middle)),
                of(&|added| format!("{:.2}", added.ratio.middle)),
                row.own.map_or_else(String::new, |own| format!("{} / {}", time(own[0].middle), time(own[1].middle))),
                format!("{:.0}", row.rate.middle),
                row.cpu.map_or_else(String::new, time),
            ]);
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    /// Renders times between tokens, which have no column.
    pub(crate) fn notes(&self) -> String {
        let paced = self.0.iter().filter(|row| row.kind == Kind::Paced);
        let notes = paced.filter_map(|row| {
            let added = row.added.as_ref().and_then(|added| added.gap).map(|gap| format!(", added {}", ranged(gap)));
            let gap = time(row.gap?.middle);
            Some(format!(
                "mean time between tokens, {}, {}: {gap}{}\n",
                row.scenario,
                row.target,
                added.unwrap_or_default()
            ))
        });
        notes.collect()
    }

    /// Renders all figures as JSON, in microseconds.
    pub(crate) fn json(&self, machine: &Value) -> Value {
        let rows = self.0.iter().map(|row| {
            let added = row.added.as_ref().map(|added| {
                json!({
                    "total_p50": added.total[0].json(), "total_p99": added.total[1].json(),
                    "ttft_p50": added.first[0].json(), "ttft_p99": added.first[1].json(),
                    "mean_gap_p50": added.gap.map(Spread::json),
                    "ratio_p50": added.ratio.json(), "ratio_rate": added.rate.json(),
                })
            });
            json!({
                "scenario": row.scenario, "way": row.target, "requests": row.samples, "failed": row.failed,
                "requests_per_second": row.rate.json(), "cpu_per_request": row.cpu,
                "total": quantiles(row.total), "ttft": quantiles(row.first), "mean_gap_p50": row.gap.map(Spread::json),
                "added": added,
                "self_reported": row.own.map(|own| json!({ "p50": own[0].json(), "p99": own[1].json() })),
            })
        });
        json!({ "unit": "us", "machine": machine, "rows": rows.collect::<Vec<_>>() })
    }
}

fn row(measured: &Measured, target: &'static str, blocks: &[Block]) -> Row {
    let direct = &measured.targets[0].1;
    let tokens = measured.scenario.kind.tokens();
    let gap = |blocks: &[Block]| -> Option<Vec<f64>> {
        let whole = |sample: &Sample| Some(sample.total.saturating_sub(sample.first).as_secs_f64() * 1e6);
        (tokens > 1).then(|| over(blocks, whole, 0.5).iter().map(|time| time / (tokens - 1) as f64).collect())
    };
    let rates = |blocks: &[Block]| -> Vec<f64> { blocks.iter().map(|block| block.rate).collect() };
    let less = |metric: Metric, quantile| {
        Spread::of(&pairs(&over(blocks, metric, quantile), &over(direct, metric, quantile), |target, direct| {
            target - direct
        }))
    };
    let times = |target: &[f64], direct: &[f64]| Spread::of(&pairs(target, direct, |target, direct| target / direct));
    let used: Option<Vec<f64>> =
        blocks.iter().map(|block| Some(block.cpu?.as_secs_f64() * block.samples.len() as f64)).collect();
    let samples = blocks.iter().map(|block| block.samples.len()).sum();
    Row {
        scenario: measured.scenario.name,
        kind: measured.scenario.kind,
        target,
        samples,
        failed: blocks.iter().map(|block| block.failed).sum(),
        rate: Spread::of(&rates(blocks)),
        cpu: used.map(|used| used.iter().sum::<f64>() * 1e6 / samples as f64),
        total: [0.5, 0.9, 0.99].map(|quantile| Spread::of(&over(blocks, TOTAL, quantile))),
        first: [0.5, 0.9, 0.99].map(|quantile| Spread::of(&over(blocks, FIRST, quantile))),
        gap: gap(blocks).map(|gaps| Spread::of(&gaps)),
        added: (target != measured.targets[0].0).then(|| Added {
            total: [0.5, 0.99].map(|quantile| less(TOTAL, quantile)),
            first: [0.5, 0.99].map(|quantile| less(FIRST, quantile)),
            gap: gap(blocks)
                .zip(gap(direct))
                .map(|(target, direct)| Spread::of(&pairs(&target, &direct, |a, b| a - b))),
            ratio: times(&over(blocks, TOTAL, 0.5), &over(direct, TOTAL, 0.5)),
            rate: times(&rates(blocks), &rates(direct)),
        }),
        own: blocks[0].samples[0].own.map(|_| [0.5, 0.99].map(|quantile| Spread::of(&over(blocks, OWN, quantile)))),
    }
}

/// Returns a metric's quantile of each round.
fn over(blocks: &[Block], metric: impl Fn(&Sample) -> Option<f64>, quantile: f64) -> Vec<f64> {
    let of_one = |block: &Block| {
        let mut values: Vec<f64> = block.samples.iter().filter_map(&metric).collect();
        values.sort_by(f64::total_cmp);
        at(&values, quantile)
    };
    blocks.iter().map(of_one).collect()
}

fn pairs(left: &[f64], right: &[f64], both: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    left.iter().zip(right).map(|(&left, &right)| both(left, right)).collect()
}

/// Nearest-rank quantile of sorted values.
fn at(sorted: &[f64], quantile: f64) -> f64 {
    let place = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(place.max(1) - 1).copied().unwrap_or(f64::NAN)
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self { middle: at(&sorted, 0.5), least: at(&sorted, 0.0), most: at(&sorted, 1.0) }
    }

    fn json(self) -> Value {
        json!({ "median": rounded(self.middle), "min": rounded(self.least), "max": rounded(self.most) })
    }
}

fn quantiles(spreads: [Spread; 3]) -> Value {
    json!({ "p50": spreads[0].json(), "p90": spreads[1].json(), "p99": spreads[2].json() })
}

fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn ranged(spread: Spread) -> String {
    format!("{} ({} to {})", time(spread.middle), time(spread.least), time(spread.most))
}

/// Formats microseconds with three or four digits.
fn time(us: f64) -> String {
    match us.abs() {
        ms if ms >= 100_000.0 => format!("{:.0} ms", us / 1e3),
        ms if ms >= 10_000.0 => format!("{:.1} ms", us / 1e3),
        ms if ms >= 1_000.0 => format!("{:.2} ms", us / 1e3),
        _ => format!("{us:.0} µs"),
    }
}
