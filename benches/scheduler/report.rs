//! Markdown report.

use std::{fmt::Write as _, fs, io, path::Path};

use signalbox::sim::estimate::{Estimate, mean, number, paired};

use crate::{
    machine,
    plays::Figures,
    policies::OURS,
    results::{Group, Results, Row},
    traces::TRACES,
};

/// Bounds of the load bands, as multiples of the capacity.
const BANDS: [f64; 6] = [0.5, 0.75, 1.0, 1.25, 1.5, 2.0];

/// TTFT over its limit counts as at most this in the mean of p99, so that one play without answers is not all of it.
const LATEST: f64 = 50.0;

/// First lines of the published report.
const TITLE: &str = "# Placement policies on simulated engines\n\nMethod and reading: \
                     [docs/benchmarks/scheduler.md](../../docs/benchmarks/scheduler.md).\n";

/// Renders all results.
pub(crate) fn report(results: &Results) -> String {
    let mut parts = vec![format!(
        "{}; ours is `{OURS}`. Requests within their limits: ours in per cent, all others in points against ours, paired by seed, \
         with 95 % intervals. **Bold**: ahead of ours by more than the interval.\n",
        results.set
    )];
    if !results.absent.is_empty() {
        parts.push(format!("Left out because they are missing: {}.\n", results.absent.join("; ")));
    }
    for (title, groups) in [("Drawn scenarios", drawn(results)), ("Recorded traces", recorded(results))] {
        let Some(all) = groups.first().filter(|all| !all.rows.is_empty()) else { continue };
        let tails = compared(results, &groups, |figures| 100.0 * figures.tail.min(LATEST).ln(), -1.0);
        parts.push(format!(
            "## {title}\n\n{}\n{}\nThe p99 of TTFT over its limit: the logarithm of ours, and of all others against ours, in hundredths \
             (a tenth longer is 10).\n\n{tails}",
            compared(results, &groups, |figures| figures.attainment, 1.0),
            totals(results, all)
        ));
    }
    let policies = results.policies.iter().map(|(name, description)| format!("- **{name}**: {description}\n"));
    parts.push(format!("## Policies\n\n{}", policies.collect::<Vec<_>>().concat()));
    parts.join("\n")
}

/// Every play as comma-separated values: scenario, seed, load, policy, figures.
pub(crate) fn rows(results: &Results) -> String {
    let mut text = "trace,seed,load,policy,within,tail,longest,lateness,late,hits,traits\n".to_owned();
    for row in &results.rows {
        for ((policy, _), figures) in results.policies.iter().zip(&row.figures) {
            let Figures { attainment, tail, longest, lateness, late, hits, .. } = figures;
            let (trace, traits) = (row.trace.unwrap_or("drawn"), row.traits.join("|"));
            let Row { seed, load, .. } = row;
            let _ = writeln!(
                text,
                "{trace},{seed},{load},{policy},{attainment},{tail},{longest},{lateness},{late},{hits},{traits}"
            );
        }
    }
    text
}

/// Replaces the published report.
pub(crate) fn publish(text: &str, path: &Path) -> io::Result<()> {
    fs::write(path, format!("{TITLE}\n{text}"))
}

/// All draws, those of each load band, and those with each trait.
fn drawn(results: &Results) -> Vec<Group<'_>> {
    let among = |name: &str, keep: &dyn Fn(&Row) -> bool| results.group(name, |row| row.trace.is_none() && keep(row));
    let mut groups = vec![among("all", &|_| true)];
    for band in BANDS.windows(2) {
        groups.push(among(&format!("load {} to {}", band[0], band[1]), &|row| (band[0]..band[1]).contains(&row.load)));
    }
    let mut traits: Vec<&str> = groups[0].rows.iter().flat_map(|row| row.traits.iter().copied()).collect();
    traits.sort_unstable();
    traits.dedup();
    groups.extend(traits.into_iter().map(|name| among(name, &|row| row.traits.contains(&name))));
    groups
}

