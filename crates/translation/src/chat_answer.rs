//! Answers of chat completions, whole and in chunks, as the translators for callers read them. Text stays raw.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    first_choice::{self, First},
    json::{filled, inner},
};
use signalbox_protocol::{Finish, UsageReport};

/// A chunk of a stream, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) choices: First<Choice<'a>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    /// Groq's place for the counts of a stream.
    #[serde(borrow)]
    x_groq: Option<UsageBeside<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) service_tier: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Deserialize)]
struct UsageBeside<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// The message of a whole answer. Some providers repeat all text so far in it with every chunk of a stream.
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    /// Token counts in Moonshot's streams.
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) logprobs: Option<&'a RawValue>,
    /// An error beside the finish reason `error`, as `OpenRouter` reports it.
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// The stop string that vLLM matched, or the number of the token that ended the answer.
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    /// The same in `SGLang`.
    #[serde(borrow)]
    matched_stop: Option<&'a RawValue>,
}

/// A message, or a piece of one.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow)]
    pub(super) function_call: Option<Function<'a>>,
    #[serde(borrow)]
    pub(super) annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thinking_blocks: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_opaque: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_signature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thought_signature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) provider_specific_fields: Option<&'a RawValue>,
}

/// A call of a tool, or a piece of one.
#[derive(Clone, Copy, Default, Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
    #[serde(borrow)]
    pub(super) extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thought_signature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) provider_specific_fields: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A part of content that is a list, the form of Mistral's reasoning models.
#[derive(Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
}

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: u64,
    pub(super) cached: u64,
    pub(super) written: u64,
    pub(super) completion: u64,
    pub(super) reasoning: Option<u64>,
    pub(super) total: u64,
}

impl Usage {
    /// The counts of a report. `None` if it counts neither the prompt nor the answer; a count that is missing is 0.
    pub(super) fn of(report: &UsageReport) -> Option<Self> {
        report.prompt().or(report.completion())?;
        let (prompt, completion) = (report.prompt().unwrap_or(0), report.completion().unwrap_or(0));
        Some(Self {
            prompt,
            cached: report.cached().unwrap_or(0),
            written: report.written().unwrap_or(0),
            completion,
            reasoning: report.reasoning(),
            total: report.total().unwrap_or_else(|| prompt.saturating_add(completion)),
        })
    }

    /// These counts, with an estimate in the place of those that are missing.
    pub(super) fn or_estimate(self, prompt: u64, completion: u64) -> Self {
        let or = |count: u64, estimate| if count == 0 { estimate } else { count };
        Self { prompt: or(self.prompt, prompt), completion: or(self.completion, completion), ..self }
    }
}

impl<'a> Chunk<'a> {
    /// The token counts, if it has any. A later chunk may have others.
    pub(super) fn usage(&self) -> Option<UsageReport> {
        let read = |raw: &RawValue| UsageReport::read(raw.get());
        let in_choice = || self.choices.0.as_ref().and_then(|choice| choice.usage);
        let beside = || self.x_groq.and_then(|beside| beside.usage);
        self.usage.and_then(read).or_else(|| in_choice().and_then(read)).or_else(|| beside().and_then(read))
    }

    /// The text, if the chunk has nothing else.
    pub(super) fn plain_text(&self) -> Option<&'a str> {
        let choice = self.choices.0.as_ref().filter(|_| self.usage.is_none() && self.error.is_none())?;
        let delta = choice
            .delta
            .as_ref()
            .filter(|_| choice.logprobs.is_none() && choice.finish().is_none() && choice.usage.is_none())?;
        let thought = [
            delta.reasoning_content,
            delta.reasoning,
            delta.thinking_blocks,
            delta.reasoning_details,
            delta.reasoning_text,
            delta.reasoning_opaque,
            delta.extra_content,
        ];
        let more = [delta.refusal, delta.annotations];
        let calls = delta.tool_calls.is_some() || delta.function_call.is_some();
        let alone = thought.iter().chain(&more).all(Option::is_none) && !calls;
        inner(delta.content.filter(|_| alone)?).filter(|text| !text.is_empty())
    }
}

impl first_choice::Choice for Choice<'_> {
    fn is_first(&self) -> bool {
        self.index.is_none_or(|index| matches!(index.get(), "0" | "null"))
    }
}

impl<'a> Choice<'a> {
    /// The reason for the end of the answer, if this is its end.
    pub(super) fn finish(&self) -> Option<&'a str> {
        // The word `null` is DashScope's for an answer that goes on.
        filled(self.finish_reason).filter(|reason| *reason != "null")
    }

    /// The error that ended the answer, as JSON, if its finish reason says that one did.
    pub(super) fn failure(&self) -> Option<Cow<'a, str>> {
        let reason = self.finish().filter(|reason| matches!(Finish::read(reason), Finish::Failed | Finish::Aborted))?;
        let error = self.error.map(RawValue::get).filter(|error| !matches!(*error, "null" | "{}" | "\"\""));
        let unexplained = || {
            format!(
                r#"{{"message":"the engine ended the answer with the finish reason `{reason}`","type":"server_error"}}"#
            )
        };
        Some(error.map_or_else(|| unexplained().into(), Cow::Borrowed))
    }

    /// The stop sequence that ended the answer, escaped, if the engine reports it.
    pub(super) fn stop_sequence(&self) -> Option<&'a str> {
        filled(self.stop_reason).or_else(|| filled(self.matched_stop))
    }
}

impl<'a> CallDelta<'a> {
    /// A call in the older form, which has neither index nor id.
    pub(super) fn legacy(function: Function<'a>) -> Self {
        Self { function: Some(function), ..Self::default() }
    }

    pub(super) fn index(&self) -> Option<u64> {
        self.index.and_then(|index| index.get().parse().ok())
    }

    pub(super) fn name(&self) -> Option<&'a str> {
        filled(self.function.and_then(|function| function.name))
    }
}
