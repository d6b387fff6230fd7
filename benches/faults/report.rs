//! Results as Markdown and as JSON.

use std::{fmt::Write, fs};

use serde_json::{Value, json};

use crate::{
    catalogue::{Row, Setup, count},
    judge::Grade,
    play::{Tally, quantile},
};

/// Results of one proxy.
pub(crate) struct Findings {
    pub(crate) peer: &'static str,
    pub(crate) version: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) series: Vec<Tally>,
}

/// Processor, kernel and load of the machine.
pub(crate) fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let model = model.map_or("unknown", |(_, name)| name);
    let load = load.split_whitespace().next().unwrap_or_default();
    format!("{cpus} vCPU ({model}), Linux {}, load {load} at the end", kernel.trim())
}

pub(crate) fn markdown(machine: &str, findings: &[Findings]) -> String {
    let mut text =
        format!("{machine}; {}.\n", findings.iter().map(|found| found.version.as_str()).collect::<Vec<_>>().join(", "));
    catalogue(&mut text, findings).expect("text can be written");
    for found in findings.iter().filter(|found| !found.series.is_empty()) {
        series(&mut text, found).expect("text can be written");
    }
    text
}

/// Set-ups of the catalogue in these results.
fn setups(found: &Findings) -> Vec<Setup> {
    let mut setups: Vec<Setup> = Vec::new();
    for row in &found.rows {
        if !setups.contains(&row.setup) {
            setups.push(row.setup);
        }
    }
    setups
}

fn catalogue(text: &mut String, findings: &[Findings]) -> std::fmt::Result {
    let columns: Vec<(&Findings, Setup)> =
        findings.iter().flat_map(|found| setups(found).into_iter().map(move |setup| (found, setup))).collect();
    if columns.is_empty() {
        return Ok(());
    }
    writeln!(text, "\n## Catalogue\n")?;
    write!(text, "| | fault |")?;
    for (found, setup) in &columns {
        write!(text, " {}, {} |", found.peer, setup.name())?;
    }
    writeln!(text, "\n|---|---|{}", "---|".repeat(columns.len()))?;
    let mut ids: Vec<(&str, &str)> = Vec::new();
    for row in findings.iter().flat_map(|found| &found.rows) {
        if !ids.contains(&(row.id, row.what)) {
            ids.push((row.id, row.what));
        }
    }
    for (id, what) in ids {
        write!(text, "| {id} | {what} |")?;
        for (found, setup) in &columns {
            match found.rows.iter().find(|row| row.id == id && row.setup == *setup) {
                Some(row) => {
                    let ((primary, backup), took) = (row.attempts, row.took.as_secs_f64());
                    write!(text, " **{}** {took:.1} s, {primary} + {backup} |", row.judgement.grade.name())?;
                }
                None => write!(text, " |")?,
            }
        }
        writeln!(text)?;
    }
    write!(text, "| | **of the sixteen: pass, safe, partial, fail** |")?;
    for (found, setup) in &columns {
        let rows: Vec<&Row> = found.rows.iter().filter(|row| row.setup == *setup).collect();
        let [pass, safe, partial, fail] = count(&rows);
        write!(text, " {pass}, {safe}, {partial}, {fail} |")?;
    }
    writeln!(text, "\n\nSeconds to the end of the answer, and attempts at the primary + at the fallback.\n")?;
    for (found, setup) in &columns {
        for row in found.rows.iter().filter(|row| row.setup == *setup && !row.judgement.why.is_empty()) {
            let (grade, why) = (row.judgement.grade.name(), row.judgement.why.join("; "));
            writeln!(text, "- {}, {}, {}: {grade}: {why}", found.peer, setup.name(), row.id)?;
        }
    }
    Ok(())
}

fn series(text: &mut String, found: &Findings) -> std::fmt::Result {
    writeln!(text, "\n## Series, {}\n", found.peer)?;
    writeln!(
        text,
        "| series | holds | requests | failed | broken | wrong | usage wrong | TTFT p50, s | p95 | max | to the end p50, s | p95 | max | attempts | for each |"
    )?;
    writeln!(text, "|---|---|{}", "---:|".repeat(13))?;
    for tally in &found.series {
        let Tally { name, requests, failed, broken, wrong, miscounted, attempts, .. } = tally;
        let holds = if tally.holds { "yes" } else { "**no**" };
        let shown = |sorted: &[f64]| {
            [0.5, 0.95, 1.0]
                .map(|q| quantile(sorted, q).map_or("–".to_owned(), |value| format!("{value:.2}")))
                .join(" | ")
        };
        let (first, took) = (shown(&tally.first), shown(&tally.took));
        let each = *attempts as f64 / *requests as f64;
        writeln!(
            text,
            "| {name} | {holds} | {requests} | {failed} | {broken} | {wrong} | {miscounted} | {first} | {took} | {attempts} | {each:.2} |"
        )?;
    }
    writeln!(text)?;
    for tally in &found.series {
        let mut reasons: Vec<_> = tally.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let reasons: Vec<_> = reasons.iter().take(4).map(|(why, count)| format!("{count} × {why}")).collect();
        let notes: Vec<_> =
            [tally.note.clone(), reasons.join(", ")].into_iter().filter(|part| !part.is_empty()).collect();
        if !notes.is_empty() {
            writeln!(text, "- {}: {}", tally.name, notes.join("; "))?;
        }
    }
    Ok(())
}

impl Findings {
    /// Faults that are neither passed nor safe, and series that do not hold.
    pub(crate) fn faulty(&self) -> usize {
        let rows = self.rows.iter().filter(|row| row.judgement.grade < Grade::Safe).count();
        rows + self.series.iter().filter(|series| !series.holds).count()
    }
}

pub(crate) fn document(machine: &str, findings: &[Findings]) -> Value {
    let peers = findings.iter().map(|found| {
        let rows = found.rows.iter().map(|row| {
            json!({ "fault": row.id, "what": row.what, "setup": row.setup.name(), "grade": row.judgement.grade,
                "why": row.judgement.why, "primary": row.attempts.0, "fallback": row.attempts.1,
                "seconds": row.took.as_secs_f64() })
        });
        let series = found.series.iter().map(|tally| {
            let mut value = json!(tally);
            for (name, sorted) in [("ttft", &tally.first), ("latency", &tally.took)] {
                for (of, q) in [("p50", 0.5), ("p95", 0.95), ("max", 1.0)] {
                    value[format!("{name}_{of}")] = json!(quantile(sorted, q));
                }
            }
            value
        });
        json!({ "peer": found.peer, "version": found.version, "catalogue": rows.collect::<Vec<_>>(),
            "series": series.collect::<Vec<_>>() })
    });
    json!({ "machine": machine, "peers": peers.collect::<Vec<_>>() })
}