/// All traces, then each at each load.
fn recorded(results: &Results) -> Vec<Group<'_>> {
    let mut groups = vec![results.group("all", |row| row.trace.is_some())];
    for trace in TRACES {
        for &load in trace.loads {
            let at = |row: &Row| row.trace == Some(trace.name) && row.load.total_cmp(&load).is_eq();
            groups.push(results.group(&format!("{} ×{load}", trace.name), at));
        }
    }
    groups
}

/// A figure of ours by group, and that of the others against it. `better` is 1 if more of it is better, else −1.
fn compared(results: &Results, groups: &[Group<'_>], of: fn(&Figures) -> f64, better: f64) -> String {
    let mut header = vec!["scenarios".to_owned(), "plays".to_owned(), OURS.to_owned()];
    header.extend(results.policies[..results.ours()].iter().map(|policy| policy.0.to_owned()));
    let row = |group: &Group<'_>| {
        let ours = group.figures(results.ours(), of);
        let mut cells = vec![group.name.clone(), group.rows.len().to_string(), Estimate::of(&ours).text(1, false)];
        cells.extend((0..results.ours()).map(|policy| {
            let against = Estimate::of(&paired(&group.figures(policy, of), &ours, |theirs, ours| theirs - ours));
            let text = against.text(1, true);
            if against.reach.is_some_and(|reach| better * against.mean > reach) { format!("**{text}**") } else { text }
        }));
        cells
    };
    let rows: Vec<Vec<String>> = groups.iter().filter(|group| !group.rows.is_empty()).map(row).collect();
    table(&header, &rows)
}

/// Further means by policy, and the play where it is furthest behind ours.
fn totals(results: &Results, all: &Group<'_>) -> String {
    let row = |policy: usize| {
        let mean = |metric: fn(&Figures) -> f64| {
            mean(&all.rows.iter().map(|row| metric(&row.figures[policy])).collect::<Vec<f64>>())
        };
        let behind = |row: &&&Row| row.figures[policy].attainment - row.figures[results.ours()].attainment;
        let others = if policy == results.ours() { &[] } else { all.rows.as_slice() };
        let worst = others.iter().min_by(|one, other| behind(one).total_cmp(&behind(other)));
        vec![
            results.policies[policy].0.to_owned(),
            number(mean(|figures| figures.attainment), 1),
            worst.map_or_else(|| "–".to_owned(), |row| format!("{} ({})", number(behind(&row), 1), play(row))),
            number(mean(|figures| figures.tail.min(LATEST).ln()).exp(), 2),
            number(mean(|figures| figures.longest.min(LATEST).ln()).exp(), 2),
            number(mean(|figures| figures.lateness), 2),
            number(mean(|figures| figures.late), 1),
            number(mean(|figures| figures.hits), 1),
            number(mean(|figures| figures.decision), 1),
        ]
    };
    let header =
        ["policy", "within, %", "worst play", "p99", "longest", "mean", "late, %", "cached, %", "decision, µs"];
    format!(
        "Worst play: points against ours. p99, longest and mean: TTFT over its limit, the former two as geometric means over plays (at most \
         {LATEST} each), in the mean at most 10 per request. Late: first token after its limit. Cached: prompt tokens found in prefix caches. \
         Decision: wall time of an arrival while every processor is busy with simulations; {}.\n\n{}",
        machine::line(&machine::read()),
        table(&header.map(str::to_owned), &(0..results.policies.len()).map(row).collect::<Vec<_>>())
    )
}

/// Names a play, so that it can be run again.
fn play(row: &Row) -> String {
    row.trace.map_or_else(|| format!("seed {}", row.seed), |name| format!("{name} ×{}, seed {}", row.load, row.seed))
}

fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = (0..header.len()).map(|at| if at == 0 { "---" } else { "---:" }).collect::<Vec<_>>().join("|");
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}|{rule}|\n{rows}", line(header))
}
