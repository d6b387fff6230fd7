//! What `signalbox bench` is told on the command line.

use std::{path::PathBuf, time::Duration};

use clap::{ArgGroup, ValueEnum, value_parser};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::super::{
    explain::header,
    simulate::{TraceFormat, time},
};
use crate::loadgen::{Arrivals, Lengths, MOST_REQUESTS, Slo};

/// What the command line says.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("load").required(true).args(["rate", "trace", "concurrency"])))]
#[command(group(ArgGroup::new("form").args(["stream", "whole"])))]
pub(crate) struct Args {
    /// Where the server is, or the base of its API
    #[arg(long, default_value = "http://127.0.0.1:4100")]
    pub(super) url: String,
    /// What is asked for [default: `auto` where the server lists it, else the first that it lists]
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// The key [default: `SIGNALBOX_KEY`, else `OPENAI_API_KEY`]
    #[arg(long)]
    pub(super) key: Option<String>,
    /// So many requests a second, whether or not earlier ones are answered (open loop)
    #[arg(long, value_name = "PER_SECOND", value_parser = positive)]
    pub(super) rate: Option<f64>,
    /// How they are spread: independent of each other, or in equal steps
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["trace", "concurrency"])]
    pub(super) arrivals: Spread,
    /// Recorded traffic, gzip or not; `excerpt` for made-up arrivals (open loop)
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// How the traffic is written
    #[arg(long, value_enum, default_value_t, conflicts_with_all = ["rate", "concurrency"])]
    pub(super) trace_format: TraceFormat,
    /// How many times faster than recorded
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = positive, conflicts_with_all = ["rate", "concurrency"])]
    pub(super) speed: f64,
    /// So many requests at once, each sent when another is done (closed loop)
    #[arg(long, value_name = "REQUESTS", value_parser = value_parser!(u32).range(1..=100_000))]
    pub(super) concurrency: Option<u32>,
    /// Tokens of each prompt: a number, or a range such as 100..2000
    #[arg(long, value_name = "TOKENS", default_value = "512", conflicts_with = "trace")]
    pub(super) prompt_tokens: Lengths,
    /// Tokens of each answer, likewise
    #[arg(long, value_name = "TOKENS", default_value = "128", conflicts_with = "trace")]
    pub(super) output_tokens: Lengths,
    /// For how long requests are sent, after the warm-up [default: 30s, or all of a trace, unless `--requests` says how many]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) duration: Option<Duration>,
    /// How many requests are sent after the warm-up, at most
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u64).range(1..=MOST_REQUESTS))]
    pub(super) requests: Option<u64>,
    /// For how long requests are sent before they count
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) warmup: Option<Duration>,
    /// Ask for streams [default, unless a journal says otherwise]
    #[arg(long)]
    pub(super) stream: bool,
    /// Ask for whole answers
    #[arg(long)]
    pub(super) whole: bool,
    /// The time to first token that is asked for
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_ttft: Option<Duration>,
    /// The time per further token that is asked for
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) slo_tpot: Option<Duration>,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(super) timeout: Duration,
    /// Connections at once, in an open loop; what is due beyond them waits, and counts as late
    #[arg(long, value_name = "COUNT", default_value = "4096", value_parser = value_parser!(u32).range(1..=100_000))]
    pub(super) connections: u32,
    /// What arrivals, lengths and prompts are drawn by
    #[arg(long, default_value = "1", value_parser = value_parser!(u64).range(0..1 << 40))]
    pub(super) seed: u64,
    /// Members of each request's body, such as `{"ignore_eos": true}`; `null` leaves one out
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object)]
    pub(super) body: Members,
    /// A header of each request, such as `x-signalbox-class: batch`; may be given more than once
    #[arg(long, short = 'H', value_parser = header)]
    pub(super) header: Vec<(HeaderName, HeaderValue)>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Args {
    /// What is asked of answers.
    pub(super) fn slo(&self) -> Slo {
        Slo { ttft: self.slo_ttft, tpot: self.slo_tpot }
    }

    /// How answers are to come, if that is said.
    pub(super) fn form(&self) -> Option<bool> {
        (self.stream || self.whole).then_some(self.whole)
    }

    /// The key, from the command line or the environment.
    pub(super) fn key(&self) -> Option<String> {
        let named = |name| std::env::var(name).ok().filter(|key| !key.is_empty());
        self.key.clone().or_else(|| named("SIGNALBOX_KEY")).or_else(|| named("OPENAI_API_KEY"))
    }

    /// The base of the API, and the server's root: a mere address is completed by `/v1`.
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

/// How arrivals at a rate are spread.
#[derive(Copy, Clone, Debug, Default, ValueEnum)]
pub(super) enum Spread {
    /// As independent callers come
    #[default]
    Poisson,
    /// In equal steps
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
