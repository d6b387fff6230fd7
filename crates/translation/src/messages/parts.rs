//! Content blocks that become parts of a chat user message or the text of a tool message.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    content::{Block, Content, Path},
    provider_tools,
};
use crate::{
    Dropped, Unsupported,
    json::{filled, inner, put, quoted},
    readable::kind_name,
};

/// A part of a user message. All text is escaped.
#[derive(Debug)]
pub(super) enum Part<'a> {
    Text(Cow<'a, str>),
    /// An image at a URL.
    ImageUrl(&'a str),
    /// An image in base64.
    Image {
        media_type: &'a str,
        data: &'a str,
    },
    /// A PDF in base64.
    File {
        media_type: &'a str,
        data: &'a str,
        title: Option<&'a str>,
    },
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    media_type: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    url: Option<&'a RawValue>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Citations {
    #[serde(default)]
    enabled: bool,
}

impl Part<'_> {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                out.extend_from_slice(br#"{"type":"text","text":"#);
                quoted(out, text);
                out.push(b'}');
            }
            Self::ImageUrl(url) => {
                out.extend_from_slice(br#"{"type":"image_url","image_url":{"url":"#);
                quoted(out, url);
                out.extend_from_slice(b"}}");
            }
            Self::Image { media_type, data } => {
                out.extend_from_slice(br#"{"type":"image_url","image_url":{"url":""#);
                push_data_url(out, media_type, data);
                out.extend_from_slice(b"\"}}");
            }
            Self::File { media_type, data, title } => {
                out.extend_from_slice(br#"{"type":"file","file":{"filename":"#);
                quoted(out, title.unwrap_or("document.pdf"));
                out.extend_from_slice(br#","file_data":""#);
                push_data_url(out, media_type, data);
                out.extend_from_slice(b"\"}}");
            }
        }
    }
}

fn push_data_url(out: &mut Vec<u8>, media_type: &str, data: &str) {
    put(out, &["data:", media_type, ";base64,", data]);
}

/// Reads a block of a user message or of a tool result.
pub(super) fn read<'a>(
    block: &Block<'a>,
    path: Path,
    dropped: &mut Dropped,
    parts: &mut Vec<Part<'a>>,
) -> Result<(), Unsupported> {
    dropped.note("cache_control", block.cache_control.as_ref());
    match &*block.r#type {
        "text" => {
            let Some(text) = block.text.and_then(inner) else {
                return Err(path.error("text", "a text block needs a string as its `text`"));
            };
            // The API rejects empty text; some clients send it between blocks.
            if !text.is_empty() {
                parts.push(Part::Text(Cow::Borrowed(text)));
            }
        }
        "image" => parts.push(image(block, path)?),
        "document" => document(block, path, dropped, parts)?,
        "search_result" => {
            no_citations(block, path)?;
            let text = texts(Content::read(block.content, path)?, path)?;
            let from = block.source.and_then(inner);
            let attributes = [("source", from), ("title", filled(block.title))];
            parts.push(Part::Text(tagged("search_result", &attributes, &text).into()));
        }
        "tool_reference" => {
            // All tools are given to the model in full, so a reference only says which one was found.
            let name = filled(block.tool_name).unwrap_or_default();
            parts.push(Part::Text(format!("Available tool: {name}").into()));
        }
        // A file for the provider's code execution.
        "container_upload" => dropped.add("messages[].content[].container_upload"),
        kind => {
            // What nobody can read is no result of a tool, and would be missed.
            let text = provider_tools::text(block, "", "").filter(|_| kind != "tool_use");
            let Some(text) = text else {
                let message = format!("chat backends cannot take a content block of type `{kind}` here; remove it");
                return Err(path.error("type", message));
            };
            dropped.add(&format!("messages[].content[].{}", kind_name(kind)));
            parts.push(Part::Text(text.into()));
        }
    }
    Ok(())
}

fn source<'a>(block: &Block<'a>, path: Path) -> Result<Source<'a>, Unsupported> {
    let raw = block.source.map_or("null", RawValue::get);
    serde_json::from_str(raw).map_err(|error| path.error("source", format!("`{path}.source` is malformed: {error}")))
}

