//! Markdown report.

use std::{fs, io, path::Path};

use signalbox::sim::estimate::{Estimate, mean, number, paired};

use crate::{
    machine,
    policies::OURS,
    results::{ATTAINMENT, Carried, Metric, Results, Row, TAIL, over},
    scenario::LEGEND,
};

/// Ratio to the best baseline's p99 up to which ours counts as equal.
const EQUAL: f64 = 1.05;

/// Baselines in the table of details.
const LEADERS: usize = 3;

/// First lines of the published report.
const TITLE: &str = "# Placement policies on simulated engines\n\nMethod and reading: \
                     [docs/benchmarks/scheduler.md](../../docs/benchmarks/scheduler.md).\n";

/// Renders all results.
pub(crate) fn report(results: &Results) -> String {
    let mut parts = vec![head(results)];
    if !results.rows.is_empty() {
        parts.extend([attainment(results), tail(results), decisions(results)]);
    }
    if !results.goodput.is_empty() {
        parts.push(goodput(results));
    }
    if !results.rows.is_empty() {
        parts.push(details(results));
    }
    parts.push(legend(results));
    parts.join("\n")
}

/// Replaces the published report.
pub(crate) fn publish(text: &str, path: &Path) -> io::Result<()> {
    fs::write(path, format!("{TITLE}\n{text}"))
}

fn head(results: &Results) -> String {
    let scenarios = results.rows.len();
    let absent = match results.absent.join("; ") {
        absent if absent.is_empty() => absent,
        absent => format!("\nLeft out because their traces are missing: {absent}.\n"),
    };
    format!("{scenarios} scenarios, {} seeds; ours is `{OURS}`.\n{absent}", results.seeds)
}

fn attainment(results: &Results) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in &results.rows {
        let best = results.best(|policy| row.mean(policy, ATTAINMENT));
        let of = |policy| row.seeds(policy, ATTAINMENT);
        rows.push(compared(results, row.name(), best, of, results.regret(row)));
    }
    let all: Vec<&Row> = results.rows.iter().collect();
    let open: Vec<&Row> = results.rows.iter().filter(|row| !row.saturated()).collect();
    for (name, some) in [("mean of all", &all), ("mean without saturated", &open)] {
        if !some.is_empty() {
            let best = results.best(|policy| mean(&over(some, policy)));
            let name = format!("**{name} ({})**", some.len());
            let regrets: Vec<f64> = some.iter().map(|row| results.regret(row)).collect();
            rows.push(compared(results, name, best, |policy| over(some, policy), mean(&regrets)));
        }
    }
    let names = results.policies.iter().map(|policy| policy.0.to_owned());
    let header = std::iter::once("scenario".to_owned()).chain(names);
    let header: Vec<String> = header.chain(["ours − best".to_owned(), "regret".to_owned()]).collect();
    format!(
        "## Requests within the SLO, %\n\nMeans over seeds; **bold**: the best baseline. Ours and its difference to that baseline, \
         paired by seed, with 95 % intervals. Regret: by how much the best policy is ahead. Saturated: even the best is below 80 %.\n\n{}",
        table(&header, &rows)
    )
}

/// A row of the attainment table.
fn compared(
    results: &Results,
    name: String,
    best: Option<usize>,
    of: impl Fn(usize) -> Vec<f64>,
    regret: f64,
) -> Vec<String> {
    let ours = of(results.ours());
    let mut cells = vec![name];
    cells.extend((0..results.ours()).map(|policy| marked(number(mean(&of(policy)), 1), best == Some(policy))));
    cells.push(Estimate::of(&ours).text(1, false));
    let difference = |best| Estimate::of(&paired(&ours, &of(best), |ours, best| ours - best)).text(1, true);
    cells.push(best.map_or_else(|| "–".to_owned(), difference));
    cells.push(number(regret, 1));
    cells
}

fn tail(results: &Results) -> String {
    let ours = results.ours();
    let rows: Vec<Vec<String>> = results
        .rows
        .iter()
        .map(|row| {
            let best = results.best(|policy| -row.mean(policy, TAIL));
            let mut cells = vec![row.name()];
            cells.extend((0..=ours).map(|policy| marked(number(row.mean(policy, TAIL), 2), best == Some(policy))));
            let times = best.map(|best| Estimate::of(&paired(&row.seeds(ours, TAIL), &row.seeds(best, TAIL), ratio)));
            cells.push(times.map_or_else(|| "–".to_owned(), |times| times.text(2, false)));
            cells.push(times.map_or_else(String::new, verdict));
            cells
        })
        .collect();
    let names = results.policies.iter().map(|policy| policy.0.to_owned());
    let header = std::iter::once("scenario".to_owned()).chain(names);
    let header: Vec<String> = header.chain(["ours ÷ best".to_owned(), "verdict".to_owned()]).collect();
    format!(
        "## TTFT p99, seconds\n\nOver all requests offered: one that was refused or never answered counts as infinite. **Bold**: the \
         best baseline of the scenario. Ratio of ours to it: the mean of the seeds' ratios with its 95 % interval.\n\n{}",
        table(&header, &rows)
    )
}

