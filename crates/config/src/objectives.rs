//! Service-level objectives as written in the file: latency percentiles, failures, and the rates at which their error
//! budgets may be used.

use std::time::Duration;

use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    patterns::{self, one_of, text_schema},
    scalar::{Field, Scalar, choice, choice_schema, choices},
    shape::Located,
    units,
};

/// A service-level objective.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = one_of(&["for", "e2e", "ttft", "tpot", "gap", "stutter", "availability", "error_rate"])))]
pub struct Objective {
    /// The requests that it covers, by the length of their prompts, such as `prompt.tokens < 512`. Default: all.
    pub when: Option<Field<Prompts>>,
    /// Published values for a use: `chat`, `code`, `voice`, `document` or `batch`. Measures beside it take the place of its
    /// own.
    #[serde(rename = "for")]
    pub preset: Option<Field<Preset>>,
    /// Time from the request to the end of its answer, streamed or whole.
    pub e2e: Option<Located<Percentiles>>,
    /// Time to the first token. Answers that come as a whole have none.
    pub ttft: Option<Located<Percentiles>>,
    /// Time per further token.
    pub tpot: Option<Located<Percentiles>>,
    /// The largest gap between two chunks of a streamed answer.
    pub gap: Option<Located<Percentiles>>,
    /// The share of all gaps between chunks that may be longer than 150 ms, which readers notice, such as `1%`.
    pub stutter: Option<Field<Allowance>>,
    /// The share of requests that must be answered completely, such as `99.5%`. Errors of clients do not count.
    pub availability: Option<Field<Target>>,
    /// The share of requests that may fail, such as `1%`: the rest to 100 % of `availability`.
    pub error_rate: Option<Field<Allowance>>,
}

/// A use of models for which limits are published.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Preset {
    /// People who read while the answer is written.
    Chat,
    /// Completions in an editor.
    Code,
    /// Answers that are spoken.
    Voice,
    /// Long prompts: summaries, extraction.
    Document,
    /// Work that nobody waits for.
    Batch,
}

impl Preset {
    const ALL: [(&str, Self); 5] = [
        ("chat", Self::Chat),
        ("code", Self::Code),
        ("voice", Self::Voice),
        ("document", Self::Document),
        ("batch", Self::Batch),
    ];
}

choices!(Preset, Preset::ALL);

/// The windows and rates by which error budgets are judged. A rate of 1 uses up a budget exactly by the end of its window.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorBudgets {
    /// The window of a budget, from `1d` to `90d`. Default: `3d`.
    pub window: Option<Field<Duration>>,
    /// The rate from which on a budget burns fast. Default: `{ over: 1h, rate: 14.4 }`.
    pub fast: Option<BurnRate>,
    /// The rate from which on a budget burns slowly. Default: `{ over: 6h, rate: 6 }`.
    pub slow: Option<BurnRate>,
    /// The rate above which an objective is missing. Default: `{ over: 1h, rate: 1 }`.
    pub missing: Option<BurnRate>,
}

/// A rate at which an error budget is used.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BurnRate {
    /// The window, from `1m` to `1d`. A burning budget has the rate over a twelfth of it too.
    pub over: Option<Field<Duration>>,
    /// The rate, such as `14.4`.
    pub rate: Option<Field<Multiple>>,
}

/// Limits for each single request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Time to the first token, such as `800ms`.
    pub ttft: Field<Duration>,
}

/// A number above 0.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Multiple(pub f64);

impl Scalar for Multiple {
    fn read(text: &str) -> Result<Self, Mistake> {
        let number = units::amount(text).ok().filter(|number| *number > 0.0);
        number.map(Self).ok_or_else(|| Mistake::new("not a number above zero").help("write it like `14.4`"))
    }

    fn schema() -> Schema {
        json_schema!({
            "type": ["number", "string"], "exclusiveMinimum": 0, "pattern": patterns::whole(patterns::MULTIPLE),
        })
    }
}

/// Upper limits of a latency, by percentile.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct Percentiles {
    /// For 50 % of requests.
    pub p50: Option<Field<Duration>>,
    /// For 90 % of requests.
    pub p90: Option<Field<Duration>>,
    /// For 95 % of requests.
    pub p95: Option<Field<Duration>>,
    /// For 99 % of requests.
    pub p99: Option<Field<Duration>>,
}

impl Percentiles {
    /// The percentiles that are set: name, share of requests and limit.
    pub fn set(&self) -> impl Iterator<Item = (&'static str, f64, &Field<Duration>)> {
        let all =
            [("p50", 0.5, &self.p50), ("p90", 0.9, &self.p90), ("p95", 0.95, &self.p95), ("p99", 0.99, &self.p99)];
        all.into_iter().filter_map(|(name, share, limit)| Some((name, share, limit.as_ref()?)))
    }
}

