//! Reasoning: `reasoning_effort` as `thinking` and `output_config`.
//!
//! Claude 4.6 and later think adaptively and take an effort level. Older models, and models of other vendors, take a
//! budget of tokens: a share of the token limit, which counts reasoning and answer together in both APIs.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Model, messages::Conversation, model::Off, raw, request::Request, response_format::Format, sampling::Sampling,
    tools,
};
use crate::{
    Dropped, Unsupported,
    json::{self, Str},
    unsupported,
};

/// The smallest budget that Messages accepts.
const LEAST_BUDGET: u64 = 1024;

/// The largest budget that is requested here: above it, answers outlast the time limits of networks.
const MOST_BUDGET: u64 = 32_000;

/// The members `thinking` and `output_config`.
pub(super) struct Controls<'a> {
    thinking: Thinking<'a>,
    effort: Option<&'static str>,
}

enum Thinking<'a> {
    Absent,
    /// The caller's own member, in the form of Messages.
    Given(&'a RawValue),
    Adaptive {
        shown: bool,
    },
    Budget(u64),
    Disabled,
    BetweenTools,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Level {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// The member `reasoning` that some gateways take instead of `reasoning_effort`.
#[derive(Default, Deserialize)]
struct Reasoning<'a> {
    #[serde(borrow)]
    effort: Option<Str<'a>>,
    max_tokens: Option<u64>,
    enabled: Option<bool>,
    exclude: Option<bool>,
}

impl Level {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "minimal" => Self::Minimal,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "xhigh" => Self::Xhigh,
            "max" => Self::Max,
            _ => return None,
        })
    }

    fn effort(self, model: Model) -> &'static str {
        match self {
            Self::None | Self::Minimal | Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh if model.takes_xhigh() => "xhigh",
            Self::Xhigh | Self::Max => "max",
        }
    }

    /// The share of the token limit for reasoning, in percent.
    fn percent(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Minimal => 10,
            Self::Low => 20,
            Self::Medium => 50,
            Self::High => 80,
            Self::Xhigh | Self::Max => 95,
        }
    }
}

impl<'a> Controls<'a> {
    /// Decides on both members. Effort is a hint: it is dropped where the model could not take it with the rest of the
    /// request.
    pub(super) fn decide(
        request: &Request<'a>,
        model: Model,
        max_tokens: Option<u64>,
        conversation: &Conversation,
        sampling: &Sampling<'_>,
        dropped: &mut Dropped,
    ) -> Result<Self, Unsupported> {
        let reasoning = match request.reasoning {
            None => Reasoning::default(),
            Some(raw) => json::read(raw)
                .map_err(|error| unsupported("reasoning", format!("the reasoning object is not valid: {error}")))?,
        };
        let mut level = level(request, &reasoning)?;
        if request.output_config.is_some() && level.take().is_some() {
            dropped.add("reasoning_effort");
        }
        if let Some(thinking) = request.thinking {
            let effort = level.filter(|level| *level != Level::None && model.thinks_adaptively());
            if level.is_some() && effort.is_none() {
                dropped.add("reasoning_effort");
            }
            let effort = effort.map(|level| level.effort(model));
            return Ok(Self { thinking: Thinking::Given(thinking), effort });
        }
        let Some(level) = level else { return Ok(Self { thinking: Thinking::Absent, effort: None }) };
        if level == Level::None {
            return Ok(Self::without(model, dropped));
        }
        let conflict = tools::forces(request) || sampling.excludes_thinking();
        if model.thinks_adaptively() {
            if reasoning.max_tokens.is_some() {
                dropped.add("reasoning.max_tokens");
            }
            let shown = reasoning.exclude != Some(true);
            let thinking = if conflict { Thinking::Absent } else { Thinking::Adaptive { shown } };
            return Ok(Self { thinking, effort: Some(level.effort(model)) });
        }
        if reasoning.exclude == Some(true) {
            dropped.add("reasoning.exclude");
        }
        let budget =
            budget(level, reasoning.max_tokens, max_tokens).filter(|_| !conflict && !conversation.unthinking_call);
        if budget.is_none() {
            dropped.add("reasoning_effort");
        }
        Ok(Self { thinking: budget.map_or(Thinking::Absent, Thinking::Budget), effort: None })
    }

