//! Report as text, tables and JSON.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use serde_json::{Value, json};

use super::{
    super::output,
    overload::Choice,
    results::{Played, Results},
};
use signalbox_policy::RouteChoice;
use signalbox_sim::{
    estimate::{Estimate, number, paired},
    experiment::{Carried, ENOUGH, Routing},
    figures::{Figures, Slo},
};

pub(super) fn text(results: &Results) -> String {
    let mut text = head(results);
    text.push_str(&figures(results));
    text.push_str(&overloads(results));
    if results.swept() {
        let rows = results.policies.iter().map(|played| [played.name.clone(), played.goodput()]);
        let title = format!("goodput (highest rate with {:.0} % in SLO)", ENOUGH * 100.0);
        text.push_str(&output::table(["policy", &title], rows));
        let rates = |played: &Played| played.carried.iter().map(|carried| carried.rate()).collect();
        text.push_str(&differences(results, "goodput", 2, rates));
    } else {
        text.push_str(&shares(results));
        let attainment = |played: &Played| played.seeds(0, |figures| figures.attainment * 100.0);
        text.push_str(&differences(results, "in SLO, points", 1, attainment));
    }
    text
}

/// Describes the traffic and the SLOs.
fn head(results: &Results) -> String {
    let recording = &results.recording;
    let trace = match &results.trace {
        Some(file) => format!("{} ({})", file.display(), recording.format.name()),
        None => "MADE-UP arrivals like Azure's (no recorded traffic)".to_owned(),
    };
    let count = recording.arrivals.len();
    let mut text = format!(
        "Traffic:  {trace}, {count} {} in {}\n",
        if count == 1 { "request" } else { "requests" },
        time(recording.span())
    );
    if recording.skipped > 0 {
        let _ = writeln!(text, "          {} lines without `usage` were left out", recording.skipped);
    }
    let seeds = if results.seeds == 1 { "1 seed".to_owned() } else { format!("{} seeds", results.seeds) };
    let _ = writeln!(text, "Plays:    {seeds}, each up to {} of another part of it", time(results.limit));
    let engines: Vec<_> = results.policies.iter().map(engines).collect();
    describe(&mut text, "Engines:  ", results, &engines);
    let slos: Vec<_> = results.policies.iter().map(slo).collect();
    describe(&mut text, "SLO:      ", results, &slos);
    text.push('\n');
    text
}

/// One line if all policies have the same, else one for each.
fn describe(text: &mut String, title: &str, results: &Results, lines: &[String]) {
    if lines.windows(2).all(|pair| pair[0] == pair[1]) {
        let _ = writeln!(text, "{title}{}", lines.first().map_or("", |line| line));
        return;
    }
    for (at, (played, line)) in results.policies.iter().zip(lines).enumerate() {
        let title = if at == 0 { title } else { "          " };
        let _ = writeln!(text, "{title}{}: {line}", played.name);
    }
}

