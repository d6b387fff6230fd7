//! What was found, in tables and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::results::{DRAWS, Results, Row, Set};
use crate::{cli::output, prompt::complexity::curve::Interval};

pub(super) fn text(results: &Results) -> String {
    let fitted = if results.left_out { "fitted anew without each benchmark" } else { &results.weights };
    let mut text = format!(
        "Weights:   {fitted}\nIntervals: 95 %; of rankings by {DRAWS} bootstrap samples, of gains by learning over draws of labels\n\n"
    );
    for set in &results.sets {
        let _ = writeln!(text, "{}: {} prompts, small {:.3}, large {:.3}", set.name, set.prompts, set.small, set.large);
        let head = ["ranking", "APGR", "95 %", "CPT50", "CPT80", "PGR@25%", "signalbox ahead by"];
        text.push_str(&output::numbers(head, set.rows.iter().map(cells)));
    }
    let pairs = results
        .pairs
        .iter()
        .map(|(small, large, gap, apgr)| [format!("{small} / {large}"), number(*gap), number(*apgr)]);
    text.push_str(&output::numbers(["small / large", "gap", "APGR"], pairs));
    let learned = results.learned.iter().map(|replay| {
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
    text
}

fn cells(row: &Row) -> [String; 7] {
    let ahead = if row.name == "signalbox" { String::new() } else { interval(row.ahead) };
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
    let row = |row: &Row| {
        json!({
            "ranking": row.name,
            "apgr": finite(row.worth.apgr),
            "apgr_interval": [finite(row.apgr.low), finite(row.apgr.high)],
            "cpt50": finite(row.worth.cpt50),
            "cpt80": finite(row.worth.cpt80),
            "pgr25": finite(row.worth.pgr25),
            "signalbox_ahead_interval": [finite(row.ahead.low), finite(row.ahead.high)],
        })
    };
    let set = |set: &Set| {
        json!({
            "name": set.name,
            "prompts": set.prompts,
            "small": set.small,
            "large": set.large,
            "rankings": set.rows.iter().map(row).collect::<Vec<_>>(),
        })
    };
    let pairs = results.pairs.iter().map(|(small, large, gap, apgr)| {
        json!({ "small": small, "large": large, "gap": finite(*gap), "apgr": finite(*apgr) })
    });
    let learned = results.learned.iter().map(|replay| {
        json!({
            "traffic": replay.name,
            "kind": replay.kind,
            "labels": replay.labels,
            "pairs": replay.pairs,
            "apgr_before": finite(replay.before),
            "apgr_after": finite(replay.after),
            "gain_interval": [finite(replay.gain.low), finite(replay.gain.high)],
            "promotions": replay.promotions,
        })
    });
    json!({
        "weights": results.weights,
        "leave_one_out": results.left_out,
        "sets": results.sets.iter().map(set).collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "learned": learned.collect::<Vec<_>>(),
    })
}
