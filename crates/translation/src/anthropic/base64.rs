//! Base64 as clients write it, and the kind of file that it holds.

use std::borrow::Cow;

use ::base64::{Engine as _, engine::general_purpose::STANDARD};

/// The media type of a PDF.
pub(super) const PDF: &str = "application/pdf";

/// The characters that are decoded to recognise a kind: 18 bytes.
const HEAD: usize = 24;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An image that Messages takes, with its media type.
    Image(&'static str),
    Pdf,
    /// Any other, with the name of its format if that is known.
    Other(&'static str),
}

impl Kind {
    /// The kind that a media type in lower case names.
    pub(super) fn declared(media_type: &str) -> Self {
        match media_type {
            "image/jpeg" | "image/jpg" | "image/pjpeg" | "image/jfif" | "image/jpe" => Self::Image("image/jpeg"),
            "image/png" | "image/x-png" | "image/apng" => Self::Image("image/png"),
            "image/gif" => Self::Image("image/gif"),
            "image/webp" | "image/x-webp" => Self::Image("image/webp"),
            PDF | "application/x-pdf" => Self::Pdf,
            "image/svg+xml" | "image/svg" => Self::Other("SVG"),
            _ => Self::Other(""),
        }
    }

    /// The kind that the first bytes of a file tell.
    fn of(head: &[u8]) -> Option<Self> {
        let brand = head.get(4..12);
        Some(match head {
            [0xff, 0xd8, 0xff, ..] => Self::Image("image/jpeg"),
            [0x89, b'P', b'N', b'G', ..] => Self::Image("image/png"),
            [b'G', b'I', b'F', b'8', ..] => Self::Image("image/gif"),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Self::Image("image/webp"),
            [b'%', b'P', b'D', b'F', ..] => Self::Pdf,
            [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => Self::Other("BMP"),
            [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Self::Other("TIFF"),
            [0, 0, 1, 0, ..] => Self::Other("ICO"),
            [b'<', b's', b'v', b'g', ..] => Self::Other("SVG"),
            _ => match brand {
                Some(b"ftypavif" | b"ftypavis") => Self::Other("AVIF"),
                Some(b"ftypheic" | b"ftypheix" | b"ftyphevc" | b"ftypmif1" | b"ftypmsf1") => Self::Other("HEIF"),
                _ => return None,
            },
        })
    }
}

/// The kind of file that base64 holds. `None` if its beginning says nothing, or is not base64.
pub(super) fn kind(data: &str) -> Option<Kind> {
    let mut head: Cow<'_, str> = Cow::Borrowed(data.get(..HEAD).unwrap_or(data));
    if !is_standard(head.as_bytes()) {
        // Four times as many characters hold a beginning that is wrapped or escaped.
        let start: String = data.chars().take(4 * HEAD).collect();
        let all = collect(&start)?;
        head = Cow::Owned(all.get(..all.len().min(HEAD) / 4 * 4)?.to_owned());
    }
    Kind::of(&STANDARD.decode(&*head).ok()?)
}

/// The text that standard base64 holds, if it is UTF-8.
pub(super) fn text(data: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(data).ok()?).ok()
}

/// Base64 in the standard alphabet, with padding and without white space. `None` if it is not base64, or empty.
pub(super) fn standard(data: &str) -> Option<Cow<'_, str>> {
    if is_standard(data.as_bytes()) {
        return Some(Cow::Borrowed(data));
    }
    let mut out = collect(data)?;
    match out.len() % 4 {
        0 => {}
        2 => out.push_str("=="),
        3 => out.push('='),
        _ => return None,
    }
    (!out.is_empty()).then_some(Cow::Owned(out))
}

/// The characters of base64 in the standard alphabet, without white space and padding.
fn collect(data: &str) -> Option<String> {
    let mut out = String::with_capacity(data.len() + 2);
    let mut bytes = data.bytes();
    let mut padded = false;
    while let Some(mut byte) = bytes.next() {
        if byte == b'%' {
            // Escaped as in a URL.
            let digits = [bytes.next()?, bytes.next()?];
            byte = u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | 0x0c => {}
            b'=' => padded = true,
            _ if padded => return None,
            b'-' => out.push('+'),
            b'_' => out.push('/'),
            b'+' | b'/' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            _ => return None,
        }
    }
    Some(out)
}

/// True for base64 in the standard form.
fn is_standard(data: &[u8]) -> bool {
    let padding = data.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let digits = &data[..data.len() - padding];
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !digits.is_empty() && data.len().is_multiple_of(4) && digits.iter().all(is_digit)
}
