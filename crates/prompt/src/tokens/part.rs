//! Finds what a part of a message refers to: pictures, sound, video and files in the members of every dialect.

use super::json::{Cursor, Flow, inside};
use crate::attachments::{Attachment, Class, is_reference};

/// Members that refer to an attachment in whatever object they are.
const ALWAYS: [(&str, Class); 15] = [
    ("image_url", Class::Image),
    ("imageUrl", Class::Image),
    ("image_file", Class::Image),
    ("image_embeds", Class::Image),
    ("input_image", Class::Image),
    ("input_audio", Class::Audio),
    ("audio_url", Class::Audio),
    ("audio_embeds", Class::Audio),
    ("video_url", Class::Video),
    ("input_video", Class::Video),
    ("file_data", Class::File),
    ("file_url", Class::File),
    ("inline_data", Class::File),
    ("inlineData", Class::File),
    ("fileData", Class::File),
];
/// Members that refer to an attachment if the part says that it is one, or if they hold data or an address.
const SOMETIMES: [(&str, Class); 8] = [
    ("image", Class::Image),
    ("images", Class::Image),
    ("audio", Class::Audio),
    ("video", Class::Video),
    ("videos", Class::Video),
    ("file", Class::File),
    ("document", Class::File),
    ("source", Class::File),
];
/// Bytes from which a text without spaces is data.
const DATA: usize = 256;

/// The members of a part that tell of attachments.
#[derive(Default)]
pub(super) struct Part<'a> {
    kind: &'a str,
    media: &'a str,
    detail: &'a str,
    /// Data beside the kind, which is an attachment's or opaque.
    data: &'a str,
    /// The result of a call: a picture or a text.
    result: &'a str,
    /// True if a file is given by its id.
    is_held: bool,
    sources: Vec<Source<'a>>,
    /// Values of [`SOMETIMES`] that came before the part's kind.
    unsure: Vec<(Class, &'a str)>,
}

/// A reference to an attachment: an address, data, an id or a text.
#[derive(Clone, Default)]
struct Source<'a> {
    class: Option<Class>,
    kind: &'a str,
    media: &'a str,
    detail: &'a str,
    data: &'a str,
    /// A raw value that holds a text, or parts.
    content: &'a str,
    is_held: bool,
}

/// The content of a part.
pub(super) struct Sorted<'a> {
    pub(super) attachments: Vec<Attachment<'a>>,
    /// Raw values to be read as text or as parts.
    pub(super) texts: Vec<&'a str>,
    /// A raw value that no model reads.
    pub(super) opaque: Option<&'a str>,
}

/// The kind of attachment that a part of this type is.
fn class_of(kind: &str) -> Option<Class> {
    match kind {
        "image"
        | "image_url"
        | "image_file"
        | "image_embeds"
        | "input_image"
        | "output_image"
        | "computer_screenshot"
        | "image_generation_call" => Some(Class::Image),
        "audio" | "audio_url" | "audio_embeds" | "input_audio" | "output_audio" => Some(Class::Audio),
        "video" | "video_url" | "input_video" => Some(Class::Video),
        "file" | "file_url" | "input_file" | "document" | "media" => Some(Class::File),
        _ => None,
    }
}

impl<'a> Part<'a> {
    /// Reads the value of the member `key` if it tells of attachments; true if it did.
    pub(super) fn takes(&mut self, cursor: &mut Cursor<'a>, key: &str) -> bool {
        let of = |list: &[(&str, Class)]| list.iter().find(|(name, _)| *name == key).map(|(_, class)| *class);
        match key {
            "type" => self.kind = inside(cursor.value()),
            "detail" => self.detail = inside(cursor.value()),
            "media_type" | "mime_type" | "mimeType" => self.media = inside(cursor.value()),
            "data" | "bytes" if cursor.peek() == Some(b'"') => self.data = cursor.value(),
            "result" => self.result = cursor.value(),
            "file_id" => self.is_held |= cursor.value().starts_with('"'),
            _ => match (of(&ALWAYS), of(&SOMETIMES)) {
                (Some(class), _) => self.read(cursor, class),
                (None, Some(class)) => match class_of(self.kind) {
                    Some(known) => self.read(cursor, if class == Class::File { known } else { class }),
                    None => self.unsure.push((class, cursor.value())),
                },
                (None, None) => return false,
            },
        }
        true
    }