fn image<'a>(block: &Block<'a>, path: Path) -> Result<Part<'a>, Unsupported> {
    let source = source(block, path)?;
    match &*source.r#type {
        "base64" => {
            let (media_type, data) = base64(&source, path)?;
            Ok(Part::Image { media_type, data })
        }
        "url" => match filled(source.url) {
            Some(url) => Ok(Part::ImageUrl(url)),
            None => Err(path.error("source.url", "an image of type `url` needs a `url`")),
        },
        kind => Err(unknown_source(kind, path)),
    }
}

fn base64<'a>(source: &Source<'a>, path: Path) -> Result<(&'a str, &'a str), Unsupported> {
    let media_type = filled(source.media_type);
    let media_type =
        media_type.ok_or_else(|| path.error("source.media_type", "a base64 source needs a `media_type`"))?;
    let data = filled(source.data).ok_or_else(|| path.error("source.data", "a base64 source needs `data`"))?;
    Ok((media_type, data))
}

fn unknown_source(kind: &str, path: Path) -> Unsupported {
    path.error("source.type", format!("chat backends cannot read a source of type `{kind}`; send the data as base64"))
}

fn document<'a>(
    block: &Block<'a>,
    path: Path,
    dropped: &mut Dropped,
    parts: &mut Vec<Part<'a>>,
) -> Result<(), Unsupported> {
    no_citations(block, path)?;
    let source = source(block, path)?;
    let attributes = [("title", filled(block.title)), ("context", filled(block.context))];
    match &*source.r#type {
        "base64" => {
            let (media_type, data) = base64(&source, path)?;
            if let Some(context) = filled(block.context) {
                parts.push(Part::Text(Cow::Borrowed(context)));
            }
            parts.push(Part::File { media_type, data, title: filled(block.title) });
        }
        "text" => {
            let text = source.data.and_then(inner);
            let text = text.ok_or_else(|| path.error("source.data", "a document of type `text` needs `data`"))?;
            parts.push(Part::Text(tagged("document", &attributes, text).into()));
        }
        "content" => {
            let (text, blocks) = match Content::read(source.content, path)? {
                Content::Text(text) => (text, Vec::new()),
                Content::Blocks(blocks) => ("(its content follows)", blocks),
            };
            parts.push(Part::Text(tagged("document", &attributes, text).into()));
            for (at, block) in blocks.iter().enumerate() {
                if !matches!(&*block.r#type, "text" | "image") {
                    return Err(path.item(at).error("type", "a document contains only text and images"));
                }
                read(block, path.item(at), dropped, parts)?;
            }
        }
        kind => return Err(unknown_source(kind, path)),
    }
    Ok(())
}

/// Rejects a request for citations: a chat answer has none, so the answer would differ.
fn no_citations(block: &Block<'_>, path: Path) -> Result<(), Unsupported> {
    let wanted = block.citations.and_then(|raw| serde_json::from_str::<Citations>(raw.get()).ok());
    if wanted.is_some_and(|citations| citations.enabled) {
        return Err(path.error("citations", "chat backends cannot cite documents; disable citations"));
    }
    Ok(())
}

/// The text of content that may have only text.
fn texts(content: Content<'_>, path: Path) -> Result<Cow<'_, str>, Unsupported> {
    match content {
        Content::Text(text) => Ok(Cow::Borrowed(text)),
        Content::Blocks(blocks) => {
            let mut all = Vec::with_capacity(blocks.len());
            for (at, block) in blocks.iter().enumerate() {
                let text = block.text.and_then(inner).filter(|_| block.r#type == "text");
                all.push(text.ok_or_else(|| path.item(at).error("type", "only text blocks are possible here"))?);
            }
            Ok(all.join("\\n").into())
        }
    }
}

/// Escaped text within an XML element, the form in which Anthropic's models and others are used to documents.
fn tagged(element: &str, attributes: &[(&str, Option<&str>)], text: &str) -> String {
    let mut out = format!("<{element}");
    for (name, value) in attributes {
        if let Some(value) = value {
            for piece in [" ", name, "=\\\"", value, "\\\""] {
                out.push_str(piece);
            }
        }
    }
    out.push_str(">\\n");
    out.push_str(text);
    for piece in ["\\n</", element, ">"] {
        out.push_str(piece);
    }
    out
}
