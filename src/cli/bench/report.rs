//! Report of a run, as tables and as JSON.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::super::output;
use signalbox_loadgen::{Counted, Figures, Row, Seen};
use signalbox_sim::estimate::number;

/// Share of the median answer time from which late sending is pointed out.
const BEHIND: f64 = 0.1;

/// Everything in the report.
pub(super) struct Results {
    pub(super) target: String,
    pub(super) model: String,
    /// Description of the load.
    pub(super) load: String,
    /// Streaming or not, in words.
    pub(super) form: &'static str,
    /// True for an open loop.
    pub(super) open: bool,
    pub(super) figures: Figures,
    /// `None` if the server is not a Signalbox gateway, or does not show its metrics.
    pub(super) compared: Option<Compared>,
}

/// Latencies of the same requests at the client and at the gateway.
pub(super) struct Compared {
    pub(super) ours: Counted,
    pub(super) theirs: Counted,
    /// Network round trip, in seconds.
    pub(super) round_trip: f64,
}

pub(super) fn text(results: &Results) -> String {
    let figures = &results.figures;
    let mut text = format!("Target:    {}, model `{}`, {}\n", results.target, results.model, results.form);
    if figures.simulated {
        text.push_str("           SIMULATED engines answered: these figures are not of a model\n");
    }
    let _ = writeln!(text, "Load:      {}", results.load);
    let _ = writeln!(
        text,
        "Requests:  {} in {} s: {} answered, {} failed",
        figures.requests,
        number(figures.seconds, 1),
        figures.requests - figures.failed,
        figures.failed
    );
    for (kind, seen) in &figures.failures {
        let _ = writeln!(text, "           {} × {kind}: {}", seen.count, plain(&seen.example));
    }
    for (count, what) in [
        (figures.warmup, "in the warm-up are not counted"),
        (figures.unfinished, "were in progress when the run was stopped"),
        (figures.replayed, "were answered from the gateway's cache, or coalesced"),
        (figures.uncounted, "answers had no `usage`: their tokens are not counted"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "           {count} {what}");
        }
    }
    text.push('\n');
    text.push_str(&latencies(results));
    let [prompt, output] = figures.tokens_per_second;
    let _ = writeln!(
        text,
        "Rates:     {} answers/s; {} prompt and {} answer tokens/s",
        number(figures.answers_per_second, 2),
        number(prompt, 0),
        number(output, 0)
    );
    text.push_str(&goodput(figures));
    text.push_str(&gap(results));
    text
}

/// A message on one line, truncated.
fn plain(message: &str) -> String {
    message.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(160).collect()
}

fn latencies(results: &Results) -> String {
    let figures = &results.figures;
    let mut rows = vec![("TTFT", figures.ttft)];
    if results.open {
        rows.push(("  from the actual sending", figures.ttft_from_sending));
    }
    rows.extend([("TPOT", figures.tpot), ("gap between tokens", figures.gap), ("E2E", figures.e2e)]);
    if results.open {
        rows.extend([("  from the actual sending", figures.e2e_from_sending), ("sent late by", figures.late)]);
    }
    let cells = rows.into_iter().filter(|(_, row)| row.count > 0).map(|(name, row)| {
        let ms = |seconds: f64| number(seconds * 1e3, 1);
        [name.to_owned(), ms(row.p50), ms(row.p90), ms(row.p95), ms(row.p99), ms(row.max), ms(row.mean)]
    });
    let mut text = output::numbers(["ms", "p50", "p90", "p95", "p99", "max", "mean"], cells);
    if figures.late.p99 > BEHIND * figures.e2e.p50 {
        text.push_str(
            "NOTE       This client fell behind, and its delay is included above. Use more machines or a lower rate to measure the server\n           \
             alone.\n",
        );
    }
    text
}

fn goodput(figures: &Figures) -> String {
    if !figures.slo.is_some() {
        return String::new();
    }
    let limits = [("TTFT", figures.slo.ttft), ("TPOT", figures.slo.tpot), ("E2E", figures.slo.e2e)];
    let limits = limits.iter().filter_map(|(name, most)| Some(format!("{name} ≤ {:?}", (*most)?)));
    format!(
        "Goodput:   {} answers/s within {}: {} % of the requests\n",
        number(figures.goodput, 2),
        limits.collect::<Vec<_>>().join(" and "),
        number(figures.attainment * 100.0, 1)
    )
}

