//! Token counts. Messages counts cached tokens beside `input_tokens`, chat completions within `prompt_tokens`.

use serde::Deserialize;

use super::raw;
use crate::json;

/// The `usage` object of Messages. All counts are optional, and cumulative within a stream.
#[derive(Default, Deserialize)]
pub(super) struct RawUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
    output_tokens_details: Option<OutputDetails>,
}

/// Tokens written to the prompt cache, by the time that they are kept. Their prices differ.
#[derive(Copy, Clone, Debug, Deserialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

/// The counts known so far.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Counts {
    input: u64,
    output: u64,
    read: Option<u64>,
    written: Option<u64>,
    creation: Option<CacheCreation>,
    thinking: Option<u64>,
}

impl Counts {
    /// Takes the counts of a later report. Zeros do not replace counts: engines report them for unknown.
    pub(super) fn update(&mut self, raw: &RawUsage) {
        fn later(known: Option<u64>, new: Option<u64>) -> Option<u64> {
            new.filter(|new| *new > 0).or(known).or(new)
        }
        self.input = later(Some(self.input), raw.input_tokens).unwrap_or(0);
        self.output = later(Some(self.output), raw.output_tokens).unwrap_or(0);
        self.read = later(self.read, raw.cache_read_input_tokens);
        self.written = later(self.written, raw.cache_creation_input_tokens);
        self.creation = raw.cache_creation.or(self.creation);
        self.thinking =
            later(self.thinking, raw.output_tokens_details.as_ref().and_then(|details| details.thinking_tokens));
    }

    /// Appends the `usage` object of chat completions.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let prompt = self.input.saturating_add(self.read.unwrap_or(0)).saturating_add(self.written.unwrap_or(0));
        out.extend_from_slice(b"{\"prompt_tokens\":");
        json::number(out, prompt);
        count(out, "completion_tokens", Some(self.output));
        count(out, "total_tokens", Some(prompt.saturating_add(self.output)));
        if let Some(read) = self.read {
            out.extend_from_slice(b",\"prompt_tokens_details\":{\"cached_tokens\":");
            json::number(out, read);
            out.push(b'}');
        }
        if let Some(thinking) = self.thinking {
            out.extend_from_slice(b",\"completion_tokens_details\":{\"reasoning_tokens\":");
            json::number(out, thinking);
            out.push(b'}');
        }
        count(out, "cache_creation_input_tokens", self.written);
        if let Some(CacheCreation { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long }) = self.creation
        {
            out.extend_from_slice(b",\"cache_creation\":{\"ephemeral_5m_input_tokens\":");
            json::number(out, short.unwrap_or(0));
            count(out, "ephemeral_1h_input_tokens", Some(long.unwrap_or(0)));
            out.push(b'}');
        }
        out.push(b'}');
    }
}

fn count(out: &mut Vec<u8>, name: &str, count: Option<u64>) {
    if let Some(count) = count {
        raw::key(out, name);
        json::number(out, count);
    }
}
