//! Chunks of `/v1/chat/completions` and `/v1/completions`.

use std::{borrow::Cow, ops::Range};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    engine_error::EngineError,
    event_facts::EventFacts,
    json::{says_something, word},
    usage,
};

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    /// Groq's place for the counts of a stream.
    #[serde(borrow)]
    x_groq: Option<UsageBeside<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt_filter_results: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct UsageBeside<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    /// Token counts in Moonshot's streams.
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
}

pub(super) fn read_event(data: &[u8]) -> Result<EventFacts, serde_json::Error> {
    let chunk: Chunk<'_> = serde_json::from_slice(data)?;
    let no_choices = chunk.choices.as_ref().is_none_or(Vec::is_empty);
    let error = chunk.error.and_then(EngineError::of_member);
    let choices = chunk.choices.iter().flatten();
    let has_usage = chunk.usage.is_some_and(|usage| usage.get().starts_with('{'));
    let mut seen = EventFacts {
        alive: true,
        only_usage: no_choices && has_usage && chunk.prompt_filter_results.is_none() && error.is_none(),
        usage: chunk
            .usage
            .and_then(usage::of_text)
            .or_else(|| choices.clone().find_map(|choice| choice.usage).and_then(usage::of_text))
            .or_else(|| chunk.x_groq.and_then(|beside| beside.usage).and_then(usage::of_text)),
        error,
        ..EventFacts::default()
    };
    if let Some([choice]) = chunk.choices.as_deref() {
        // Text in both places belongs to no single string.
        let text = match (choice.text, &choice.delta) {
            (Some(text), Some(delta)) => Some(text).filter(|_| delta.text_bytes() == 0),
            (Some(text), None) => Some(text),
            (None, delta) => delta.as_ref().and_then(Delta::only_text),
        };
        let is_text = |text: &&RawValue| text.get().starts_with('"') && says_something(text) && choice.bit() == 1;
        seen.text_at = text.filter(is_text).map(|text| place(text, data));
    }
    for choice in choices {
        let bit = choice.bit();
        seen.choices |= bit;
        if choice.finish_reason.is_some_and(|reason| says_something(reason) && reason.get() != "\"null\"") {
            seen.finished = true;
            seen.finished_choices |= bit;
            if seen.error.is_none() {
                seen.error = EngineError::of_finish(word(choice.finish_reason), choice.error);
            }
        }
        let text = choice.text.map_or(0, unescaped_length);
        let delta = choice.delta.as_ref().map_or(0, Delta::text_bytes);
        seen.reasoning |= choice.delta.as_ref().is_some_and(Delta::reasons);
        seen.text_bytes += text + delta;
        seen.token |= text > 0 || delta > 0;
    }
    Ok(seen)
}

/// The range in `data` of a value that was read from it.
fn place(value: &RawValue, data: &[u8]) -> Range<usize> {
    let start = value.get().as_ptr().addr() - data.as_ptr().addr();
    start..start + value.get().len()
}

impl Choice<'_> {
    /// The bit for its index; indices beyond the last bit share it.
    fn bit(&self) -> u64 {
        let index: u32 = self.index.and_then(|index| index.get().parse().ok()).unwrap_or(0);
        1 << index.min(u64::BITS - 1)
    }
}

impl Delta<'_> {
    fn reasons(&self) -> bool {
        self.reasoning_content.or(self.reasoning).is_some_and(says_something)
    }

    /// Bytes written by the model, unescaped for plain text and as JSON for calls.
    fn text_bytes(&self) -> usize {
        [
            self.content,
            self.reasoning_content.or(self.reasoning),
            self.refusal,
            self.tool_calls,
            self.function_call,
            self.audio,
        ]
        .into_iter()
        .flatten()
        .map(unescaped_length)
        .sum()
    }

    /// Its content, if it has nothing else.
    fn only_text(&self) -> Option<&RawValue> {
        let others =
            [self.reasoning_content, self.reasoning, self.refusal, self.tool_calls, self.function_call, self.audio];
        self.content.filter(|_| !others.into_iter().flatten().any(says_something))
    }
}

/// Bytes of a string when unescaped, and of anything else as written; 0 for empty values.
fn unescaped_length(raw: &RawValue) -> usize {
    if !says_something(raw) {
        return 0;
    }
    serde_json::from_str::<Cow<'_, str>>(raw.get()).map_or(raw.get().len(), |text| text.len())
}
