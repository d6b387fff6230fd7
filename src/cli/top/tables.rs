//! Content of the screens as lines of text, for the terminal and for `--once`.

use super::{
    sheet::{Align::Number, Align::Words, Column, Sheet, TextLine, Tone},
    state::{
        Attempt, Candidate, DecisionState, Line, PoolState, Quantiles, State, all_backends, decision_reason,
        decision_result, decision_way, health_verdict, objectives_worst_first,
    },
    words::{NONE, ago, count, dollars, known, millis, percent, plain, rate, seconds},
};
use signalbox_server::state::{CacheTier, Level};
use signalbox_telemetry::SloLive;

/// Problems that are listed.
const TROUBLES: usize = 4;

/// Health, with the problems.
pub(super) fn verdict(state: &State) -> Vec<TextLine> {
    let tone = |level: Level| match level {
        Level::Bad => Tone::Bad,
        Level::Warn => Tone::Warn,
        Level::Ok => Tone::Good,
    };
    let sign = match state.health.level {
        Level::Bad => "✖",
        Level::Warn => "▲",
        Level::Ok => "●",
    };
    let troubles = &state.health.troubles;
    let named = troubles.iter().take(TROUBLES);
    let named = named.map(|it| {
        let word = if it.level == Level::Bad { "Bad " } else { "Look" };
        TextLine::new(format!("  {word} {}", it.words), tone(it.level))
    });
    let more = troubles.len().saturating_sub(TROUBLES);
    let more = (more > 0).then(|| TextLine::new(format!("  and {more} more"), Tone::Soft));
    let head = TextLine::new(format!("{sign} {}", health_verdict(state)), tone(state.health.level));
    [head].into_iter().chain(named).chain(more).collect()
}

/// Totals of the gateway: throughput and cache.
pub(super) fn facts(state: &State, width: usize) -> Vec<TextLine> {
    let waiting: u64 = state.pools.iter().map(|pool| pool.queue.depth).sum();
    let tokens: f64 = all_backends(state).map(|(_, backend)| backend.tokens_per_s).sum();
    let mut through = vec![
        format!("{} requests/s ({})", rate(state.requests.per_second), count(state.requests.total)),
        format!("{} in flight", count(state.in_flight)),
        format!("{} waiting", count(waiting)),
        format!("{} tokens/s", rate(tokens)),
    ];
    if let Some(cost) = &state.cost {
        through.push(format!("{}/h", dollars(cost.usd_per_hour)));
        through.extend(cost.usd_per_million_output.map(|usd| format!("{}/M out", dollars(usd))));
    }
    let mut reused = Vec::new();
    if let Some(prefix) = &state.prefix {
        reused.push(format!("prefix {} (foreseen {})", percent(prefix.reported), percent(prefix.predicted)));
    }
    if let Some(cache) = &state.cache {
        let tier = |it: &CacheTier| {
            let rate = known(it.hit_rate, percent);
            format!("{} {rate} of {}", it.tier, count(it.lookups))
        };
        reused.extend(cache.tiers.iter().map(tier));
        if let Some(of) = cache.false_hits.as_ref().filter(|of| of.labels >= 1.0) {
            let (rate, lower, upper) = (percent(of.rate), percent(of.lower), percent(of.upper));
            reused.push(format!("false hits {rate} ({lower} to {upper})"));
        }
        reused.push(format!("saved {}", dollars(cache.saved_usd.max(0.0))));
    }
    if let Some(first) = reused.first_mut() {
        first.insert_str(0, "reused: ");
    }
    let through = joined(&through, width).into_iter().map(|text| TextLine::new(text, Tone::Plain));
    through.chain(joined(&reused, width).into_iter().map(|text| TextLine::new(text, Tone::Soft))).collect()
}

/// Joins `parts` into as few lines as possible.
fn joined(parts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut().filter(|line| line.chars().count() + 3 + part.chars().count() <= width) {
            Some(line) => line.extend([" · ", part]),
            None => lines.push(part.clone()),
        }
    }
    lines
}

