//! The table of backends, with pools that are folded into a row.

use super::{
    sheet::{Align::Number, Align::Words, Column, Sheet, Tone},
    state::{
        BackendState, LeavingState, PoolState, State, backend_words, leaving_backends, leaving_cells, leaving_tone,
    },
    tables::quantiles,
    words::{NONE, count, known, percent, rate},
};

/// A row of the table of backends: one of them, or a pool that is folded.
pub(super) struct BackendRow {
    pub pool: String,
    pub cells: [String; 15],
    pub tone: Tone,
}

/// Table of all backends.
pub(super) fn backends(state: &State) -> Sheet<15> {
    backend_sheet(backend_rows(state, &|_| false))
}

/// Table of backends with these rows.
pub(super) fn backend_sheet(rows: Vec<BackendRow>) -> Sheet<15> {
    let columns = [
        Column("BACKEND", Words, 0),
        Column("pool", Words, 5),
        Column("state", Words, 0),
        Column("share", Number, 4),
        Column("flight", Number, 0),
        Column("waiting", Number, 1),
        Column("queued", Number, 3),
        Column("TTFT p50", Number, 0),
        Column("p95", Number, 0),
        Column("p99", Number, 3),
        Column("TPOT p50", Number, 0),
        Column("tok/s", Number, 2),
        Column("KV", Number, 2),
        Column("GPU", Number, 3),
        Column("failed", Number, 0),
    ];
    Sheet { columns, rows: rows.into_iter().map(|row| (row.cells, row.tone)).collect() }
}

/// Rows of all backends, pool by pool; of a `folded` pool one row.
pub(super) fn backend_rows(state: &State, folded: &dyn Fn(&str) -> bool) -> Vec<BackendRow> {
    let of = |pool: &PoolState| -> Vec<BackendRow> {
        if folded(&pool.name) {
            return vec![folded_row(pool)];
        }
        pool.backends.iter().map(|backend| backend_row(&pool.name, backend)).collect()
    };
    let leaving = |(pool, backend): (&str, &LeavingState)| BackendRow {
        pool: pool.to_owned(),
        cells: leaving_cells(backend, pool),
        tone: leaving_tone(backend),
    };
    let open = leaving_backends(state).filter(|(pool, _)| !folded(pool));
    state.pools.iter().flat_map(of).chain(open.map(leaving)).collect()
}

fn folded_row(pool: &PoolState) -> BackendRow {
    let down = pool.backends.iter().filter(|backend| backend.state == "down").count();
    let [p50, p95, p99] = quantiles(pool.ttft.as_ref());
    let [tpot, ..] = quantiles(pool.tpot.as_ref());
    let sum = |of: &dyn Fn(&BackendState) -> u64| count(pool.backends.iter().map(of).sum());
    let cells = [
        format!("▸ {} ({})", pool.name, pool.backends.len()),
        pool.name.to_string(),
        if down > 0 { format!("{down} DOWN") } else { "folded".to_owned() },
        known(pool.recent_share, percent),
        sum(&|it| it.in_flight.into()),
        count(pool.queue.depth),
        sum(&|it| it.queued_tokens),
        p50,
        p95,
        p99,
        tpot,
        rate(pool.backends.iter().map(|it| it.tokens_per_s).sum()),
        NONE.to_owned(),
        String::new(),
        sum(&|it| it.errors),
    ];
    BackendRow { pool: pool.name.to_string(), cells, tone: if down > 0 { Tone::Bad } else { Tone::Plain } }
}

fn backend_row(pool: &str, backend: &BackendState) -> BackendRow {
    let [p50, p95, p99] = quantiles(backend.ttft.as_ref());
    let [tpot, ..] = quantiles(backend.tpot.as_ref());
    let signals = backend.signals.as_ref();
    let tone = match &*backend.state {
        _ if backend.credential.as_ref().is_some_and(|it| it.refused == it.of) => Tone::Bad,
        _ if backend.credential.is_some() => Tone::Warn,
        "down" => Tone::Bad,
        "up" if backend.breaker != "half_open" => Tone::Plain,
        _ => Tone::Warn,
    };
    let cells = [
        backend.name.to_string(),
        pool.to_owned(),
        backend_words(backend),
        known(backend.share, percent),
        count(backend.in_flight.into()),
        known(signals.and_then(|it| it.waiting), |waiting| count(waiting as u64)),
        count(backend.queued_tokens),
        p50,
        p95,
        p99,
        tpot,
        rate(backend.tokens_per_s),
        known(signals.and_then(|it| it.kv_usage), percent),
        // Without any GPU exporter, the empty column is removed.
        backend.gpus.as_ref().and_then(|it| it.utilisation).map_or(String::new(), percent),
        count(backend.errors),
    ];
    BackendRow { pool: pool.to_owned(), cells, tone }
}
