//! The tokens of attachments: pictures by size and detail, sound and video by seconds, documents by pages.
//!
//! Only the head of an attachment is decoded, so that its length costs nothing.

mod base64;
mod pictures;
mod prices;
mod recording;

use self::base64::Base64;
pub use self::prices::Prices;

/// Pixels of a picture whose size is unknown, because it is given by its address or in another format.
const USUAL: (u64, u64) = (1024, 1024);
/// The smallest and the largest picture that are expected.
const SMALL: (u64, u64) = (200, 200);
const LARGE: (u64, u64) = (4096, 2048);
/// Seconds of sound and of video, and pages of a document, that are given by their address.
const USUAL_SOUND: f64 = 30.0;
const USUAL_VIDEO: f64 = 30.0;
const USUAL_PAGES: u64 = 4;
/// Bytes of the usual page.
const PAGE_BYTES: u64 = 50_000;
/// The factor by which the length of an attachment may differ from the estimate.
const DOUBT: u64 = 4;
/// Bytes at either end of a document that are searched for its number of pages.
const ENDS: usize = 8 << 10;

/// The kind of an attachment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A picture.
    Image,
    /// Sound.
    Audio,
    /// Moving pictures.
    Video,
    /// A document or another file.
    File,
}

/// An attachment as a request gives it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Attachment<'a> {
    /// Its kind, as the part of the request says; a media type takes precedence.
    pub class: Class,
    /// Its media type or its format; empty if only its data says.
    pub media: &'a str,
    /// The requested detail; empty if none is.
    pub detail: &'a str,
    /// Its base64, its data URL or its address, as it stands in JSON; empty if it is given by an id.
    pub data: &'a str,
}

/// An attachment's tokens: the expected number, and what it may be if the size or the model is unknown.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// The smallest number that is likely.
    pub least: u64,
    /// The expected number.
    pub expected: u64,
    /// The largest number that is likely.
    pub most: u64,
}

impl Weight {
    const fn exactly(tokens: u64) -> Self {
        Self { least: tokens, expected: tokens, most: tokens }
    }

    const fn about(tokens: u64) -> Self {
        Self { least: tokens / DOUBT, expected: tokens, most: tokens.saturating_mul(DOUBT) }
    }
}

/// The places where an attachment's bytes are.
enum Data<'a> {
    Here(Base64<'a>),
    Text(&'a str),
    Elsewhere,
}

impl Attachment<'_> {
    /// Its kind by its media type, or as its part says.
    pub(crate) fn class(&self) -> Class {
        let kind = |media: &str| {
            let family = media.split(['/', ';']).next().unwrap_or_default();
            let of = |name: &str| family.eq_ignore_ascii_case(name);
            let classes = [("image", Class::Image), ("audio", Class::Audio), ("video", Class::Video)];
            classes.into_iter().find_map(|(name, class)| of(name).then_some(class))
        };
        kind(self.media_type()).unwrap_or(self.class)
    }

    /// Its media type: that of the data URL, or the one beside the data.
    fn media_type(&self) -> &str {
        match data_url(self.data) {
            Some((head, _)) if !head.is_empty() && !head.starts_with(';') => head,
            _ => self.media,
        }
    }

    /// Tokens that models with these `prices` take for it.
    pub(crate) fn weight(&self, prices: &Prices) -> Weight {
        let data = self.data();
        match self.class() {
            Class::Image => self.picture(&data, prices),
            Class::Audio => {
                let seconds = data.bytes().map_or(USUAL_SOUND, |bytes| recording::sound(bytes, self.media_type()));
                Weight::about((seconds * prices.sound).ceil() as u64)
            }
            Class::Video => {
                let seconds = data.bytes().map_or(USUAL_VIDEO, recording::video);
                Weight::about((seconds * prices.video).ceil() as u64)
            }
            Class::File => self.file(&data, prices),
        }
    }

    fn data(&self) -> Data<'_> {
        let Some((head, rest)) = data_url(self.data) else {
            let is_address = memchr::memchr(b':', &self.data.as_bytes()[..self.data.len().min(32)]).is_some();
            let is_here = !is_address && !self.data.is_empty();
            return if is_here { Data::Here(Base64::new(self.data)) } else { Data::Elsewhere };
        };
        let is_base64 = head.split(';').any(|word| word.trim().eq_ignore_ascii_case("base64"));
        if is_base64 { Data::Here(Base64::new(rest)) } else { Data::Text(rest) }
    }

    fn picture(&self, data: &Data<'_>, prices: &Prices) -> Weight {
        let low = self.detail.eq_ignore_ascii_case("low");
        let of = |size| prices.pictures.tokens(size, low);
        match data.bytes().and_then(pictures::size) {
            Some(size) if prices.known => Weight::exactly(of(size)),
            Some(size) => Weight { least: of(SMALL).min(of(size)), expected: of(size), most: of(size) * 2 },
            None => Weight { least: of(SMALL), expected: of(USUAL), most: of(LARGE) },
        }
    }

    fn file(&self, data: &Data<'_>, prices: &Prices) -> Weight {
        let media = self.media_type();
        let text = |bytes: u64| Weight::about(bytes / 4);
        let is_text = [b"text/".as_slice(), b"application/json", b"application/xml"]
            .iter()
            .any(|kind| media.as_bytes().get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind)));
        match data {
            Data::Text(written) => text(written.len() as u64),
            Data::Here(bytes) if is_text => text(bytes.len()),
            Data::Here(bytes) => {
                let pages = pages(bytes).unwrap_or_else(|| bytes.len().div_ceil(PAGE_BYTES));
                Weight::about(pages * prices.page)
            }
            Data::Elsewhere => Weight::about(USUAL_PAGES * prices.page),
        }
    }
}

impl<'a> Data<'a> {
    const fn bytes(&self) -> Option<&Base64<'a>> {
        match self {
            Self::Here(bytes) => Some(bytes),
            Self::Text(_) | Self::Elsewhere => None,
        }
    }
}

/// The head of a data URL, without the scheme, and its data.
fn data_url(text: &str) -> Option<(&str, &str)> {
    let rest = text.split_at_checked(5).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("data:"))?.1;
    rest.split_once(',')
}

/// True if a text is an attachment's own data or its address, and not a text to be read.
pub(crate) fn is_reference(text: &str) -> bool {
    let begins = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    ["data:", "http://", "https://", "http:\\/\\/", "https:\\/\\/", "gs://", "s3://"]
        .iter()
        .any(|scheme| begins(scheme))
}

/// The number of pages that a PDF names near either end.
fn pages(document: &Base64<'_>) -> Option<u64> {
    let head = document.read(0, ENDS);
    if !head.starts_with(b"%PDF") {
        return None;
    }
    let number = |text: &[u8]| {
        let digits = text.trim_ascii_start();
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        std::str::from_utf8(&digits[..end]).ok()?.parse::<u64>().ok()
    };
    // A document for the web names its pages in its first lines.
    let first = &head[..head.len().min(512)];
    if let Some(at) = memchr::memmem::find(first, b"/Linearized")
        && let Some(found) = memchr::memmem::find(&first[at..], b"/N ")
    {
        return number(&first[at + found + 3..]);
    }
    let counts = |text: &[u8]| {
        let found = memchr::memmem::find_iter(text, b"/Count");
        found.filter_map(|at| number(&text[at + 6..])).max()
    };
    let most = counts(&head).max(counts(&document.tail(ENDS)));
    most.filter(|pages| (1..=document.len().max(1)).contains(pages))
}

#[cfg(test)]
mod tests;
