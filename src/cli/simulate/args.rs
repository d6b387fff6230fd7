//! Arguments of `signalbox simulate`.

use std::{path::PathBuf, str::FromStr, time::Duration};

use clap::{ValueEnum, value_parser};

use signalbox_config::Scalar;
use signalbox_sim::recording::Format;

/// Number of rates in a range.
const POINTS: u32 = 7;

/// Arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recorded traffic, gzip or plain; `excerpt` for synthetic arrivals
    #[arg(long, value_name = "FILE")]
    pub(super) trace: PathBuf,
    /// Format of the trace
    #[arg(long, value_enum, default_value_t)]
    pub(super) trace_format: TraceFormat,
    /// A policy to play; give several to compare them
    #[arg(long = "policy", value_name = "FILE", required = true)]
    pub(super) policies: Vec<PathBuf>,
    /// Model that clients ask for [default: the first model of each policy]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// Route of the model for every request [default: by the model's rules]
    #[arg(long, value_name = "NAME")]
    pub(super) route: Option<String>,
    /// Plays of each policy, each with another part and order of the traffic
    #[arg(long, default_value_t = 8, value_parser = value_parser!(u64).range(1..=1000))]
    pub(super) seeds: u64,
    /// Multiples of the recorded load: one, such as 1.5, or a range, such as 0.5..2
    #[arg(long, default_value = "1")]
    pub(super) rate: Rates,
    /// Profiles of the engines, and events during the run
    #[arg(long, value_name = "FILE")]
    pub(super) engines: Option<PathBuf>,
    /// Limit on the time to first token [default: the pool's objective; else 1 s, or 2.5 times an idle engine's]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_ttft: Option<Duration>,
    /// Limit on the time per further token [default: the pool's objective; else 50ms]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_tpot: Option<Duration>,
    /// Longest time over which a play accepts requests, in simulated time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time)]
    pub(super) limit: Duration,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Draw the figures into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
}

/// Format of a trace.
#[derive(Copy, Clone, Debug, Default, ValueEnum)]
pub(in crate::cli) enum TraceFormat {
    /// Detect it from the first line
    #[default]
    Auto,
    /// CSV: TIMESTAMP,ContextTokens,GeneratedTokens
    Azure,
    /// JSON lines with `timestamp`, `input_length`, `output_length`, `hash_ids`
    Mooncake,
    /// A journal of this gateway
    Journal,
}

impl TraceFormat {
    pub(in crate::cli) const fn named(self) -> Option<Format> {
        match self {
            Self::Auto => None,
            Self::Azure => Some(Format::Azure),
            Self::Mooncake => Some(Format::Mooncake),
            Self::Journal => Some(Format::Journal),
        }
    }
}

/// Multiples of the recorded load, ascending.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rates(pub(super) Vec<f64>);

impl FromStr for Rates {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rate = |text: &str| {
            let rate = text.trim().parse().ok().filter(|rate| (0.01..=1000.0).contains(rate));
            rate.ok_or("write a number from 0.01 to 1000, such as `1.5`, or a range of them, such as `0.5..2`")
        };
        let Some((from, to)) = text.split_once("..") else { return Ok(Self(vec![rate(text)?])) };
        let (from, to): (f64, f64) = (rate(from)?, rate(to)?);
        if from >= to {
            return Err("a range goes from the lower rate to the higher one, such as `0.5..2`");
        }
        // Equal steps on a logarithmic scale, with exact ends.
        let step = (to / from).ln() / f64::from(POINTS - 1);
        let inner = (1..POINTS - 1).map(|point| from * (step * f64::from(point)).exp());
        Ok(Self(std::iter::once(from).chain(inner).chain([to]).collect()))
    }
}

/// Parses a time such as `800ms`.
pub(in crate::cli) fn time(text: &str) -> Result<Duration, String> {
    Duration::read(text).map_err(|mistake| {
        let help = mistake.help.map(|help| format!("; {help}")).unwrap_or_default();
        format!("{}{help}", mistake.message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_one_or_seven() {
        assert_eq!("1.5".parse(), Ok(Rates(vec![1.5])));
        let Rates(rates) = "0.5..2".parse().unwrap();
        assert_eq!((rates.len(), rates[0], rates[6]), (7, 0.5, 2.0));
        assert!((rates[3] - 1.0).abs() < 1e-9, "{rates:?}");
        for wrong in ["", "x", "0", "-1", "inf", "nan", "2..1", "1..1", "1..", "..2", "1..2..3", "1e9"] {
            assert!(wrong.parse::<Rates>().is_err(), "{wrong}");
        }
    }
}
