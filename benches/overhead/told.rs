//! What a gateway's own metrics say of the time that it takes to note an answer once it is over.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
};

/// The metric that is read.
const METRIC: &str = "signalbox_settle_seconds";

/// What noting the answers of one model took.
#[derive(Clone, serde::Serialize)]
pub(crate) struct Noted {
    pub(crate) way: &'static str,
    pub(crate) model: String,
    pub(crate) answers: u64,
    /// Microseconds, a mean.
    pub(crate) mean: f64,
    /// Half of all, and 99 in 100, took no longer, in microseconds; to the bound of a bucket.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// Reads it from the gateway whose admin listener is at `admin`.
pub(crate) fn read(admin: SocketAddr, way: &'static str) -> io::Result<Vec<Noted>> {
    let mut stream = TcpStream::connect(admin)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(parse(&text, way))
}

fn parse(text: &str, way: &'static str) -> Vec<Noted> {
    let of = |suffix: &'static str| {
        let lines = text.lines().filter_map(move |line| line.strip_prefix(METRIC)?.strip_prefix(suffix));
        lines.filter_map(|line| {
            let (labels, value) = line.strip_prefix('{')?.rsplit_once("} ")?;
            Some((label(labels, "model")?, labels, value.parse::<f64>().ok()?))
        })
    };
    let sums = of("_sum").filter_map(|(model, _, sum)| {
        let (_, _, count) = of("_count").find(|(other, ..)| *other == model).filter(|(.., count)| *count > 0.0)?;
        let within = |share: f64| {
            let bound = of("_bucket").find(|(other, _, below)| *other == model && *below >= share * count);
            bound.and_then(|(_, labels, _)| label(labels, "le")?.parse::<f64>().ok()).unwrap_or(f64::NAN) * 1e6
        };
        let (p50, p99) = (within(0.5), within(0.99));
        Some(Noted { way, model: model.to_owned(), answers: count as u64, mean: sum / count * 1e6, p50, p99 })
    });
    sums.collect()
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut all = labels.split(',').filter_map(|label| label.split_once('='));
    all.find(|(label, _)| *label == name).map(|(_, value)| value.trim_matches('"'))
}
