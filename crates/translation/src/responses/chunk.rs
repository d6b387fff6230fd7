//! Parts of chat answers that only Responses shows: reasoning, signed thinking, log probabilities and errors.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Malformed,
    chat_answer::{Choice, Chunk, Delta},
    json::{filled, word},
};

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

/// The log probabilities of a choice.
#[derive(Deserialize)]
struct Logprobs<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Reads a chunk or a whole answer.
pub(super) fn read(data: &[u8]) -> Result<Chunk<'_>, Malformed> {
    serde_json::from_slice(data)
        .map_err(|error| Malformed(format!("the upstream's answer is not a chat completion: {error}")))
}

/// Reads the message of a whole answer.
pub(super) fn message(raw: &RawValue) -> Result<Delta<'_>, Malformed> {
    serde_json::from_str(raw.get()).map_err(|error| Malformed(format!("the upstream's message is malformed: {error}")))
}

impl<'a> Chunk<'a> {
    /// The error that it reports. Some engines send an empty one beside their content.
    pub(super) fn error(&self) -> Option<&'a RawValue> {
        self.error.filter(|error| !matches!(error.get(), "{}" | "\"\"" | "false"))
    }
}

impl<'a> Choice<'a> {
    /// The entries of the log probabilities, without brackets. Both APIs have the same entries.
    pub(super) fn logprobs(&self) -> &'a str {
        let list = self.logprobs.and_then(|raw| serde_json::from_str::<Logprobs<'a>>(raw.get()).ok()?.content);
        list.and_then(|list| list.get().strip_prefix('[')?.strip_suffix(']')).unwrap_or_default().trim()
    }
}

impl<'a> Delta<'a> {
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
