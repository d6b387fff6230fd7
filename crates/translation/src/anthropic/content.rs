//! Content of messages: its parts, and text as blocks.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{raw, request::Thinking};
use crate::{
    Unsupported,
    json::{self, Str},
    unsupported,
};

/// The content of a message.
pub(super) enum Content<'a> {
    /// None, or a string without visible characters, which Messages rejects.
    Empty,
    /// One text.
    Text(&'a RawValue),
    /// Parts, with the index of each.
    Parts(Vec<Part<'a>>),
}

/// A part of a message's content.
#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) r#type: Str<'a>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) file: Option<File<'a>>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cache_control: Option<&'a RawValue>,
}

/// A file of a message.
#[derive(Deserialize)]
pub(super) struct File<'a> {
    #[serde(borrow, rename = "file_data")]
    pub(super) data: Option<&'a RawValue>,
    #[serde(borrow, rename = "file_id")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) filename: Option<&'a RawValue>,
}

impl<'a> Content<'a> {
    /// Reads the content of the message at `path`.
    pub(super) fn read(content: Option<&'a RawValue>, path: &str) -> Result<Self, Unsupported> {
        let Some(content) = content else { return Ok(Self::Empty) };
        match content.get().as_bytes().first() {
            Some(b'"') if raw::is_blank(content) => Ok(Self::Empty),
            Some(b'"') => Ok(Self::Text(content)),
            Some(b'[') => match json::read(content) {
                Ok(parts) => Ok(Self::Parts(parts)),
                Err(error) => Err(unsupported(format!("{path}.content"), format!("the content is not valid: {error}"))),
            },
            _ => Err(unsupported(format!("{path}.content"), "the content must be a string or a list of parts")),
        }
    }
}

impl<'a> Part<'a> {
    /// Its text, if it is a text part or a refusal of the assistant.
    pub(super) fn as_text(&self) -> Option<&'a RawValue> {
        match &*self.r#type.0 {
            "text" | "input_text" | "output_text" => self.text,
            "refusal" => self.refusal,
            _ => None,
        }
    }

    /// Its thinking, if a client kept it among the parts.
    pub(super) fn as_thinking(&self) -> Option<Thinking<'a>> {
        matches!(&*self.r#type.0, "thinking" | "redacted_thinking").then(|| Thinking {
            r#type: Some(Str(self.r#type.0.clone())),
            text: self.thinking,
            signature: self.signature,
            data: self.data,
        })
    }
}

/// Appends a text block.
pub(super) fn text_block(out: &mut Vec<u8>, text: &RawValue, cache: Option<&RawValue>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    raw::value(out, Some(text));
    raw::member(out, "cache_control", cache);
    out.push(b'}');
}
