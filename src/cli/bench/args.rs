//! Arguments of `signalbox bench`.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, ValueEnum, value_parser};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::super::{
    explain::header,
    share::share,
    simulate::{TraceFormat, time},
};
use signalbox_loadgen::{Arrivals, Lengths, MOST_REQUESTS, Slo};

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("load").required(true).args(["rate", "trace", "concurrency"])))]
#[command(group(ArgGroup::new("form").args(["stream", "whole"])))]
pub(crate) struct Args {
    /// URL of the server, or of its API
    #[arg(long, default_value = "http://127.0.0.1:4100")]
    pub(super) url: String,
    /// Model to request [default: `auto` if the server lists it, else its first model]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// API key [default: `SIGNALBOX_KEY`, else `OPENAI_API_KEY`]
    #[arg(long)]
    pub(super) key: Option<String>,
    /// Requests per second, independent of earlier answers (open loop)
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    pub(super) rate: Option<f64>,
    /// Distribution of arrivals: independent, or in equal steps
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["trace", "concurrency"])]
    pub(super) arrivals: Spread,
    /// Replay recorded traffic, gzip or plain; `excerpt` for synthetic arrivals (open loop)
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Format of the trace
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["rate", "concurrency"])]
    pub(super) trace_format: TraceFormat,
    /// Speed relative to the recording
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = positive, conflicts_with_all = ["rate", "concurrency"])]
    pub(super) speed: f64,
    /// Concurrent requests, each sent when another is done (closed loop)
    #[arg(long, value_name = "REQUESTS", value_parser = value_parser!(u32).range(1..=100_000))]
    pub(super) concurrency: Option<u32>,
    /// Tokens of each prompt: a number, or a range such as 100..2000
    #[arg(long, value_name = "TOKENS", default_value = "512", conflicts_with = "trace")]
    pub(super) prompt_tokens: Lengths,
    /// Tokens of each answer, likewise
    #[arg(long, value_name = "TOKENS", default_value = "128", conflicts_with = "trace")]
    pub(super) output_tokens: Lengths,
    /// Duration after the warm-up [default: 30s, or all of a trace, unless `--requests` is given]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) duration: Option<Duration>,
    /// Most requests after the warm-up
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u64).range(1..=MOST_REQUESTS))]
    pub(super) requests: Option<u64>,
    /// Duration of the warm-up, which is not counted
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) warmup: Option<Duration>,
    /// Request streams [default, unless a journal says otherwise]
    #[arg(long)]
    pub(super) stream: bool,
    /// Request complete answers without streaming
    #[arg(long)]
    pub(super) whole: bool,
    /// Limit on the time to first token
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_ttft: Option<Duration>,
    /// Limit on the time per further token
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_tpot: Option<Duration>,
    /// Limit on the time to the end of an answer
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_e2e: Option<Duration>,
    /// Share of requests that may fail, such as 1%; above it the exit code is 1, as it always is where all failed
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) max_failed: Option<f64>,
    /// Time limit of an answer
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(super) timeout: Duration,
    /// Most connections in an open loop; requests beyond them wait and count as late
    #[arg(long, value_name = "COUNT", default_value = "4096", value_parser = value_parser!(u32).range(1..=100_000))]
    pub(super) connections: u32,
    /// Seed of arrivals, lengths and prompts
    #[arg(long, default_value = "1", value_parser = value_parser!(u64).range(0..1 << 40))]
    pub(super) seed: u64,
    /// Additional members of each body, such as `{"ignore_eos": true}`; `null` removes one
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object)]
    pub(super) body: Members,
    /// Additional header, such as `x-signalbox-class: batch`; may be repeated
    #[arg(long, short = 'H', value_parser = header)]
    pub(super) header: Vec<(HeaderName, HeaderValue)>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    /// The objective.
    pub(super) fn slo(&self) -> Slo {
        Slo { ttft: self.slo_ttft, tpot: self.slo_tpot, e2e: self.slo_e2e }
    }

    /// True without streaming; `None` if not set.
    pub(super) fn form(&self) -> Option<bool> {
        (self.stream || self.whole).then_some(self.whole)
    }

    /// API key from the command line or the environment.
    pub(super) fn key(&self) -> Option<String> {
        let named = |name| std::env::var(name).ok().filter(|key| !key.is_empty());
        self.key.clone().or_else(|| named("SIGNALBOX_KEY")).or_else(|| named("OPENAI_API_KEY"))
    }

    /// Base URL of the API and root of the server: `/v1` is added to a bare address.
    pub(super) fn addresses(&self) -> Result<(String, String), String> {
        let wrong = || format!("`{}` is not an address such as http://127.0.0.1:4100", self.url);
        let uri: http::Uri = self.url.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let (Some("http" | "https"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong());
        };
        let root = format!("{}://{authority}", uri.scheme_str().unwrap_or_default());
        let path = uri.path().trim_end_matches('/');
        let base = format!("{root}{}", if path.is_empty() { "/v1" } else { path });
        Ok((base, root))
    }
}

/// Distribution of arrivals at a rate.
#[derive(Copy, Clone, Debug, Default, ValueEnum)]
pub(super) enum Spread {
    /// Independent arrivals (Poisson)
    #[default]
    Poisson,
    /// Equal steps
    Constant,
}

impl Spread {
    pub(super) const fn arrivals(self) -> Arrivals {
        match self {
            Self::Poisson => Arrivals::Poisson,
            Self::Constant => Arrivals::Constant,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
        }
    }
}

/// Members of a body.
#[derive(Clone, Debug)]
pub(super) struct Members(pub(super) Map<String, Value>);

fn object(text: &str) -> Result<Members, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(Members(members)),
        Ok(_) => Err("write a JSON object, such as '{\"ignore_eos\": true}'".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn positive(text: &str) -> Result<f64, &'static str> {
    let number = text.trim().parse().ok().filter(|number| (1e-3..=1e5).contains(number));
    number.ok_or("write a number from 0.001 to 100000, such as `2.5`")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn read(line: &str) -> Result<Args, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn one_kind_of_load_is_asked_for() {
        assert!(read("").unwrap_err().contains("--rate"));
        assert!(read("--rate 1 --concurrency 2").is_err());
        assert!(read("--trace excerpt --prompt-tokens 5").is_err(), "a trace knows its lengths");
        assert!(read("--concurrency 2 --speed 2").is_err() && read("--trace excerpt --speed 2").is_ok());
        assert!(read("--trace excerpt --arrivals constant").is_err() && read("--rate 1 --trace-format azure").is_err());
        assert!(read("--rate 1 --stream --whole").is_err());
        for (line, form) in [("--rate 2.5", None), ("--rate 1 --whole", Some(true)), ("--rate 1 --stream", Some(false))]
        {
            assert_eq!(read(line).unwrap().form(), form);
        }
        for wrong in ["--rate 0", "--rate -1", "--rate nan", "--rate 1 --body []", "--rate 1 --requests 2000000"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mere_address_is_completed() {
        let addresses = |url: &str| read(&format!("--rate 1 --url {url}")).unwrap().addresses();
        let both = |base: &str, root: &str| Ok((base.to_owned(), root.to_owned()));
        assert_eq!(addresses("http://h:1"), both("http://h:1/v1", "http://h:1"));
        assert_eq!(addresses("http://h:1/"), both("http://h:1/v1", "http://h:1"));
        assert_eq!(addresses("https://h/openai/v1/"), both("https://h/openai/v1", "https://h"));
        for wrong in ["h:1", "localhost", "ftp://h", "http://"] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }
}
