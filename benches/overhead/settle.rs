//! Reads a gateway's settle time, the work after an answer has ended, from its metrics.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
};

/// The metric to read.
const METRIC: &str = "signalbox_settle_seconds";

/// Settle times of one model's answers.
#[derive(Clone, serde::Serialize)]
pub(crate) struct Settled {
    #[serde(rename = "way")]
    pub(crate) target: &'static str,
    pub(crate) model: String,
    pub(crate) answers: u64,
    /// Mean in microseconds.
    pub(crate) mean: f64,
    /// Upper bounds of the buckets that hold the 50th and 99th percentile, in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Reads the metric from the admin listener at `admin`.
pub(crate) fn read(admin: SocketAddr, target: &'static str) -> io::Result<Vec<Settled>> {
    let mut stream = TcpStream::connect(admin)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(parse(&text, target))
}

fn parse(text: &str, target: &'static str) -> Vec<Settled> {
    let of = |suffix: &'static str| {
        let lines = text.lines().filter_map(move |line| line.strip_prefix(METRIC)?.strip_prefix(suffix));
        lines.filter_map(|line| {
            let (labels, value) = line.strip_prefix('{')?.rsplit_once("} ")?;
            Some((label(labels, "model")?, labels, value.parse::<f64>().ok()?))
        })
    };
    let sums = of("_sum").filter_map(|(model, _, sum)| {
        let (_, _, count) = of("_count").find(|(other, ..)| *other == model).filter(|(.., count)| *count > 0.0)?;
        let bucket = |share: f64| {
            let bound = of("_bucket").find(|(other, _, below)| *other == model && *below >= share * count);
            bound.and_then(|(_, labels, _)| label(labels, "le")?.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1e6
        };
        let (p50, p99) = (bucket(0.5), bucket(0.99));
        Some(Settled { target, model: model.to_owned(), answers: count as u64, mean: sum / count * 1e6, p50, p99 })
    });
    sums.collect()
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut all = labels.split(',').filter_map(|label| label.split_once('='));
    all.find(|(label, _)| *label == name).map(|(_, value)| value.trim_matches('"'))
}
