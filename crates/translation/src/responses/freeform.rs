//! Extracts the text of a custom tool's call from the JSON arguments `{"input": "…"}` as they arrive.

use crate::json::escaped;

/// The longest beginning that is searched for the text.
const LONGEST_HEAD: usize = 256;

/// Reads the arguments in pieces. The text is written escaped, as the content of a JSON string.
#[derive(Debug)]
pub(super) enum Freeform {
    /// The text has not begun.
    Before(String),
    /// Within the text; holds an escape whose end has not arrived.
    Inside(String),
    /// After the text.
    After,
    /// The model wrote the text without JSON around it.
    Plain,
}

/// An escape at the beginning of a text.
enum Escape {
    /// Its end has not arrived.
    Open,
    /// It is valid and has this length.
    Valid(usize),
    /// One half of a surrogate pair, of this length.
    Half(usize),
    /// A backslash without meaning.
    Literal,
}

impl Freeform {
    pub(super) fn new() -> Self {
        Self::Before(String::new())
    }

    /// Adds a piece of the arguments and appends the text in it.
    pub(super) fn feed(&mut self, piece: &str, out: &mut Vec<u8>) {
        match self {
            Self::After => {}
            Self::Plain => escaped(out, piece),
            Self::Inside(open) => {
                let text = std::mem::take(open) + piece;
                *self = inside(&text, out);
            }
            Self::Before(head) => {
                head.push_str(piece);
                match begin(head) {
                    Begin::Open if head.len() <= LONGEST_HEAD => {}
                    Begin::At(at) => {
                        let text = head.split_off(at);
                        *self = inside(&text, out);
                    }
                    Begin::Open | Begin::Never => {
                        escaped(out, head);
                        *self = Self::Plain;
                    }
                }
            }
        }
    }

    /// Ends the arguments and appends what was held back.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        match std::mem::replace(self, Self::After) {
            Self::Inside(open) => escaped(out, &open),
            Self::Before(head) if head.split_whitespace().collect::<String>() != "{}" => escaped(out, &head),
            _ => {}
        }
    }
}

enum Begin {
    Open,
    At(usize),
    Never,
}

/// The position of the text in `{"input": "…`.
fn begin(head: &str) -> Begin {
    let rest = head.trim_start();
    let Some(rest) = rest.strip_prefix('{') else { return if rest.is_empty() { Begin::Open } else { Begin::Never } };
    let rest = rest.trim_start();
    let Some(rest) = rest.strip_prefix('"') else {
        // An empty object is an empty input, unless more follows.
        return if matches!(rest.trim_end(), "" | "}") { Begin::Open } else { Begin::Never };
    };
    let Some((key, rest)) = rest.split_once('"') else { return Begin::Open };
    let rest = rest.trim_start();
    let Some(rest) = rest.strip_prefix(':') else { return if rest.is_empty() { Begin::Open } else { Begin::Never } };
    let rest = rest.trim_start();
    match rest.strip_prefix('"') {
        Some(rest) if !key.contains('\\') => Begin::At(head.len() - rest.len()),
        None if rest.is_empty() => Begin::Open,
        _ => Begin::Never,
    }
}

/// Copies the text up to its closing quote.
fn inside(text: &str, out: &mut Vec<u8>) -> Freeform {
    let mut rest = text;
    loop {
        let Some(at) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) else {
            controlled(rest, out);
            return Freeform::Inside(String::new());
        };
        controlled(&rest[..at], out);
        rest = &rest[at..];
        if rest.starts_with('"') {
            return Freeform::After;
        }
        let length = match escape(rest.as_bytes()) {
            Escape::Open => return Freeform::Inside(rest.to_owned()),
            Escape::Valid(length) => {
                out.extend_from_slice(&rest.as_bytes()[..length]);
                length
            }
            Escape::Half(length) => {
                out.extend_from_slice("\u{fffd}".as_bytes());
                length
            }
            Escape::Literal => {
                out.extend_from_slice(br"\\");
                1
            }
        };
        rest = &rest[length..];
    }
}

/// Copies a run without quotes and backslashes. Models write line breaks into strings, which JSON does not allow.
fn controlled(run: &str, out: &mut Vec<u8>) {
    if run.bytes().any(|byte| byte < 0x20) {
        escaped(out, run);
    } else {
        out.extend_from_slice(run.as_bytes());
    }
}

/// Reads the escape at the beginning of `text`, which begins with a backslash.
fn escape(text: &[u8]) -> Escape {
    match text.get(1) {
        None => Escape::Open,
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Escape::Valid(2),
        Some(b'u') => match unit(text) {
            Ok(0xd800..=0xdbff) => match (text.get(6), text.get(7)) {
                (None, _) | (Some(b'\\'), None) => Escape::Open,
                (Some(b'\\'), Some(b'u')) => match unit(&text[6..]) {
                    Ok(0xdc00..=0xdfff) => Escape::Valid(12),
                    Err(true) => Escape::Open,
                    _ => Escape::Half(6),
                },
                _ => Escape::Half(6),
            },
            Ok(0xdc00..=0xdfff) => Escape::Half(6),
            Ok(_) => Escape::Valid(6),
            Err(true) => Escape::Open,
            Err(false) => Escape::Literal,
        },
        Some(_) => Escape::Literal,
    }
}

/// The code unit of `\uXXXX`. The error is true if its end has not arrived.
fn unit(text: &[u8]) -> Result<u16, bool> {
    let digits = &text[2..text.len().min(6)];
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(false);
    }
    if digits.len() < 4 {
        return Err(true);
    }
    std::str::from_utf8(digits).ok().and_then(|digits| u16::from_str_radix(digits, 16).ok()).ok_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pieces: &[&str]) -> String {
        let mut out = b"\"".to_vec();
        let mut freeform = Freeform::new();
        for piece in pieces {
            freeform.feed(piece, &mut out);
        }
        freeform.finish(&mut out);
        out.push(b'"');
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn the_text_is_found_in_pieces() {
        let arguments = r#" {"input" : "a\n\"b\" \u00e9 \ud83d\ude00 ü"} "#;
        assert_eq!(text(&[arguments]), "a\n\"b\" é 😀 ü");
        let pieces: Vec<String> = arguments.chars().map(String::from).collect();
        assert_eq!(text(&pieces.iter().map(String::as_str).collect::<Vec<_>>()), "a\n\"b\" é 😀 ü");
    }

    #[test]
    fn sloppy_arguments_keep_their_text() {
        assert_eq!(text(&["*** Begin", " Patch\n"]), "*** Begin Patch\n");
        assert_eq!(text(&["{\"input\":\"a\nb\"}"]), "a\nb");
        assert_eq!(text(&[r#"{"patch":"x\qy"}"#]), r"x\qy");
        assert_eq!(text(&[r#"{"input":"\ud83d-\ude00"}"#]), "\u{fffd}-\u{fffd}");
        assert_eq!(text(&[r#"{"input":"cut \"#]), r"cut \");
        assert_eq!(text(&[r#"{"input":7}"#]), r#"{"input":7}"#);
        assert_eq!(text(&["{}"]), "");
        assert_eq!(text(&[]), "");
    }
}
