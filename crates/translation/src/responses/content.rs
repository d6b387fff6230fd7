//! Content of messages and tool outputs: `input_text`, `output_text`, `input_image`, `input_file` and others.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Unsupported,
    json::{comma, inner, part, put, word},
    unsupported,
};

/// A part of a message in its chat form.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// Text, escaped as in JSON, without quotes.
    Text(&'a str),
    /// A whole content part of a user message: an image, a file, audio.
    Media(Vec<u8>),
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    #[serde(borrow)]
    file_id: Option<&'a RawValue>,
    #[serde(borrow)]
    file_data: Option<&'a RawValue>,
    #[serde(borrow)]
    file_url: Option<&'a RawValue>,
    #[serde(borrow)]
    filename: Option<&'a RawValue>,
    #[serde(borrow)]
    input_audio: Option<&'a RawValue>,
    #[serde(borrow)]
    video_url: Option<&'a RawValue>,
}

/// The pieces of `raw`, a string or a list of parts. `at` is its path.
pub(super) fn pieces<'a>(raw: Option<&'a RawValue>, at: &str) -> Result<Vec<Piece<'a>>, Unsupported> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    if let Some(text) = inner(raw) {
        return Ok(vec![Piece::Text(text)]);
    }
    let parts: Vec<Part<'a>> = part(raw, at)?;
    parts.iter().enumerate().map(|(index, part)| part.piece(&format!("{at}[{index}]"))).collect()
}

impl<'a> Part<'a> {
    fn piece(&self, at: &str) -> Result<Piece<'a>, Unsupported> {
        let kind = word(self.r#type);
        let missing = |name: &str| unsupported(format!("{at}.{name}"), format!("`{kind}` needs a string `{name}`"));
        let text = |name: &str, raw: Option<&'a RawValue>| raw.and_then(inner).ok_or_else(|| missing(name));
        match kind {
            "input_text" | "output_text" | "text" | "summary_text" | "reasoning_text" => {
                text("text", self.text).map(Piece::Text)
            }
            // The words that the model said; chat engines ignore the field `refusal` of their own answers.
            "refusal" => text("refusal", self.refusal).map(Piece::Text),
            "input_image" => self.image(at),
            "input_file" => self.file(at),
            "input_audio" => {
                let audio = self.input_audio.ok_or_else(|| missing("input_audio"))?;
                Ok(media(&[r#"{"type":"input_audio","input_audio":"#, audio.get(), "}"]))
            }
            "input_video" => {
                let url = text("video_url", self.video_url)?;
                Ok(media(&[r#"{"type":"video_url","video_url":{"url":""#, url, "\"}}"]))
            }
            _ => Err(unsupported(
                format!("{at}.type"),
                format!(
                    "content of type `{kind}` cannot be sent to a chat backend; use `input_text`, `input_image`, \
                     `input_file` or `input_audio`"
                ),
            )),
        }
    }

    fn image(&self, at: &str) -> Result<Piece<'a>, Unsupported> {
        let Some(url) = self.image_url.and_then(inner) else {
            let (name, message) = if self.file_id.is_some() {
                (
                    "file_id",
                    "images by `file_id` cannot be sent to a chat backend; send `image_url`, which may be a data URL",
                )
            } else {
                ("image_url", "`input_image` needs `image_url` as a string, which may be a data URL")
            };
            return Err(unsupported(format!("{at}.{name}"), message));
        };
        let mut part = Vec::with_capacity(url.len() + 64);
        put(&mut part, &[r#"{"type":"image_url","image_url":{"url":""#, url, "\""]);
        match word(self.detail) {
            "" | "auto" => {}
            // Chat knows no finer grade than `high`.
            "original" => put(&mut part, &[r#","detail":"high""#]),
            detail => put(&mut part, &[r#","detail":""#, detail, "\""]),
        }
        put(&mut part, &["}}"]);
        Ok(Piece::Media(part))
    }

    fn file(&self, at: &str) -> Result<Piece<'a>, Unsupported> {
        if self.file_url.is_some() && self.file_data.is_none() && self.file_id.is_none() {
            let message = "files by URL cannot be sent to a chat backend; send their content as `file_data`";
            return Err(unsupported(format!("{at}.file_url"), message));
        }
        let mut part = br#"{"type":"file","file":{"#.to_vec();
        for (name, value) in [("filename", self.filename), ("file_data", self.file_data), ("file_id", self.file_id)] {
            let Some(value) = value.filter(|value| inner(value).is_some()) else { continue };
            comma(&mut part);
            put(&mut part, &["\"", name, "\":", value.get()]);
        }
        put(&mut part, &["}}"]);
        Ok(Piece::Media(part))
    }
}

fn media<'a>(parts: &[&str]) -> Piece<'a> {
    Piece::Media(parts.concat().into_bytes())
}

/// Appends the texts, joined by `joint` (escaped), without quotes.
pub(super) fn joined(out: &mut Vec<u8>, pieces: &[Piece<'_>], joint: &str) {
    let texts = pieces.iter().filter_map(|piece| match piece {
        Piece::Text(text) => Some(*text),
        Piece::Media(_) => None,
    });
    for (index, text) in texts.enumerate() {
        put(out, &[if index == 0 { "" } else { joint }, text]);
    }
}

/// Appends the content of a user message: a string for one text, else a list of parts.
pub(super) fn user(out: &mut Vec<u8>, pieces: &[Piece<'_>]) {
    match pieces {
        [] => put(out, &["\"\""]),
        [Piece::Text(text)] => put(out, &["\"", text, "\""]),
        pieces => {
            out.push(b'[');
            parts(out, pieces);
            out.push(b']');
        }
    }
}

/// Appends content parts, separated by commas.
pub(super) fn parts(out: &mut Vec<u8>, pieces: &[Piece<'_>]) {
    for piece in pieces {
        comma(out);
        match piece {
            Piece::Text(text) => put(out, &[r#"{"type":"text","text":""#, text, "\"}"]),
            Piece::Media(part) => out.extend_from_slice(part),
        }
    }
}

/// The position of the first piece that is not text.
pub(super) fn first_media(pieces: &[Piece<'_>]) -> Option<usize> {
    pieces.iter().position(|piece| matches!(piece, Piece::Media(_)))
}
