//! Chat answers, whole and in chunks, borrowed from their text.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::translation::{
    Malformed,
    first_choice::{self, First},
    json::{filled, inner, nested_text, word},
};

/// A chunk of a stream, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) choices: First<Choice<'a>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) service_tier: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<Message<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) logprobs: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(borrow)]
    pub(super) function_call: Option<Function<'a>>,
    #[serde(borrow)]
    pub(super) annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    thinking_blocks: Option<&'a RawValue>,
}

/// Thinking of Anthropic's API, whole or in pieces, the last of which has the signature.
#[derive(Deserialize)]
pub(super) struct Thinking<'a> {
    #[serde(borrow, rename = "thinking")]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    /// The whole of a redacted block.
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// A call of a tool, or a piece of one.
#[derive(Default, Deserialize)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A part of a content list, as some engines send it.
#[derive(Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
}

/// The log probabilities of a choice.
#[derive(Deserialize)]
struct Logprobs<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// The name that `DeepSeek` uses.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

/// Token counts of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) cached: u64,
    pub(super) written: u64,
    pub(super) output: u64,
    pub(super) reasoning: u64,
    pub(super) total: u64,
}

/// Reads a chunk or a whole answer.
pub(super) fn read(data: &[u8]) -> Result<Chunk<'_>, Malformed> {
    serde_json::from_slice(data)
        .map_err(|error| Malformed(format!("the upstream's answer is not a chat completion: {error}")))
}

/// Reads token counts; a count in an unexpected shape is unknown.
pub(super) fn usage(raw: &RawValue) -> Option<Usage> {
    let raw: RawUsage = serde_json::from_str(raw.get()).ok()?;
    let prompt = raw.prompt_tokens_details.as_ref();
    let (input, output) = (raw.prompt_tokens.unwrap_or(0), raw.completion_tokens.unwrap_or(0));
    Some(Usage {
        input,
        cached: prompt.and_then(|details| details.cached_tokens).or(raw.prompt_cache_hit_tokens).unwrap_or(0),
        written: prompt.and_then(|details| details.cache_write_tokens).unwrap_or(0),
        output,
        reasoning: raw.completion_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0),
        total: raw.total_tokens.unwrap_or_else(|| input.saturating_add(output)),
    })
}

impl<'a> Chunk<'a> {
    /// The text, if the chunk has nothing else.
    pub(super) fn plain_text(&self) -> Option<&'a str> {
        let choice = self.choices.0.as_ref().filter(|_| self.usage.is_none() && self.error.is_none())?;
        let delta = choice.delta.as_ref().filter(|_| choice.logprobs.is_none() && choice.finish().is_none())?;
        let thought = [delta.reasoning_content, delta.reasoning, delta.thinking_blocks];
        let more = [delta.refusal, delta.annotations];
        let calls = delta.tool_calls.is_some() || delta.function_call.is_some();
        let alone = thought.iter().chain(&more).all(Option::is_none) && !calls;
        inner(delta.content.filter(|_| alone)?).filter(|text| !text.is_empty())
    }

    /// The error that it reports. Some engines send an empty one beside their content.
    pub(super) fn error(&self) -> Option<&'a RawValue> {
        self.error.filter(|error| !matches!(error.get(), "{}" | "\"\"" | "false"))
    }
}

impl first_choice::Choice for Choice<'_> {
    fn is_first(&self) -> bool {
        self.index.is_none_or(|index| matches!(index.get(), "0" | "null"))
    }
}

impl<'a> Choice<'a> {
    /// The reason of its end, if it is given.
    pub(super) fn finish(&self) -> Option<&'a str> {
        self.finish_reason.and_then(inner).filter(|reason| !reason.is_empty())
    }

    /// The entries of the log probabilities, without brackets. Both APIs have the same entries.
    pub(super) fn logprobs(&self) -> &'a str {
        let list = self.logprobs.and_then(|raw| serde_json::from_str::<Logprobs<'a>>(raw.get()).ok()?.content);
        list.and_then(|list| list.get().strip_prefix('[')?.strip_suffix(']')).unwrap_or_default().trim()
    }
}

impl<'a> Message<'a> {
    /// Its reasoning and the name of the field.
    pub(super) fn thought(&self) -> (&'static str, &'a str) {
        match word(self.reasoning_content) {
            "" => ("reasoning", word(self.reasoning)),
            text => ("reasoning_content", text),
        }
    }

    /// Its thinking of Anthropic's API; none in an unexpected shape.
    pub(super) fn thinking(&self) -> Vec<Thinking<'a>> {
        self.thinking_blocks.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
    }
}

impl Thinking<'_> {
    /// The block as JSON, once it is signed. `pieces` is its text, escaped, where that came before, in pieces.
    pub(super) fn signed(&self, pieces: Option<&str>) -> Option<String> {
        if let Some(data) = filled(self.data) {
            return Some(format!(r#"{{"type":"redacted_thinking","data":"{data}"}}"#));
        }
        let signature = filled(self.signature)?;
        let text = pieces.or_else(|| filled(self.text)).unwrap_or_default();
        Some(format!(r#"{{"type":"thinking","thinking":"{text}","signature":"{signature}"}}"#))
    }

    /// True if it brings its text along.
    pub(super) fn has_text(&self) -> bool {
        filled(self.text).is_some()
    }
}

impl<'a> ToolCall<'a> {
    /// A call in the older form, which has neither index nor id.
    pub(super) fn legacy(function: Function<'a>) -> Self {
        Self { function: Some(function), ..Self::default() }
    }

    pub(super) fn index(&self) -> Option<u64> {
        self.index.and_then(|index| index.get().parse().ok())
    }

    pub(super) fn id(&self) -> &'a str {
        word(self.id)
    }

    pub(super) fn name(&self) -> &'a str {
        self.function.as_ref().map_or("", |function| word(function.name))
    }

    /// Its arguments, or a piece of them, escaped, without quotes. Some engines send an object instead of a string.
    pub(super) fn arguments(&self) -> Cow<'a, str> {
        let Some(raw) = self.function.as_ref().and_then(|function| function.arguments) else {
            return Cow::Borrowed("");
        };
        inner(raw).map_or_else(|| nested_text(raw.get()).into(), Cow::Borrowed)
    }
}
