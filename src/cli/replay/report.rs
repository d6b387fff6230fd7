//! Report as text and tables.

use std::{fmt::Write as _, time::Duration};

use super::{
    engines::{Fleet, From, Machine},
    results::{Figure, Results},
};
use crate::cli::output;
use signalbox_journal_replay::{Error, Tally};
use signalbox_sim::estimate::number;

pub(super) fn text(results: &Results) -> String {
    let mut text = head(results);
    text += &engines(results);
    text += &figures(results);
    text += &calibration(results);
    text += &beyond(results);
    text += &unknown(results);
    for caveat in &results.caveats {
        let _ = writeln!(text, "Note: {caveat}.");
    }
    text
}

fn head(results: &Results) -> String {
    let Results { journal, entries, .. } = results;
    let files: Vec<String> = journal.files.iter().map(|file| file.display().to_string()).collect();
    let mut text =
        format!("Journal:  {}: {} requests in {}\n", files.join(", "), entries.all.len(), time(entries.span()));
    for (why, count) in &entries.left_out {
        let _ = writeln!(text, "          {count} left out: {why}");
    }
    if let Some(first) = &journal.first_damage {
        let _ = writeln!(text, "          {} damaged lines were skipped; the first: {first}", journal.damaged);
    }
    if journal.later > 0 {
        let _ = writeln!(text, "          {} lines of a later release were skipped", journal.later);
    }
    for column in &results.columns {
        let _ = writeln!(
            text,
            "{:<10}{}, by the models below, {} seeds",
            format!("{}:", title(column.name)),
            column.file.display(),
            results.seeds
        );
    }
    text.push('\n');
    text
}

fn title(name: &str) -> String {
    let (first, rest) = name.split_at(name.len().min(1));
    first.to_uppercase() + rest
}

fn engines(results: &Results) -> String {
    let head = [
        "engine",
        "learned from\nanswers",
        "tried on",
        "at once",
        "TTFT\nbias %",
        "typical %",
        "TPOT\nbias %",
        "typical %",
        "fails\n%",
    ];
    let machines = results.fleets.iter().rev().flat_map(|Fleet { engines }| engines);
    let mut named: Vec<&Machine> = Vec::new();
    for machine in machines {
        if !named.iter().any(|known| known.name == machine.name) {
            named.push(machine);
        }
    }
    let rows = named.into_iter().filter_map(|machine| {
        let of = |error: Error| [number(error.bias * 100.0, 1), number(error.typical * 100.0, 1)];
        match &machine.from {
            From::Journal(learned) => {
                let [[ttft, ttft_usual], [tpot, tpot_usual]] = [of(learned.ttft), of(learned.tpot)];
                Some([
                    machine.name.clone(),
                    (learned.answers - learned.held_out).to_string(),
                    learned.held_out.to_string(),
                    learned.most_at_once.to_string(),
                    ttft,
                    ttft_usual,
                    tpot,
                    tpot_usual,
                    number(learned.failing * 100.0, 1),
                ])
            }
            From::File(profile) => {
                let what = profile.name().unwrap_or("as --engines says").to_owned();
                let dash = || "–".to_owned();
                Some([machine.name.clone(), what, dash(), dash(), dash(), dash(), dash(), dash(), dash()])
            }
            From::Unknown(_) => None,
        }
    });
    output::numbers(head, rows)
}

fn figures(results: &Results) -> String {
    let rows = results.figures().into_iter().map(|Figure { name, decimals, of }| {
        let happened = number(of(&results.happened), decimals);
        let change = signed(results.change(&*of), decimals);
        let new = results.priced().map_or_else(String::new, |new| new.estimate(&*of).text(decimals, false));
        let was = results.was().map(|was| was.estimate(&*of).text(decimals, false));
        (name, happened, was, new, change)
    });
    let rows: Vec<_> = rows.filter(|(_, happened, was, new, _)| !is_nothing(happened, was.as_deref(), new)).collect();
    if results.was().is_some() {
        let rows = rows
            .into_iter()
            .map(|(name, happened, was, new, change)| [name, happened, was.unwrap_or_default(), new, change]);
        output::numbers(["", "happened", "was, as played", "new, as played", "change"], rows)
    } else {
        let rows = rows.into_iter().map(|(name, happened, _, new, change)| [name, happened, new, change]);
        output::numbers(["", "happened", "new, as played", "change"], rows)
    }
}

/// True if a row has no nonzero value.
fn is_nothing(happened: &str, was: Option<&str>, new: &str) -> bool {
    let nothing = |text: &str| text.starts_with('–') || !text.contains(|digit| matches!(digit, '1'..='9'));
    [Some(happened), was, Some(new)].into_iter().flatten().all(nothing)
}

fn signed(value: f64, decimals: usize) -> String {
    let text = number(value, decimals);
    if value.is_finite() && !text.starts_with('-') { format!("+{text}") } else { text }
}

/// Deviation of the policy that ran, as played, from what happened. The new policy is not likely to be closer.
fn calibration(results: &Results) -> String {
    let Some(was) = results.was() else {
        return "To see how far such a play is from what happens, give the policy that ran with `--was`.\n\n"
            .to_owned();
    };
    let shares = results.pools().into_iter().map(|pool| {
        let of = |tally: &Tally| tally.share(&pool) * 100.0;
        (was.estimate(&of).mean - of(&results.happened)).abs()
    });
    let shares = shares.fold(0.0, f64::max);
    let ratio = |of: &dyn Fn(&Tally) -> f64| signed((was.estimate(of).mean / of(&results.happened) - 1.0) * 100.0, 1);
    let cost = match results.happened.cost {
        Some(cost) if cost > 0.0 => format!(", cost {} %", ratio(&|tally| tally.cost.unwrap_or(f64::NAN))),
        _ => String::new(),
    };
    format!(
        "The policy that ran, as played and as it was: shares within {} points, TTFT p50 {} %, p95 {} %, TPOT p50 {} %{cost}.\n\n",
        number(shares, 1),
        ratio(&|tally| tally.ttft(0.5)),
        ratio(&|tally| tally.ttft(0.95)),
        ratio(&|tally| tally.tpot(0.5)),
    )
}

/// Engines on which the new policy runs more requests at once than the journal has.
fn beyond(results: &Results) -> String {
    let Some((column, fleet)) = results.priced().zip(results.fleets.last()) else { return String::new() };
    let mut text = String::new();
    for (machine, most) in fleet.engines.iter().zip(&column.busiest) {
        if let From::Journal(learned) = &machine.from
            && *most as usize > learned.most_at_once
        {
            let Machine { name, .. } = machine;
            let _ = writeln!(
                text,
                "Beyond the journal: the new policy has up to {most} requests at once on `{name}`, where the journal has at most {}. \
                 Beyond that its model extrapolates.",
                learned.most_at_once
            );
        }
    }
    text
}

/// Variables that the policies used and the journal lacks.
fn unknown(results: &Results) -> String {
    let mut text = String::new();
    for column in &results.columns {
        for (what, times) in &column.missing {
            let _ = writeln!(
                text,
                "NOT KNOWN: {} used `{what}` {times} times for requests without it in the journal; such conditions were taken as \
                 false.",
                column.file.display()
            );
        }
    }
    text
}

/// Formats a time.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let rounded = |value: f64| (value * 10.0).round() / 10.0;
    match seconds {
        seconds if seconds < 120.0 => format!("{}s", rounded(seconds)),
        seconds if seconds < 7200.0 => format!("{}m", rounded(seconds / 60.0)),
        seconds => format!("{}h", rounded(seconds / 3600.0)),
    }
}