fn engines(played: &Played) -> String {
    let subject = &played.subject;
    let profiles = subject.engines().into_iter().map(|engine| subject.profiles[engine].name().unwrap_or("special"));
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in profiles {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let counts: Vec<_> = counts.into_iter().map(|(name, count)| format!("{count} × {name}")).collect();
    let happens = match subject.changes.len() {
        0 => String::new(),
        1 => ", 1 event".to_owned(),
        events => format!(", {events} events"),
    };
    let by = match &subject.routing {
        Routing::Route(route) => format!("the route `{}`", route.name),
        Routing::Model(name, model) => {
            let drawn = model.rules.iter().any(|rule| matches!(rule.way, RouteChoice::Tiers(_)));
            format!("the rules of `{name}`{}", if drawn { " (complexities drawn at random)" } else { "" })
        }
    };
    format!("{} (simulated), by {by}{happens}", counts.join(", "))
}

fn slo(played: &Played) -> String {
    let mut slos: Vec<Slo> = played.subject.engines().into_iter().map(|engine| played.subject.slos[engine]).collect();
    slos.dedup();
    let texts = slos.into_iter().map(|Slo { ttft, tpot }| {
        let ttft = ttft.map_or("max(1s, 2.5 × the idle engine's)".to_owned(), time);
        format!("TTFT ≤ {ttft} and TPOT ≤ {}", time(tpot.unwrap_or(Slo::TPOT)))
    });
    texts.collect::<Vec<_>>().join(", then ")
}

fn figures(results: &Results) -> String {
    let rows = results.policies.iter().flat_map(|played| {
        results.rates.iter().enumerate().map(move |(at, rate)| {
            let seconds = |of: &dyn Fn(&Figures) -> f64| number(played.mean(at, of), 2);
            let share = |of: &dyn Fn(&Figures) -> f64| number(played.mean(at, of) * 100.0, 1);
            [
                played.name.clone(),
                format!("{rate:.2}"),
                seconds(&|figures| figures.ttft(0.5)),
                seconds(&|figures| figures.ttft(0.9)),
                seconds(&|figures| figures.ttft(0.99)),
                number(played.mean(at, |figures| figures.tpot[0] * 1e3), 1),
                number(played.mean(at, |figures| figures.tpot[1] * 1e3), 1),
                played.attainment(at).text(1, false),
                share(&|figures| figures.hits),
                share(&|figures| figures.refused),
                share(&|figures| figures.unanswered),
                number(played.mean(at, |figures| figures.decision), 1),
            ]
        })
    });
    let head = [
        "policy",
        "rate",
        "TTFT p50\ns",
        "p90\ns",
        "p99\ns",
        "TPOT p50\nms",
        "p90\nms",
        "in SLO\n%",
        "cached\n%",
        "refused\n%",
        "cut\n%",
        "decision\nµs",
    ];
    output::numbers(head, rows)
}

/// The table of both choices; empty if no policy has an objective.
fn overloads(results: &Results) -> String {
    let rows: Vec<_> = results.policies.iter().flat_map(|played| choices(results, played)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["policy", "rate", "overload", "in SLO\n%", "TTFT p99\ns", "p99 over\nits limit", "in SLO, points"];
    output::numbers(head, rows)
}

/// Both choices of one policy, at every rate.
fn choices(results: &Results, played: &Played) -> Vec<[String; 7]> {
    let mut rows = Vec::new();
    for (at, rate) in results.rates.iter().enumerate() {
        for choice in &played.choices {
            let first = played.choices.first().filter(|first| first.overload != choice.overload);
            let attainment = |choice: &Choice| choice.seeds(at, |figures| figures.attainment * 100.0);
            let against = first.map_or_else(String::new, |first| {
                Estimate::of(&paired(&attainment(choice), &attainment(first), |one, other| one - other)).text(1, true)
            });
            rows.push([
                played.name.clone(),
                format!("{rate:.2}"),
                format!("{}{}", choice.overload.name(), if choice.own { " (as is)" } else { "" }),
                Estimate::of(&attainment(choice)).text(1, false),
                number(choice.ttft_p99(at), 2),
                number(choice.over_limit(at), 2),
                against,
            ]);
        }
    }
    rows
}

fn shares(results: &Results) -> String {
    let rows = results.policies.iter().map(|played| {
        let shares = played.engines().into_iter().map(|(engine, name)| {
            let share = number(played.share(0, engine) * 100.0, 1);
            format!("{name} {share} %")
        });
        [played.name.clone(), shares.collect::<Vec<_>>().join(", ")]
    });
    output::table(["policy", "answers by backend"], rows)
}

/// Differences to the first policy by seed: paired by the same arrivals, they are more certain than either figure.
fn differences(results: &Results, what: &str, decimals: usize, of: impl Fn(&Played) -> Vec<f64>) -> String {
    let Some((first, others)) = results.policies.split_first() else { return String::new() };
    let mut text = String::new();
    for other in others {
        let difference = Estimate::of(&paired(&of(other), &of(first), |left, right| left - right));
        let difference = difference.text(decimals, true);
        let _ = writeln!(text, "{} against {}: {what} {difference}", other.name, first.name);
    }
    text
}

/// Formats a time.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        seconds if seconds < 1.0 => format!("{}ms", rounded(seconds * 1e3)),
        seconds if seconds < 120.0 => format!("{}s", rounded(seconds)),
        seconds if seconds < 7200.0 => format!("{}m", rounded(seconds / 60.0)),
        seconds => format!("{}h", rounded(seconds / 3600.0)),
    }
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// All figures; infinite ones (TTFT of refused requests) and missing ones are `null`.
pub(super) fn json(results: &Results) -> Value {
    let recording = &results.recording;
    json!({
        "trace": {
            "file": results.trace.as_ref().map(|file| file.display().to_string()),
            "made_up": results.trace.is_none(),
            "format": recording.format.name(),
            "requests": recording.arrivals.len(),
            "skipped": recording.skipped,
            "span_s": recording.span().as_secs_f64(),
        },
        "seeds": results.seeds,
        "limit_s": results.limit.as_secs_f64(),
        "policies": results.policies.iter().map(|played| policy(results, played)).collect::<Vec<_>>(),
    })
}

fn policy(results: &Results, played: &Played) -> Value {
    let subject = &played.subject;
    let engines = played.engines().into_iter().map(|(engine, name)| {
        let Slo { ttft, tpot } = subject.slos[engine];
        json!({
            "name": name,
            "profile": subject.profiles[engine],
            "slo_ttft_s": ttft.map(|ttft| ttft.as_secs_f64()),
            "slo_tpot_s": tpot.unwrap_or(Slo::TPOT).as_secs_f64(),
        })
    });
    let goodput = results.swept().then(|| {
        let rates: Vec<f64> = played.carried.iter().map(|carried| carried.rate()).collect();
        let count = |is: fn(&Carried) -> bool| played.carried.iter().filter(|carried| is(carried)).count();
        json!({
            "rate": estimate(Estimate::of(&rates)),
            "seeds_below_range": count(|carried| matches!(carried, Carried::Less(_))),
            "seeds_above_range": count(|carried| matches!(carried, Carried::AtLeast(_))),
        })
    });
    json!({
        "name": played.name,
        "file": played.file.display().to_string(),
        "hash": subject.policy.hash,
        "route": match &subject.routing {
            Routing::Route(route) => Some(&*route.name),
            Routing::Model(..) => None,
        },
        "routes": subject.routing.routes().map(|route| &*route.name).collect::<BTreeSet<_>>(),
        "engines": engines.collect::<Vec<_>>(),
        "rates": (0..results.rates.len()).map(|rate| at_rate(results, played, rate)).collect::<Vec<_>>(),
        "goodput": goodput,
    })
}

fn at_rate(results: &Results, played: &Played, rate: usize) -> Value {
    let mean = |of: &dyn Fn(&Figures) -> f64| played.mean(rate, of);
    let shares =
        played.engines().into_iter().map(|(engine, name)| (name.to_owned(), json!(played.share(rate, engine))));
    json!({
        "rate": results.rates[rate],
        "requests": mean(&|figures| figures.requests as f64),
        "ttft_s": {
            "p50": mean(&|figures| figures.ttft(0.5)),
            "p90": mean(&|figures| figures.ttft(0.9)),
            "p99": mean(&|figures| figures.ttft(0.99)),
        },
        "tpot_s": { "p50": mean(&|figures| figures.tpot[0]), "p90": mean(&|figures| figures.tpot[1]) },
        "attainment": estimate(Estimate::of(&played.seeds(rate, |figures| figures.attainment))),
        "cached": mean(&|figures| figures.hits),
        "refused": mean(&|figures| figures.refused),
        "cut": mean(&|figures| figures.unanswered),
        "ttft_p99_over_limit": mean(&|figures| figures.over_limit),
        "overload": played.choices.iter().map(|choice| (choice.overload.name().to_owned(), json!({
            "attainment": estimate(choice.share(rate)),
            "ttft_p99_s": choice.ttft_p99(rate),
            "ttft_p99_over_limit": choice.over_limit(rate),
        }))).collect::<serde_json::Map<_, _>>(),
        "decision_us": mean(&|figures| figures.decision),
        "shares": shares.collect::<serde_json::Map<_, _>>(),
    })
}

fn estimate(estimate: Estimate) -> Value {
    json!({ "mean": estimate.mean, "reach_95": estimate.reach })
}