    fn read(&mut self, cursor: &mut Cursor<'a>, class: Class) {
        if cursor.peek() == Some(b'[') {
            let _ = cursor.elements(&mut |cursor| {
                self.sources.push(Source::read(cursor, class));
                Flow::Continue(())
            });
        } else {
            self.sources.push(Source::read(cursor, class));
        }
    }

    /// Decides what each member holds.
    pub(super) fn sorted(mut self) -> Sorted<'a> {
        let mut sorted = Sorted { attachments: Vec::new(), texts: Vec::new(), opaque: None };
        let own = class_of(self.kind);
        for (class, raw) in std::mem::take(&mut self.unsure) {
            let before = self.sources.len();
            self.read(&mut Cursor::new(raw), if class == Class::File { own.unwrap_or(class) } else { class });
            if own.is_none() && !self.sources[before..].iter().any(|source| source.is_likely(class)) {
                self.sources.truncate(before);
                sorted.texts.push(raw);
            }
        }
        let is_attachment = own.is_some() || !self.media.is_empty();
        if self.data.len() > 2 && is_attachment {
            self.sources.push(Source { data: inside(self.data), ..Source::default() });
        } else if !self.data.is_empty() {
            sorted.opaque = Some(self.data);
        }
        if own == Some(Class::Image) && self.kind == "image_generation_call" {
            self.sources.push(Source { data: inside(self.result), ..Source::default() });
        } else if !self.result.is_empty() {
            sorted.texts.push(self.result);
        }
        if self.is_held && own.is_some() && self.sources.is_empty() {
            self.sources.push(Source { is_held: true, ..Source::default() });
        }
        for source in self.sources {
            let class = source.class.or(own).unwrap_or(Class::File);
            if !source.content.is_empty() {
                sorted.texts.push(source.content);
            } else if source.is_held || !source.data.is_empty() {
                let first = |own: &'a str, outer: &'a str| if own.is_empty() { outer } else { own };
                let (media, detail) = (first(source.media, self.media), first(source.detail, self.detail));
                sorted.attachments.push(Attachment { class, media, detail, data: source.data });
            }
        }
        sorted
    }
}

impl<'a> Source<'a> {
    fn read(cursor: &mut Cursor<'a>, class: Class) -> Self {
        let mut source = Self { class: Some(class), ..Self::default() };
        source.add(cursor);
        source
    }

    fn add(&mut self, cursor: &mut Cursor<'a>) {
        if cursor.peek() == Some(b'"') {
            self.data = inside(cursor.value());
            return;
        }
        let mut content = "";
        let _ = cursor.members(&mut |cursor, key| {
            match key {
                "type" => self.kind = inside(cursor.value()),
                "detail" => self.detail = inside(cursor.value()),
                "media_type" | "mime_type" | "mimeType" | "format" => self.media = inside(cursor.value()),
                "url" | "data" | "bytes" | "file_data" | "file_url" | "fileUri" | "file_uri" | "uri"
                    if cursor.peek() == Some(b'"') =>
                {
                    content = cursor.value();
                    self.data = inside(content);
                }
                "content" => content = cursor.value(),
                "id" | "file_id" => self.is_held |= cursor.value().starts_with('"'),
                // Bedrock has the data a level deeper.
                "source" | "s3Location" => self.add(cursor),
                _ => {}
            }
            Flow::Continue(())
        });
        if matches!(self.kind, "text" | "content") {
            self.content = content;
        }
    }

    /// True if it refers to an attachment although no part says so.
    fn is_likely(&self, class: Class) -> bool {
        let is_data = self.data.len() >= DATA && !self.data.as_bytes()[..DATA].contains(&b' ');
        // Earlier speech is given by its id. A document may name its source.
        is_data
            || self.is_held && class == Class::Audio
            || is_reference(self.data) && (class != Class::File || self.data.starts_with("data:"))
    }
}
