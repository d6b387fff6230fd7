//! Content of messages: text, images and documents as blocks.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{raw, request::Thinking};
use crate::{
    Dropped, Unsupported,
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
    image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    file: Option<File<'a>>,
    #[serde(borrow)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    signature: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cache_control: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ImageUrl<'a> {
    #[serde(borrow)]
    url: &'a RawValue,
    #[serde(borrow)]
    detail: Option<Str<'a>>,
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow, rename = "file_data")]
    data: Option<&'a RawValue>,
    #[serde(borrow, rename = "file_id")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    filename: Option<&'a RawValue>,
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

/// Appends the block of an image or a file to `out`. `path` is the part's.
pub(super) fn media_block(
    part: &Part<'_>,
    cache: Option<&RawValue>,
    path: &str,
    out: &mut Vec<u8>,
    dropped: &mut Dropped,
) -> Result<(), Unsupported> {
    match &*part.r#type.0 {
        "image_url" | "input_image" => image(part, path, out, dropped)?,
        "file" | "input_file" => document(part, path, out)?,
        "input_audio" | "audio" => {
            return Err(unsupported(format!("{path}.type"), "the upstream takes no audio: send a transcript as text"));
        }
        "text" => return Err(unsupported(format!("{path}.text"), "a text part needs a `text`")),
        other => {
            let message = format!("the upstream takes no part of type `{other}`: send text, image_url or file");
            return Err(unsupported(format!("{path}.type"), message));
        }
    }
    raw::member(out, "cache_control", cache);
    out.push(b'}');
    Ok(())
}

fn image(part: &Part<'_>, path: &str, out: &mut Vec<u8>, dropped: &mut Dropped) -> Result<(), Unsupported> {
    let path = format!("{path}.image_url");
    let invalid = || unsupported(path.clone(), "an image_url part needs `{\"url\": …}`");
    let value = part.image_url.ok_or_else(invalid)?;
    let url = if raw::is_object(value) {
        let image: ImageUrl<'_> = json::read(value).map_err(|_| invalid())?;
        if image.detail.is_some_and(|detail| detail.0 != "auto") {
            dropped.add("messages[].content[].image_url.detail");
        }
        image.url
    } else {
        value
    };
    let url = json::text(url).ok_or_else(invalid)?;
    match Source::of(&url) {
        Some(source) => source.write(out, None),
        None => return Err(unsupported(path, "the upstream takes images as https URLs or as base64 data URLs")),
    }
    Ok(())
}

fn document(part: &Part<'_>, path: &str, out: &mut Vec<u8>) -> Result<(), Unsupported> {
    let path = format!("{path}.file");
    let invalid = || unsupported(path.clone(), "a file part needs `file_data` with a base64 data URL");
    let file = part.file.as_ref().ok_or_else(invalid)?;
    let given = file.data.or(file.id).ok_or_else(invalid)?;
    let text = json::text(given).ok_or_else(invalid)?;
    let name = file.filename.and_then(json::text);
    let is_pdf = name.is_some_and(|name| name.to_ascii_lowercase().ends_with(".pdf"));
    let source = match Source::of(&text) {
        Some(source) => source,
        // `file_data` may be bare base64, whose type only the file's name says.
        None if file.data.is_some() && is_pdf => Source::Base64 { kind: "application/pdf", data: &text },
        None => {
            let message = "the upstream has no file of this id or type: send a PDF as a base64 data URL in `file_data`";
            return Err(unsupported(path, message));
        }
    };
    match source {
        Source::Base64 { kind, .. } if kind != "application/pdf" && !kind.starts_with("image/") => {
            let message = format!("the upstream takes no file of type `{kind}`: send a PDF, or the content as text");
            return Err(unsupported(format!("{path}.file_data"), message));
        }
        Source::Url(_) => source.write_as(out, "document", file.filename),
        Source::Base64 { .. } => source.write(out, file.filename),
    }
    Ok(())
}

/// The place of an image or a document.
enum Source<'a> {
    Url(&'a str),
    Base64 { kind: &'a str, data: &'a str },
}

impl<'a> Source<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let starts = |prefix: &str| url.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        if starts("https://") || starts("http://") {
            return Some(Self::Url(url));
        }
        let (head, data) = url.get(5..).filter(|_| starts("data:"))?.split_once(',')?;
        let kind = head.strip_suffix(";base64")?.split(';').next()?;
        // A common misnomer, which Messages rejects.
        let kind = if kind == "image/jpg" { "image/jpeg" } else { kind };
        Some(Self::Base64 { kind, data })
    }

    /// Appends an image block, or a document block for a PDF, without its closing brace.
    fn write(&self, out: &mut Vec<u8>, title: Option<&RawValue>) {
        let is_pdf = matches!(self, Self::Base64 { kind: "application/pdf", .. });
        if is_pdf { self.write_as(out, "document", title) } else { self.write_as(out, "image", None) }
    }

    fn write_as(&self, out: &mut Vec<u8>, block: &str, title: Option<&RawValue>) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(block.as_bytes());
        match self {
            Self::Url(url) => {
                out.extend_from_slice(b"\",\"source\":{\"type\":\"url\",\"url\":");
                json::string(out, url);
            }
            Self::Base64 { kind, data } => {
                out.extend_from_slice(b"\",\"source\":{\"type\":\"base64\",\"media_type\":");
                json::string(out, kind);
                out.extend_from_slice(b",\"data\":");
                base64(out, data);
            }
        }
        out.push(b'}');
        if title.is_some_and(|title| !raw::is_blank(title)) {
            raw::member(out, "title", title);
        }
    }
}

/// Appends base64 as a string. Its characters need no escapes, and it may be megabytes long.
fn base64(out: &mut Vec<u8>, data: &str) {
    let needs_escapes = memchr::memchr2(b'"', b'\\', data.as_bytes()).is_some() || data.bytes().any(|byte| byte < b' ');
    if needs_escapes {
        json::string(out, data);
        return;
    }
    out.reserve(data.len() + 2);
    out.push(b'"');
    out.extend_from_slice(data.as_bytes());
    out.push(b'"');
}

/// An id of a tool call in the characters that Messages accepts. Engines write ids such as `functions.search:0`.
pub(super) fn call_id(id: &str) -> Cow<'_, str> {
    let accepted = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if id.chars().all(accepted) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.chars().map(|character| if accepted(character) { character } else { '_' }).collect())
}