/// Verdict on the ratio of two p99.
fn verdict(times: Estimate) -> String {
    match times {
        Estimate { mean, .. } if mean <= EQUAL => "within 5 %".to_owned(),
        Estimate { mean, reach: Some(reach) } if mean - reach <= 1.0 => "inside its interval".to_owned(),
        Estimate { mean, .. } if mean.is_finite() => format!("{:.0} % above", (mean - 1.0) * 100.0),
        _ => "not comparable".to_owned(),
    }
}

fn decisions(results: &Results) -> String {
    const TOOK: Metric = |figures| figures.decision;
    let took = |policy: usize| {
        let all: Vec<f64> = results.rows.iter().flat_map(|row| row.seeds(policy, TOOK)).collect();
        number(mean(&all), 1)
    };
    let header: Vec<String> = results.policies.iter().map(|policy| policy.0.to_owned()).collect();
    let row: Vec<String> = (0..header.len()).map(took).collect();
    format!(
        "## Time of a decision, µs\n\nMean wall time of an arrival, with the bookkeeping for it, while every processor is busy with \
         simulations; {}.\n\n{}",
        machine::line(&machine::read()),
        table(&header, &[row])
    )
}

fn goodput(results: &Results) -> String {
    let row = |carried: &Carried| {
        let means: Vec<f64> = carried.loads.iter().map(|loads| mean(loads)).collect();
        let best = results.best(|policy| means[policy]);
        let mut cells = vec![format!("{}, {}", carried.course, carried.unit)];
        cells.extend(means.iter().enumerate().map(|(at, &mean)| marked(number(mean, 2), best == Some(at))));
        let ours = &carried.loads[results.ours()];
        let times = best.map(|best| Estimate::of(&paired(ours, &carried.loads[best], ratio)).text(2, false));
        cells.push(times.unwrap_or_else(|| "–".to_owned()));
        cells
    };
    let names = results.policies.iter().map(|policy| policy.0.to_owned());
    let header: Vec<String> =
        std::iter::once("traffic".to_owned()).chain(names).chain(["ours ÷ best".to_owned()]).collect();
    format!(
        "## Goodput: the highest load at which 90 % are within the SLO\n\nMeans over {} seeds, each found by bisection to 4.5 %.\n\n{}",
        results.goodput[0].loads[0].len(),
        table(&header, &results.goodput.iter().map(row).collect::<Vec<_>>())
    )
}

fn details(results: &Results) -> String {
    let policies: Vec<usize> = results.leaders(LEADERS).into_iter().chain([results.ours()]).collect();
    let metrics: [Metric; 6] = [
        |figures| figures.ttft(0.5),
        |figures| figures.ttft(0.9),
        |figures| figures.tpot[1] * 1e3,
        |figures| figures.hits * 100.0,
        |figures| figures.busiest() * 100.0,
        |figures| figures.refused * 100.0,
    ];
    let mut rows = Vec::new();
    for row in &results.rows {
        for &policy in &policies {
            let mut cells = vec![row.name(), results.policies[policy].0.to_owned()];
            let decimals = [2, 2, 1, 1, 1, 1];
            cells
                .extend(metrics.iter().zip(decimals).map(|(&metric, digits)| number(row.mean(policy, metric), digits)));
            rows.push(cells);
        }
    }
    let header =
        ["scenario", "policy", "TTFT p50, s", "TTFT p90, s", "TPOT p90, ms", "cached, %", "busiest, %", "refused, %"];
    format!(
        "<details>\n<summary>More figures of ours and the {LEADERS} baselines with the highest mean</summary>\n\nCached: share of prompt tokens \
         found in prefix caches. Busiest: share of all requests that the busiest of eight engines answered (even: 12.5 %).\n\n{}\n\
         </details>\n",
        table(&header.map(str::to_owned), &rows)
    )
}

fn legend(results: &Results) -> String {
    let list = |items: &[(&str, &str)]| {
        let lines: Vec<String> = items.iter().map(|(name, text)| format!("- **{name}**: {text}\n")).collect();
        lines.concat()
    };
    format!("## Policies\n\n{}\n## Scenarios\n\n{}", list(&results.policies), list(LEGEND))
}

fn marked(text: String, mark: bool) -> String {
    if mark { format!("**{text}**") } else { text }
}

fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = (0..header.len()).map(|at| if at == 0 { "---" } else { "---:" }).collect::<Vec<_>>().join("|");
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{rule}|\n{rows}", line(header))
}

/// `left / right`; 1 if both are infinite.
fn ratio(left: f64, right: f64) -> f64 {
    if left.is_infinite() && right.is_infinite() { 1.0 } else { left / right }
}
