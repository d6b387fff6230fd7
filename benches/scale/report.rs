//! Tables of the figures.

use std::{fmt, time::Duration};

/// Figures of a dimension.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) rows: Vec<Row>,
}

/// Figures of a point.
pub(crate) struct Row {
    pub(crate) value: u64,
    /// Requests per second of all clients.
    pub(crate) rate: f64,
    /// Processor time of the gateway per request.
    pub(crate) cpu: Duration,
    /// Added latency of one client: differences of the medians and of the 99th percentiles.
    pub(crate) added: [Duration; 2],
    /// Resident memory in MB at the start, and at the end.
    pub(crate) empty: f64,
    pub(crate) resident: f64,
    pub(crate) metrics_bytes: usize,
    pub(crate) metrics_time: Duration,
    /// Time until the gateway was ready.
    pub(crate) started: Duration,
}

impl Table {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, rows: Vec::new() }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| {} | requests/s | CPU, µs | added p50, µs | added p99, µs | memory at start, MB | at end | `/metrics`, kB | ms | ready after, ms |",
            self.name
        )?;
        writeln!(f, "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")?;
        for row in &self.rows {
            let micros = |time: Duration| time.as_secs_f64() * 1e6;
            let [p50, p99] = row.added.map(micros);
            writeln!(
                f,
                "| {} | {} | {:.0} | {p50:.0} | {p99:.0} | {:.0} | {:.0} | {} | {:.1} | {} |",
                grouped(row.value),
                grouped(row.rate as u64),
                micros(row.cpu),
                row.empty,
                row.resident,
                grouped(row.metrics_bytes as u64 / 1000),
                row.metrics_time.as_secs_f64() * 1e3,
                grouped(row.started.as_millis() as u64)
            )?;
        }
        Ok(())
    }
}

/// A number with commas between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