    /// The least thinking that the model can do.
    fn without(model: Model, dropped: &mut Dropped) -> Self {
        let thinking = match model.off() {
            Off::Default => Thinking::Absent,
            Off::Disabled => Thinking::Disabled,
            Off::BetweenTools => Thinking::BetweenTools,
            Off::Impossible => {
                dropped.add("reasoning_effort");
                return Self { thinking: Thinking::Absent, effort: Some("low") };
            }
        };
        Self { thinking, effort: None }
    }

    /// Appends both members.
    pub(super) fn write(
        &self,
        request: &Request<'_>,
        format: &Format<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Unsupported> {
        match self.thinking {
            Thinking::Absent => {}
            Thinking::Given(thinking) => raw::member(out, "thinking", Some(thinking)),
            // Newer models leave the text of their thinking out unless it is requested.
            Thinking::Adaptive { shown: true } => {
                out.extend_from_slice(b",\"thinking\":{\"type\":\"adaptive\",\"display\":\"summarized\"}");
            }
            Thinking::Adaptive { shown: false } => {
                out.extend_from_slice(b",\"thinking\":{\"type\":\"adaptive\",\"display\":\"omitted\"}");
            }
            Thinking::Budget(tokens) => {
                out.extend_from_slice(b",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":");
                json::number(out, tokens);
                out.push(b'}');
            }
            Thinking::BetweenTools => out.extend_from_slice(b",\"thinking\":{\"type\":\"between_tools\"}"),
            Thinking::Disabled => out.extend_from_slice(b",\"thinking\":{\"type\":\"disabled\"}"),
        }
        let schema = if let Format::Schema(schema) = format { Some(*schema) } else { None };
        if let Some(config) = request.output_config {
            if schema.is_some() {
                return Err(unsupported("response_format", "give the format in `response_format` or `output_config`"));
            }
            raw::member(out, "output_config", Some(config));
            return Ok(());
        }
        if schema.is_none() && self.effort.is_none() {
            return Ok(());
        }
        out.extend_from_slice(b",\"output_config\":{");
        if let Some(effort) = self.effort {
            out.extend_from_slice(b"\"effort\":");
            json::string(out, effort);
        }
        if let Some(schema) = schema {
            let comma: &[u8] = if self.effort.is_some() { b"," } else { b"" };
            out.extend_from_slice(comma);
            out.extend_from_slice(b"\"format\":{\"type\":\"json_schema\"");
            raw::member(out, "schema", Some(schema));
            out.push(b'}');
        }
        out.push(b'}');
        Ok(())
    }
}

fn level(request: &Request<'_>, reasoning: &Reasoning<'_>) -> Result<Option<Level>, Unsupported> {
    let (param, name) = match request.reasoning_effort {
        Some(effort) => ("reasoning_effort", json::text(effort)),
        None if reasoning.enabled == Some(false) => return Ok(Some(Level::None)),
        None => {
            let Some(effort) = &reasoning.effort else {
                let asked = reasoning.enabled == Some(true) || reasoning.max_tokens.is_some();
                return Ok(asked.then_some(Level::Medium));
            };
            ("reasoning.effort", Some(effort.0.clone()))
        }
    };
    let level = name.as_deref().and_then(Level::named);
    level
        .map(Some)
        .ok_or_else(|| unsupported(param, "the effort must be none, minimal, low, medium, high, xhigh or max"))
}

/// The budget for a level, if the token limit leaves room for one.
fn budget(level: Level, given: Option<u64>, max_tokens: Option<u64>) -> Option<u64> {
    let limit = max_tokens?;
    let wanted = given.unwrap_or_else(|| (limit.saturating_mul(level.percent()) / 100).min(MOST_BUDGET));
    let budget = wanted.clamp(LEAST_BUDGET, limit.max(LEAST_BUDGET + 1) - 1);
    (budget < limit).then_some(budget)
}
