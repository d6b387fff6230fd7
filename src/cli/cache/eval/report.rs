//! Report of the evaluation, as tables and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::output;
use signalbox_lab::{
    cache_eval::{Family, Point, Results},
    cache_replay::Interval,
};
use signalbox_measure::beta::clopper_pearson;

pub(super) fn text(results: &Results) -> String {
    let Results { pairs, same, stored, queries, partners, without, decider, .. } = results;
    let mut text = format!(
        "Pairs:     {pairs}, of which {same} mean the same\n\
         Stream:    {stored} prompts stored, {queries} asked, of which {partners} have a partner in the store\n\
         Decided by {decider}, before any evidence of your own\n"
    );
    if *without > 0 {
        let _ = writeln!(
            text,
            "Passed by: {without} prompts that are too long, have no word, or ask for something of the moment or of their author"
        );
    }
    let head =
        ["repeats", "budget", "hits", "hit rate %", "95 %", "false per hit %", "95 %", "false per request %", "95 %"];
    let _ = write!(text, "\n{}", output::numbers(head, results.points.iter().map(cells)));
    let head = ["family", "budget", "served wrongly", "95 % to", "paraphrases served"];
    text.push_str(&output::numbers(
        head,
        results.families.iter().map(|family| {
            [
                family.name.clone(),
                percent(family.budget, 0),
                format!("{} of {}", family.wrong, family.different),
                percent(highest(family), 1),
                format!("{} of {}", family.right, family.same),
            ]
        }),
    ));
    text
}

fn cells(point: &Point) -> [String; 9] {
    let Point { rates, .. } = point;
    [
        percent(point.prevalence, 0),
        percent(point.budget, 0),
        rates.hits.to_string(),
        number(rates.hit_rate.rate, 2),
        interval(rates.hit_rate, 2),
        number(rates.per_hit.rate, 1),
        interval(rates.per_hit, 1),
        number(rates.per_request.rate, 3),
        interval(rates.per_request, 3),
    ]
}

/// Upper end of the interval of the wrongly served share.
fn highest(family: &Family) -> f64 {
    clopper_pearson(family.wrong as f64, family.different as f64, 0.95).1
}

fn number(share: f64, digits: usize) -> String {
    format!("{:.digits$}", 100.0 * share)
}

/// A share in percent, with `digits` or as many as needed.
fn percent(share: f64, digits: usize) -> String {
    let rounded = number(share, digits);
    let exact = rounded.parse::<f64>().is_ok_and(|value| (value / 100.0 - share).abs() < 1e-9);
    if digits == 0 && !exact { format!("{} %", number(share, 2)) } else { format!("{rounded} %") }
}

fn interval(Interval { low, high, .. }: Interval, digits: usize) -> String {
    format!("{} to {}", number(low, digits), number(high, digits))
}

pub(super) fn json(results: &Results) -> Value {
    let ends = |interval: Interval| json!([interval.low, interval.high]);
    let point = |point: &Point| {
        let Point { prevalence, budget, counts, rates } = point;
        json!({
            "prevalence": prevalence,
            "budget": budget,
            "hits": rates.hits,
            "right": counts.right,
            "false_with_partner": counts.wrong,
            "false_without_partner": counts.false_hits,
            "hit_rate": rates.hit_rate.rate,
            "hit_rate_interval": ends(rates.hit_rate),
            "false_per_hit": (rates.hits > 0).then_some(rates.per_hit.rate),
            "false_per_hit_interval": ends(rates.per_hit),
            "false_per_request": rates.per_request.rate,
            "false_per_request_interval": ends(rates.per_request),
        })
    };
    let family = |family: &Family| {
        json!({
            "family": family.name,
            "budget": family.budget,
            "different": family.different,
            "served_wrongly": family.wrong,
            "same": family.same,
            "paraphrases_served": family.right,
        })
    };
    json!({
        "pairs": results.pairs,
        "same": results.same,
        "stored": results.stored,
        "asked": results.queries,
        "with_partner": results.partners,
        "passed_by": results.without,
        "decider": results.decider,
        "stream": results.points.iter().map(point).collect::<Vec<_>>(),
        "families": results.families.iter().map(family).collect::<Vec<_>>(),
    })
}
