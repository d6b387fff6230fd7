//! Report of the evaluation, as tables and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::cli::output;
use signalbox_lab::evaluate::{DRAWS, MIN_REPLAY_PROMPTS, NOTHING, Results, Row, Set};
use signalbox_prompt::complexity::curve::Interval;

/// Name of the ranking that the others are compared with.
const OURS: &str = "signalbox";

pub(super) fn text(results: &Results) -> String {
    let fitted = if results.left_out { "fitted anew without each benchmark" } else { &results.weights };
    let mut text = format!(
        "Weights:   {fitted}\nIntervals: 95 %; of rankings by {DRAWS} bootstrap samples, of gains by learning over draws of labels\n"
    );
    if !results.unnamed.is_empty() {
        let files = results.unnamed.join(", ");
        let _ = writeln!(
            text,
            "Models:    those of `--small` and `--large`; not in {files}, whose `small` and `large` count"
        );
    }
    text.push('\n');
    for set in &results.sets {
        let _ = writeln!(text, "{}: {} prompts, small {:.3}, large {:.3}", set.name, set.prompts, set.small, set.large);
        if let Some(note) = set.note {
            let _ = writeln!(text, "{note}\n");
        }
        // Without a gap to recover, or prompts to rank, a table would be empty.
        if set.prompts > 1 && set.note != Some(NOTHING) {
            let head = ["ranking", "APGR", "95 %", "CPT50", "CPT80", "PGR@25%", "signalbox ahead by"];
            text.push_str(&output::numbers(head, set.rows.iter().map(cells)));
        }
    }
    let pairs = results
        .pairs
        .iter()
        .map(|(small, large, gap, apgr)| [format!("{small} / {large}"), number(*gap), number(*apgr)]);
    text.push_str(&output::numbers(["small / large", "gap", "APGR"], pairs));
    let without = results.pairs.iter().filter(|(.., apgr)| apgr.is_nan());
    text.push_str(&nothing(without.map(|(small, large, ..)| format!("{small} / {large}"))));
    let replays = results.learned.iter().flatten();
    let learned = replays.clone().map(|replay| {
        let columns = [replay.before, replay.after, replay.after - replay.before];
        let [before, after, gain] = columns.map(number);
        let kind = format!("{} {}", replay.labels, replay.kind);
        let promotions = format!("{:.1}", replay.promotions);
        [replay.name.clone(), kind, before, after, gain, interval(replay.gain), promotions]
    });
    text.push_str(&output::numbers(
        ["traffic", "labels", "APGR before", "after", "gain", "95 %", "promotions"],
        learned,
    ));
    text.push_str(&nothing(replays.filter(|replay| replay.before.is_nan()).map(|replay| replay.name.clone())));
    if results.learned.as_ref().is_some_and(Vec::is_empty) {
        let _ = writeln!(
            text,
            "Nothing was learned: a replay needs {MIN_REPLAY_PROMPTS} prompts of one file or pair of models"
        );
    }
    text
}

/// A line for each name whose larger model adds nothing.
fn nothing(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    names.dedup();
    let mut text = String::new();
    for name in &names {
        let _ = writeln!(text, "{name}: {NOTHING}");
    }
    if !names.is_empty() {
        text.push('\n');
    }
    text
}

fn cells(row: &Row) -> [String; 7] {
    let ahead = if row.name == OURS { String::new() } else { interval(row.ahead) };
    let worth = row.worth;
    [
        row.name.to_owned(),
        number(worth.apgr),
        interval(row.apgr),
        number(worth.cpt50),
        number(worth.cpt80),
        number(worth.pgr25),
        ahead,
    ]
}

fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { "–".to_owned() }
}

fn interval(Interval { low, high }: Interval) -> String {
    format!("{} to {}", number(low), number(high))
}

pub(super) fn json(results: &Results) -> Value {
    let finite = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
    let pair = |Interval { low, high }| json!([finite(low), finite(high)]);
    let row = |row: &Row| {
        json!({
            "ranking": row.name,
            "apgr": finite(row.worth.apgr),
            "apgr_interval": pair(row.apgr),
            "cpt50": finite(row.worth.cpt50),
            "cpt80": finite(row.worth.cpt80),
            "pgr25": finite(row.worth.pgr25),
            "signalbox_ahead_interval": if row.name == OURS { Value::Null } else { pair(row.ahead) },
        })
    };
    let set = |set: &Set| {
        json!({
            "name": set.name,
            "prompts": set.prompts,
            "note": set.note,
            "small": set.small,
            "large": set.large,
            "rankings": set.rows.iter().map(row).collect::<Vec<_>>(),
        })
    };
    let pairs = results.pairs.iter().map(|(small, large, gap, apgr)| {
        json!({ "small": small, "large": large, "gap": finite(*gap), "apgr": finite(*apgr) })
    });
    let learned = results.learned.iter().flatten().map(|replay| {
        json!({
            "traffic": replay.name,
            "kind": replay.kind,
            "labels": replay.labels,
            "pairs": replay.pairs,
            "apgr_before": finite(replay.before),
            "apgr_after": finite(replay.after),
            "gain_interval": pair(replay.gain),
            "promotions": replay.promotions,
        })
    });
    json!({
        "weights": results.weights,
        "leave_one_out": results.left_out,
        "unnamed": results.unnamed,
        "sets": results.sets.iter().map(set).collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "learned": learned.collect::<Vec<_>>(),
    })
}