/// Table of pools.
pub(super) fn pools(state: &State) -> Sheet<14> {
    let columns = [
        Column("POOL", Words, 0),
        Column("share", Number, 0),
        Column("flight", Number, 0),
        Column("queue", Number, 0),
        Column("TTFT p50", Number, 0),
        Column("p95", Number, 0),
        Column("p99", Number, 3),
        Column("predicted", Number, 4),
        Column("seen", Number, 4),
        Column("TPOT p50", Number, 0),
        Column("p95", Number, 0),
        Column("p99", Number, 3),
        Column("$/h", Number, 5),
        Column("state", Words, 6),
    ];
    let row = |pool: &PoolState| {
        let [ttft50, ttft95, ttft99] = quantiles(pool.ttft.as_ref());
        let [tpot50, tpot95, tpot99] = quantiles(pool.tpot.as_ref());
        let foreseen = pool.foreseen.as_ref();
        let flight = pool.backends.iter().map(|backend| u64::from(backend.in_flight)).sum();
        let diagnosis = pool.diagnosis.as_ref().map_or(String::new(), |it| plain(&it.state));
        let tone = match pool.backends.iter().filter(|backend| backend.state == "down").count() {
            0 if pool.queue.depth > 0 => Tone::Warn,
            0 => Tone::Plain,
            _ => Tone::Bad,
        };
        let cells = [
            pool.name.to_string(),
            known(pool.recent_share, percent),
            count(flight),
            count(pool.queue.depth),
            ttft50,
            ttft95,
            ttft99,
            known(foreseen.map(|it| it.predicted_s), seconds),
            known(foreseen.map(|it| it.seen_s), seconds),
            tpot50,
            tpot95,
            tpot99,
            known(pool.cost.as_ref().map(|cost| cost.usd_per_hour), dollars),
            diagnosis,
        ];
        (cells, tone)
    };
    Sheet { columns, rows: state.pools.iter().map(row).collect() }
}

/// Further figures of the pool at this index, in words.
pub(super) fn pool_words(state: &State, at: usize) -> Vec<TextLine> {
    let Some(pool) = state.pools.get(at) else { return Vec::new() };
    let mut words = Vec::new();
    if let Some(diagnosis) = &pool.diagnosis {
        words.push(format!("{}: {}", diagnosis.state, diagnosis.words));
    }
    if let Some(saturation) = pool.saturation {
        words.push(format!("saturation {}", percent(saturation)));
    }
    if let Some(foreseen) = &pool.foreseen {
        let (predicted, seen) = (seconds(foreseen.predicted_s), seconds(foreseen.seen_s));
        let off = foreseen.error.map_or(String::new(), |error| format!(", off by {} on average", percent(error)));
        words.push(format!("TTFT predicted {predicted}, seen {seen}{off}"));
    }
    if let Some(hidden) = pool.hidden_queue_ms.filter(|hidden| *hidden > 1.0) {
        words.push(format!("hidden queue {}", millis(hidden)));
    }
    if let Some(usd) = pool.cost.as_ref().and_then(|cost| cost.usd_per_million_output) {
        words.push(format!("{} per million output tokens", dollars(usd)));
    }
    if pool.queue.depth > 0 {
        words.push(format!("{} wait here, the first for {}", count(pool.queue.depth), seconds(pool.queue.oldest_s)));
    }
    words.into_iter().map(|words| TextLine::new(format!("{}: {words}", pool.name), Tone::Soft)).collect()
}

/// Table of the `most` worst objectives.
pub(super) fn objectives(state: &State, most: usize) -> Sheet<9> {
    let columns = [
        Column("OBJECTIVE", Words, 0),
        Column("of", Words, 0),
        Column("state", Words, 0),
        Column("kept", Number, 0),
        Column("target", Number, 2),
        Column("burn 5m", Number, 1),
        Column("1h", Number, 0),
        Column("6h", Number, 3),
        Column("left", Number, 0),
    ];
    let times = |burn: f64| format!("{burn:.1}x");
    let row = |(of, slo): (String, &SloLive)| {
        let tone = match &*slo.state {
            "exhausted" => Tone::Bad,
            "burning" | "missing" => Tone::Warn,
            _ => Tone::Plain,
        };
        let asked = slo.total > 0;
        let kept = asked.then(|| slo.good as f64 / slo.total as f64);
        let cells = [
            plain(&slo.objective),
            of,
            if asked { slo.state.to_string() } else { "no traffic".to_owned() },
            known(kept, |kept| format!("{:.1}%", kept * 100.0)),
            format!("{:.1}%", slo.target * 100.0),
            times(slo.burn.over("5m")),
            times(slo.burn.over("1h")),
            times(slo.burn.over("6h")),
            percent(slo.budget_left),
        ];
        (cells, tone)
    };
    Sheet { columns, rows: objectives_worst_first(state).into_iter().take(most).map(row).collect() }
}

/// Table of the last decisions.
pub(super) fn decisions(state: &State) -> Sheet<11> {
    let columns = [
        Column("ENDED", Number, 0),
        Column("model", Words, 1),
        Column("way", Words, 0),
        Column("why", Words, 3),
        Column("outcome", Words, 0),
        Column("TTFT", Number, 0),
        Column("predicted", Number, 2),
        Column("TPOT", Number, 4),
        Column("whole", Number, 1),
        Column("in", Number, 5),
        Column("out", Number, 5),
    ];
    let row = |it: &DecisionState| {
        let tone = match &*it.outcome {
            "ok" => Tone::Plain,
            "client_gone" => Tone::Warn,
            _ => Tone::Bad,
        };
        let tokens = |tokens: Option<u64>| tokens.map_or_else(|| NONE.to_owned(), count);
        let cells = [
            ago(it.age_s - it.e2e_ms / 1e3),
            it.model.clone().unwrap_or_else(|| NONE.to_owned()),
            decision_way(it),
            decision_reason(it),
            decision_result(it),
            known(it.ttft_ms, millis),
            known(it.predicted_ttft_ms, millis),
            known(it.tpot_ms, millis),
            millis(it.e2e_ms),
            tokens(it.prompt_tokens),
            tokens(it.completion_tokens),
        ];
        (cells, tone)
    };
    Sheet { columns, rows: state.decisions.iter().map(row).collect() }
}