/// A range of prompt lengths.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// The least number of tokens.
    pub from: u64,
    /// The exclusive upper bound in tokens.
    pub under: Option<u64>,
}

impl Prompts {
    /// True if a prompt of `tokens` tokens is in the range.
    pub fn contain(&self, tokens: u64) -> bool {
        tokens >= self.from && self.under.is_none_or(|under| tokens < under)
    }
}

impl Scalar for Prompts {
    fn read(text: &str) -> Result<Self, Mistake> {
        let mistake = || {
            Mistake::new("not a condition that an objective can have")
                .help("compare the prompt's tokens with a number: `prompt.tokens < 512`")
        };
        let rest = text.trim().strip_prefix("prompt.tokens").ok_or_else(mistake)?.trim_start();
        let (sign, number) = rest.split_at(rest.find(|c| !matches!(c, '<' | '>' | '=')).unwrap_or(rest.len()));
        let number: u64 = number.trim().parse().map_err(|_| mistake())?;
        let after = number.saturating_add(1);
        let (from, under) = match sign {
            "<" => (0, Some(number)),
            "<=" => (0, Some(after)),
            ">" => (after, None),
            ">=" => (number, None),
            _ => return Err(mistake()),
        };
        if under == Some(0) || (from == 0 && under.is_none()) {
            return Err(Mistake::new("true of no prompt, or of all")
                .help("compare with a length that prompts have: `prompt.tokens < 512`"));
        }
        Ok(Self { from, under })
    }

    fn schema() -> Schema {
        text_schema(r"\s*prompt\.tokens\s*(?:<|<=|>|>=)\s*[0-9]+\s*", &["prompt.tokens < 512"])
    }
}

/// A share of requests between 0 and 1, exclusive.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Target(pub f64);

impl Scalar for Target {
    fn read(text: &str) -> Result<Self, Mistake> {
        let share = units::share(text)?;
        if share >= 1.0 {
            return Err(Mistake::new("a target of all requests leaves no budget for errors")
                .help("write what you can promise, such as `99.9%`"));
        }
        if share <= 0.0 {
            return Err(Mistake::new("a target of no requests").help("write it like `99.5%`"));
        }
        Ok(Self(share))
    }

    fn schema() -> Schema {
        text_schema(patterns::TARGET, &["99.5%"])
    }
}

/// A share of requests that may miss an objective, between 0 and 1, exclusive: the target is the rest.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Allowance(pub f64);

impl Scalar for Allowance {
    fn read(text: &str) -> Result<Self, Mistake> {
        let share = units::share(text)?;
        if share <= 0.0 {
            return Err(Mistake::new("a target of all requests leaves no budget for errors")
                .help("write what you can promise, such as `0.1%`"));
        }
        if share >= 1.0 {
            return Err(
                Mistake::new("a target of no requests").help("write the share that may miss it, such as `0.5%`")
            );
        }
        Ok(Self(share))
    }

    fn schema() -> Schema {
        text_schema(patterns::TARGET, &["1%"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_ranges_are_parsed() {
        let read = |text| Prompts::read(text).map(|prompts| (prompts.from, prompts.under));
        assert_eq!(read("prompt.tokens < 512"), Ok((0, Some(512))));
        assert_eq!(read(" prompt.tokens<=511 "), Ok((0, Some(512))));
        assert_eq!(read("prompt.tokens > 511"), Ok((512, None)));
        assert_eq!(read("prompt.tokens >= 512"), Ok((512, None)));
        for bad in [
            "",
            "prompt.tokens",
            "prompt.tokens < ",
            "prompt.tokens < 8k",
            "prompt.tokens == 5",
            "prompt.tokens < 0",
            "prompt.tokens >= 0",
            "prompt.complexity > 1",
            "512 > prompt.tokens",
            "prompt.tokens < 99999999999999999999",
        ] {
            assert!(read(bad).is_err_and(|mistake| mistake.help.is_some()), "{bad}");
        }
        let short = Prompts { from: 0, under: Some(512) };
        assert!(short.contain(511) && !short.contain(512) && Prompts::default().contain(u64::MAX));
    }

    #[test]
    fn targets_leave_a_budget() {
        assert!(Target::read("99.5%").is_ok_and(|Target(share)| (share - 0.995).abs() < 1e-12));
        for bad in ["100%", "0%", "99.5", "101%"] {
            assert!(Target::read(bad).is_err(), "{bad}");
        }
    }
}