/// Difference between the gateway's latencies and the client's.
fn gap(results: &Results) -> String {
    let Some(Compared { ours, theirs, round_trip }) = &results.compared else {
        return "Gateway:   no Signalbox metrics to compare with\n".to_owned();
    };
    let mut text = String::new();
    for (name, ours, theirs) in [("TTFT", ours.ttft, theirs.ttft), ("E2E", ours.e2e, theirs.e2e)] {
        let (Some(mine), Some(its)) = (ours.mean(), theirs.mean()) else { continue };
        let title = if text.is_empty() { "Gateway:" } else { "" };
        let _ = writeln!(
            text,
            "{title:<11}mean {name} {} ms there, {} ms here from the actual sending: a gap of {} ms ({} %)",
            number(its * 1e3, 2),
            number(mine * 1e3, 2),
            number((mine - its) * 1e3, 2),
            number((mine / its - 1.0) * 100.0, 1)
        );
        if ours.count != theirs.count {
            let _ = writeln!(
                text,
                "           NOT the same requests: {} there, {} here; it has other clients, or requests were dropped",
                theirs.count, ours.count
            );
        }
    }
    if !text.is_empty() {
        let _ = writeln!(
            text,
            "           Sums and counts are exact: the gap is the network round trip (at least {} ms) and this client's own time.",
            number(round_trip * 1e3, 2)
        );
    }
    text
}

/// All figures, in seconds; missing ones are `null`.
pub(super) fn json(results: &Results) -> Value {
    let figures = &results.figures;
    let failures = figures.failures.iter().map(|(kind, seen)| {
        let failure = json!({ "count": seen.count, "example": seen.example });
        (kind.clone(), failure)
    });
    let slo = figures.slo.is_some().then(|| {
        json!({
            "ttft_s": figures.slo.ttft.map(|most| most.as_secs_f64()),
            "tpot_s": figures.slo.tpot.map(|most| most.as_secs_f64()),
            "e2e_s": figures.slo.e2e.map(|most| most.as_secs_f64()),
            "goodput_per_s": figures.goodput,
            "attainment": figures.attainment,
        })
    });
    json!({
        "target": results.target,
        "model": results.model,
        "load": results.load,
        "loop": if results.open { "open" } else { "closed" },
        "simulated": figures.simulated,
        "requests": figures.requests,
        "answered": figures.requests - figures.failed,
        "failed": figures.failed,
        "failures": failures.collect::<Map<_, _>>(),
        "warmup_requests": figures.warmup,
        "unfinished": figures.unfinished,
        "replayed": figures.replayed,
        "answers_without_usage": figures.uncounted,
        "seconds": figures.seconds,
        "ttft_s": row(&figures.ttft),
        "ttft_from_sending_s": row(&figures.ttft_from_sending),
        "tpot_s": row(&figures.tpot),
        "gap_s": row(&figures.gap),
        "e2e_s": row(&figures.e2e),
        "e2e_from_sending_s": row(&figures.e2e_from_sending),
        "late_s": row(&figures.late),
        "prompt_tokens": figures.tokens[0],
        "answer_tokens": figures.tokens[1],
        "answers_per_s": figures.answers_per_second,
        "prompt_tokens_per_s": figures.tokens_per_second[0],
        "answer_tokens_per_s": figures.tokens_per_second[1],
        "slo": slo,
        "gateway": results.compared.as_ref().map(|Compared { ours, theirs, round_trip }| json!({
            "round_trip_s": round_trip,
            "ttft": compared(ours.ttft, theirs.ttft),
            "e2e": compared(ours.e2e, theirs.e2e),
        })),
    })
}

fn row(row: &Row) -> Value {
    json!({
        "count": row.count,
        "mean": row.mean,
        "p50": row.p50,
        "p90": row.p90,
        "p95": row.p95,
        "p99": row.p99,
        "max": row.max,
    })
}

fn compared(ours: Seen, theirs: Seen) -> Value {
    let gap = ours.mean().zip(theirs.mean()).map(|(ours, theirs)| ours - theirs);
    json!({
        "same_requests": ours.count == theirs.count,
        "client": { "count": ours.count, "mean_s": ours.mean() },
        "gateway": { "count": theirs.count, "mean_s": theirs.mean() },
        "gap_s": gap,
    })
}
