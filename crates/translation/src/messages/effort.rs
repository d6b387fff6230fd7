//! Thinking: the effort that a request asks for, and the origin of thinking blocks in its history.
//!
//! The API's thinking budget is a target for the model. `reasoning_effort` is the only field for it that OpenAI, vLLM
//! and llama.cpp all read, so the budget becomes one of the three levels that every reasoning model accepts.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::request::Request;
use crate::{Dropped, Unsupported, json::word, unsupported};

/// Display of the model's thinking in an answer of Messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingDisplay {
    /// Blocks with their text.
    Shown,
    /// Blocks without text, whose signature goes back to the model: Claude Code asks for these by default.
    Signed,
    /// No blocks.
    Hidden,
}

impl ThinkingDisplay {
    /// The display that a request with this `thinking` asks for.
    pub fn of(thinking: Option<&[u8]>) -> Self {
        let thinking: Option<Thinking<'_>> = thinking.and_then(|thinking| serde_json::from_slice(thinking).ok());
        match thinking {
            Some(Thinking { r#type, .. }) if r#type == "disabled" => Self::Hidden,
            Some(Thinking { display: Some(display), .. }) if display.get() == "\"omitted\"" => Self::Signed,
            Some(_) => Self::Shown,
            None => Self::Hidden,
        }
    }
}

/// The beginning of the signatures of thinking blocks that were translated from a chat answer. The name of the field
/// that the backend used follows it.
pub(super) const SIGNATURE_PREFIX: &str = "chat.";

/// The member of a chat message that carries visible reasoning; engines use one of two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningField {
    ReasoningContent,
    Reasoning,
}

impl ReasoningField {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReasoningContent => "reasoning_content",
            Self::Reasoning => "reasoning",
        }
    }

    /// The field for a thinking block of the history. A block that came from a chat backend returns to the field that
    /// it came from, so no backend gets a field that it does not know. A block without a signature comes from an
    /// engine. A foreign signature is another provider's: its text is not for this model.
    pub(super) fn of_signature(signature: Option<&RawValue>) -> Option<Self> {
        match word(signature) {
            "" => Some(Self::ReasoningContent),
            signature => match signature.strip_prefix(SIGNATURE_PREFIX)? {
                "reasoning" => Some(Self::Reasoning),
                _ => Some(Self::ReasoningContent),
            },
        }
    }
}

#[derive(Deserialize)]
struct Thinking<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    budget_tokens: Option<u64>,
    #[serde(borrow)]
    display: Option<&'a RawValue>,
}

/// The `output_config` of a request.
#[derive(Deserialize)]
pub(super) struct OutputConfig<'a> {
    #[serde(borrow)]
    pub(super) effort: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) format: Option<&'a RawValue>,
    pub(super) task_budget: Option<IgnoredAny>,
}

/// The `reasoning_effort` for a request. `None` leaves the decision to the model.
pub(super) fn of(
    request: &Request<'_>,
    config: Option<&OutputConfig<'_>>,
    dropped: &mut Dropped,
) -> Result<Option<&'static str>, Unsupported> {
    let thinking: Option<Thinking<'_>> = request.part("thinking")?;
    let named = match config.and_then(|config| config.effort.as_deref()) {
        None => None,
        Some("low") => Some("low"),
        Some("medium") => Some("medium"),
        Some("high") => Some("high"),
        Some("xhigh" | "max") => {
            // Many reasoning models reject a level above `high`.
            dropped.add("output_config.effort");
            Some("high")
        }
        Some(other) => {
            let message = format!("unknown effort `{other}`; use low, medium, high, xhigh or max");
            return Err(unsupported("output_config.effort", message));
        }
    };
    let Some(thinking) = thinking else { return Ok(named) };
    dropped.note("thinking.display", thinking.display.as_ref());
    match &*thinking.r#type {
        // Engines think by default. A caller that disables it often allows only few tokens.
        "disabled" => Ok(Some("none")),
        "adaptive" => Ok(named),
        "enabled" => {
            dropped.note("thinking.budget_tokens", thinking.budget_tokens.as_ref());
            Ok(named.or(thinking.budget_tokens.map(level)))
        }
        other => {
            let message = format!("unknown thinking type `{other}`; use enabled, adaptive or disabled");
            Err(unsupported("thinking.type", message))
        }
    }
}

/// The level for a budget. The thresholds are the steps that Claude Code asks for (4,000, 10,000 and 31,999 tokens).
fn level(budget: u64) -> &'static str {
    match budget {
        0..4_000 => "low",
        4_000..10_000 => "medium",
        _ => "high",
    }
}