/// One decision with all candidates and their costs.
pub(super) fn decision(line: &Line, width: usize) -> Vec<TextLine> {
    let plainly = |text: String| TextLine::new(text, Tone::Plain);
    let mut lines = vec![plainly(format!(
        "{}, route {}, about {} prompt tokens",
        line.model.as_deref().unwrap_or(NONE),
        line.route.as_deref().unwrap_or(NONE),
        count(line.estimated_prompt_tokens)
    ))];
    if let Some(reused) = &line.reused {
        lines.push(plainly(format!("cache: {} {}", plain(&reused.result), plain(&reused.reason))));
    }
    if let Some(admission) = &line.admission {
        let waited = millis(admission.waited_ms);
        lines.push(plainly(format!("admission: {} to {}, after {waited}", plain(&admission.result), admission.pool)));
    }
    let cost = line.cost_usd.map_or(String::new(), |usd| format!(", {}", dollars(usd)));
    let (ttft, tpot, whole) = (known(line.ttft_ms, millis), known(line.tpot_ms, millis), millis(line.e2e_ms));
    let outcome = plain(&line.outcome);
    lines.push(plainly(format!("{} {outcome}: TTFT {ttft}, TPOT {tpot}, whole {whole}{cost}", line.status)));
    for (at, attempt) in line.attempts.iter().enumerate() {
        lines.push(TextLine::default());
        lines.extend(attempted(at, attempt, line.answered == Some(at), width));
    }
    lines
}

fn attempted(at: usize, attempt: &Attempt, answered: bool, width: usize) -> Vec<TextLine> {
    let Attempt { pool, backend, reason, outcome, ttft_ms, predicted, .. } = attempt;
    let answered = if answered { ", which answered" } else { "" };
    let outcome = outcome.as_deref().map_or_else(|| "under way".to_owned(), plain);
    let mut lines = vec![
        TextLine::new(format!("Attempt {}: {pool} > {backend}, {}{answered}", at + 1, plain(reason)), Tone::Head),
        TextLine::new(
            format!(
                "{outcome}; first token after {}, predicted {} (p90 {}); {} tokens expected",
                known(*ttft_ms, millis),
                millis(predicted.ttft_ms),
                millis(predicted.ttft_p90_ms),
                count(predicted.output_tokens)
            ),
            Tone::Plain,
        ),
    ];
    if !attempt.full.is_empty() {
        lines.push(TextLine::new(format!("had no room: {}", attempt.full.join(", ")), Tone::Warn));
    }
    lines.extend(candidates(attempt).lines(width));
    lines
}

fn candidates(attempt: &Attempt) -> Sheet<11> {
    let columns = [
        Column("CANDIDATE", Words, 0),
        Column("cost", Number, 0),
        Column("TTFT", Number, 0),
        Column("p90", Number, 0),
        Column("kept", Number, 3),
        Column("flight", Number, 0),
        Column("decoding", Number, 4),
        Column("queued", Number, 1),
        Column("compute", Number, 0),
        Column("cached", Number, 1),
        Column("busy", Number, 2),
    ];
    let mut all: Vec<_> = attempt.candidates.iter().collect();
    all.sort_by(|one, other| {
        let cost = |it: &Candidate| it.cost.unwrap_or(f64::INFINITY);
        cost(one).total_cmp(&cost(other))
    });
    let row = |it: &Candidate| {
        let chosen = it.backend == attempt.backend;
        let tone = match (chosen, it.avoided) {
            (true, _) => Tone::Good,
            (_, true) => Tone::Warn,
            _ => Tone::Plain,
        };
        let sign = if chosen { "> " } else { "  " };
        let cells = [
            format!("{sign}{}", it.backend),
            known(it.cost, |cost| format!("{cost:.0}")),
            millis(it.ttft_ms),
            millis(it.ttft_p90_ms),
            percent(it.attainment),
            count(it.in_flight),
            count(it.decoding),
            count(it.queued_tokens),
            count(it.uncached_tokens),
            count(it.cached_tokens),
            percent(it.utilisation),
        ];
        (cells, tone)
    };
    Sheet { columns, rows: all.into_iter().map(row).collect() }
}

pub(super) fn quantiles(of: Option<&Quantiles>) -> [String; 3] {
    of.map_or_else(|| [NONE; 3].map(str::to_owned), |of| [of.p50, of.p95, of.p99].map(seconds))
}
