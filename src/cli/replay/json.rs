//! Report as JSON.

use serde_json::{Map, Value, json};

use super::{
    engines::{Fleet, From, Machine},
    results::{Column, Results},
};
use signalbox_journal_replay::{Error, Tally};
use signalbox_sim::estimate::Estimate;

/// All figures; missing ones are `null`.
pub(super) fn json(results: &Results) -> Value {
    let Results { journal, entries, .. } = results;
    json!({
        "journal": {
            "files": journal.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>(),
            "lines": journal.len(),
            "requests": entries.all.len(),
            "span_s": entries.span().as_secs_f64(),
            "left_out": entries.left_out,
            "damaged": journal.damaged,
            "first_damage": journal.first_damage,
            "later": journal.later,
            "prompt_hashes": entries.has_blocks(),
        },
        "seeds": results.seeds,
        "happened": figures(results, &|of| json!(of(&results.happened))),
        "policies": results.columns.iter().zip(&results.fleets).map(|(column, fleet)| policy(results, column, fleet)).collect::<Vec<_>>(),
        "change": figures(results, &|of| json!(results.change(of))),
        "caveats": results.caveats,
    })
}

fn policy(results: &Results, column: &Column, fleet: &Fleet) -> Value {
    json!({
        "name": column.name,
        "file": column.file.display().to_string(),
        "hash": column.hash,
        "engines": fleet.engines.iter().map(engine).collect::<Vec<_>>(),
        "figures": figures(results, &|of| {
            let Estimate { mean, reach } = column.estimate(of);
            json!({ "mean": mean, "reach_95": reach })
        }),
        "not_known": column.missing,
        "most_at_once": column.busiest,
    })
}

fn engine(machine: &Machine) -> Value {
    let error = |error: Error| json!({ "bias": error.bias, "typical": error.typical });
    match &machine.from {
        From::Journal(learned) => json!({
            "name": machine.name,
            "from": "journal",
            "profile": learned.profile,
            "answers": learned.answers,
            "held_out": learned.held_out,
            "ttft_error": error(learned.ttft),
            "tpot_error": error(learned.tpot),
            "most_at_once": learned.most_at_once,
            "failing": learned.failing,
            "output_tokens_p50": learned.output_tokens,
        }),
        From::File(profile) => json!({ "name": machine.name, "from": "engines", "profile": profile }),
        From::Unknown(_) => json!({ "name": machine.name, "from": null }),
    }
}

type Of<'a> = &'a dyn Fn(&Tally) -> f64;

/// All figures, each as `value` computes it.
fn figures(results: &Results, value: &dyn Fn(Of<'_>) -> Value) -> Value {
    let shares: Map<String, Value> =
        results.pools().into_iter().map(|pool| (pool.clone(), value(&|tally| tally.share(&pool)))).collect();
    let part = |of: fn(&Tally) -> usize| move |tally: &Tally| of(tally) as f64 / tally.requests.max(1) as f64;
    json!({
        "shares": shares,
        "ttft_s": {
            "p50": value(&|tally| tally.ttft(0.5)), "p95": value(&|tally| tally.ttft(0.95)), "p99": value(&|tally| tally.ttft(0.99)),
        },
        "tpot_s": {
            "p50": value(&|tally| tally.tpot(0.5)), "p95": value(&|tally| tally.tpot(0.95)), "p99": value(&|tally| tally.tpot(0.99)),
        },
        "attainment": value(&|tally| tally.attainment),
        "cost_usd": value(&|tally| tally.cost.unwrap_or(f64::NAN)),
        "cached": value(&|tally| tally.cached),
        "kept": value(&part(|tally| tally.kept)),
        "refused": value(&part(Tally::refusals)),
        "failed": value(&part(|tally| tally.failed)),
    })
}
