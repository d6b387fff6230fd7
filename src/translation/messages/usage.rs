//! Token counts: chat counts cached tokens within the prompt, Messages beside it.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::translation::json::number;

/// Token counts of a chat answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: u64,
    pub(super) cached: u64,
    pub(super) completion: u64,
    pub(super) reasoning: Option<u64>,
}

#[derive(Deserialize)]
struct RawUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// The name that `DeepSeek` uses.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl Usage {
    /// Reads a `usage` object. One of an unexpected shape is unknown, and must not fail the answer.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let raw: RawUsage = serde_json::from_str(raw.get()).ok()?;
        let cached = raw.prompt_tokens_details.and_then(|details| details.cached_tokens);
        Some(Self {
            prompt: raw.prompt_tokens?,
            cached: cached.or(raw.prompt_cache_hit_tokens).unwrap_or(0),
            completion: raw.completion_tokens.unwrap_or(0),
            reasoning: raw.completion_tokens_details.and_then(|details| details.reasoning_tokens),
        })
    }

    /// Appends the `usage` object of a message. The API's schema requires members of which a chat answer says nothing.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.write_counts(out);
        out.extend_from_slice(br#","cache_creation":null,"inference_geo":null,"service_tier":null}"#);
    }

    /// Appends the `usage` object of the end of a stream.
    pub(super) fn write_end(&self, out: &mut Vec<u8>) {
        self.write_counts(out);
        out.push(b'}');
    }

    fn write_counts(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"input_tokens":"#);
        number(out, self.prompt.saturating_sub(self.cached));
        out.extend_from_slice(br#","cache_creation_input_tokens":0,"cache_read_input_tokens":"#);
        number(out, self.cached.min(self.prompt));
        out.extend_from_slice(br#","output_tokens":"#);
        number(out, self.completion);
        out.extend_from_slice(br#","server_tool_use":null,"output_tokens_details":"#);
        match self.reasoning {
            Some(reasoning) => {
                out.extend_from_slice(br#"{"thinking_tokens":"#);
                number(out, reasoning);
                out.push(b'}');
            }
            None => out.extend_from_slice(b"null"),
        }
    }
}
