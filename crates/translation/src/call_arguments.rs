//! The arguments of a tool call, as pieces of text that arrive one after another.
//!
//! They should be one JSON object. Engines also write nothing, white space, `null` or an empty list for no arguments, an empty object
//! before the real one, JSON within a JSON string, or more after the object's end. What comes out is the object they mean;
//! an object is passed on piece by piece, as it comes.

use serde_json::Value;

use super::json::escaped;

/// The most strings within each other that arguments are read from.
const DEEPEST: u8 = 4;

/// The arguments of one call. All text is escaped, as within the quotes of a JSON string.
#[derive(Debug, Default)]
pub(super) struct CallArguments {
    state: State,
    /// Text that may not have to be shown.
    held: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing but white space, or `null`.
    #[default]
    Blank,
    /// An opening brace, which is held.
    Brace,
    /// An empty object, which is held: some engines send one before the real arguments.
    Empty,
    /// So many letters of `null`.
    Null(u8),
    /// Something that does not begin as an object, all of which is held.
    Other,
    /// Within an object, which is shown as it comes.
    Object { depth: u32, in_string: bool, after_backslash: bool },
    /// The object has ended. What follows is none of it.
    Over,
}

/// The end of a call's arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// There were none.
    None,
    /// Text that completes what was shown, which may be nothing.
    Text(String),
    /// All of the text, which is no object.
    NoObject(String),
}

impl CallArguments {
    /// The text that completes what was shown, for an API without a place for arguments that are no object.
    pub(super) fn rest(&mut self) -> String {
        match self.finish() {
            Rest::None => "{}".to_owned(),
            Rest::Text(rest) | Rest::NoObject(rest) => rest,
        }
    }

    /// Adds a piece. Appends to `shown` what can be passed on of it.
    pub(super) fn push(&mut self, piece: &str, shown: &mut String) {
        let mut rest = piece;
        while !rest.is_empty() {
            let (char, length) = first_char(rest);
            let (now, later) = rest.split_at(length);
            rest = later;
            match (self.state, char) {
                (State::Over, _) => return,
                (State::Blank | State::Empty, b' ' | b'\t' | b'\n' | b'\r') => {}
                (State::Blank | State::Empty, b'{') => self.hold(State::Brace, now),
                (State::Blank, b'n') => self.hold(State::Null(1), now),
                (State::Blank, _) | (State::Empty, b'"') => self.hold(State::Other, now),
                (State::Empty, _) => {}
                (State::Null(count), char) => {
                    self.held.push_str(now);
                    self.state = match b"null".get(usize::from(count)) {
                        Some(letter) if *letter == char && count == 3 => State::Blank,
                        Some(letter) if *letter == char => State::Null(count + 1),
                        _ => State::Other,
                    };
                }
                (State::Brace, b' ' | b'\t' | b'\n' | b'\r') => self.held.push_str(now),
                (State::Brace, b'}') => {
                    self.held.push_str(now);
                    self.state = State::Empty;
                }
                (State::Other, _) => {
                    self.held.push_str(now);
                    self.held.push_str(std::mem::take(&mut rest));
                }
                (State::Brace, _) => {
                    shown.push_str(&std::mem::take(&mut self.held));
                    self.state = State::Object { depth: 1, in_string: false, after_backslash: false };
                    let whole = &piece[piece.len() - rest.len() - length..];
                    rest = &whole[self.object(whole, shown)..];
                }
                (State::Object { .. }, _) => {
                    let whole = &piece[piece.len() - rest.len() - length..];
                    rest = &whole[self.object(whole, shown)..];
                }
            }
        }
    }

    /// Begins to hold text back.
    fn hold(&mut self, state: State, text: &str) {
        self.state = state;
        self.held.clear();
        self.held.push_str(text);
    }

    /// Shows text up to the end of the object. Returns its length.
    fn object(&mut self, text: &str, shown: &mut String) -> usize {
        let State::Object { mut depth, mut in_string, mut after_backslash } = self.state else { return text.len() };
        let mut at = 0;
        while at < text.len() {
            let (char, length) = first_char(&text[at..]);
            at += length;
            match char {
                _ if after_backslash => after_backslash = false,
                b'\\' => after_backslash = in_string,
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.state = State::Over;
                shown.push_str(&text[..at]);
                return at;
            }
        }
        self.state = State::Object { depth, in_string, after_backslash };
        shown.push_str(text);
        at
    }

    /// True if a whole object has arrived, so that more of it is not to be expected.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, State::Over | State::Empty)
    }

    /// True if a part of an object has arrived.
    pub(super) fn is_within(&self) -> bool {
        matches!(self.state, State::Object { .. })
    }

    /// True if nothing has arrived that means anything.
    pub(super) fn is_blank(&self) -> bool {
        self.state == State::Blank
    }

    /// Ends the arguments. Those of a call that was cut off stay as they are.
    pub(super) fn finish(&mut self) -> Rest {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.state, State::Over) {
            State::Blank => Rest::None,
            State::Empty => Rest::Text("{}".to_owned()),
            State::Brace => Rest::Text(held),
            State::Object { .. } | State::Over => Rest::Text(String::new()),
            State::Null(_) | State::Other if is_nothing(&held) => Rest::None,
            State::Null(_) | State::Other => nested(&held, DEEPEST).unwrap_or(Rest::NoObject(held)),
        }
    }
}

/// True for words that stand for no arguments in the languages of engines: PHP's empty list, and words of Python and
/// JavaScript.
fn is_nothing(escaped: &str) -> bool {
    matches!(escaped.trim_end_matches("\\n").trim_end(), "[]" | "[ ]" | "None" | "undefined")
}

/// The arguments that a JSON string in escaped text holds.
fn nested(text: &str, depth: u8) -> Option<Rest> {
    let decoded: String = serde_json::from_str(&["\"", text, "\""].concat()).ok()?;
    let Value::String(inner) = serde_json::from_str(&decoded).ok().filter(|_| depth > 0)? else { return None };
    let mut text = Vec::new();
    escaped(&mut text, &inner);
    let text = String::from_utf8(text).ok()?;
    match serde_json::from_str::<Value>(&inner) {
        Ok(Value::Object(_)) => Some(Rest::Text(text)),
        Ok(Value::Null) => Some(Rest::None),
        Err(_) if inner.trim().is_empty() => Some(Rest::None),
        _ => nested(&text, depth - 1),
    }
}

/// The first character of an escaped text that is not empty, if it is one of ASCII, and the length of its escape. Other
/// characters are taken byte by byte, but for escapes, as 0.
fn first_char(text: &str) -> (u8, usize) {
    let bytes = text.as_bytes();
    if bytes[0] != b'\\' {
        return if bytes[0].is_ascii() { (bytes[0], 1) } else { (0, text.chars().next().map_or(1, char::len_utf8)) };
    }
    match bytes.get(1) {
        Some(b'n') => (b'\n', 2),
        Some(b't') => (b'\t', 2),
        Some(b'r') => (b'\r', 2),
        Some(b'b' | b'f') => (0, 2),
        Some(b'u') => {
            let code = text.get(2..6).and_then(|code| u16::from_str_radix(code, 16).ok());
            (code.and_then(|code| u8::try_from(code).ok()).filter(u8::is_ascii).unwrap_or(0), 6.min(text.len()))
        }
        Some(other) if other.is_ascii() => (*other, 2),
        _ => (0, 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The decoded arguments of these decoded pieces.
    fn read(pieces: &[&str]) -> Result<String, String> {
        let (mut arguments, mut shown) = (CallArguments::default(), String::new());
        for piece in pieces {
            let mut text = Vec::new();
            escaped(&mut text, piece);
            arguments.push(std::str::from_utf8(&text).unwrap(), &mut shown);
        }
        let decode = |text: String| serde_json::from_str::<String>(&format!("\"{text}\"")).unwrap();
        match arguments.finish() {
            Rest::None if shown.is_empty() => Ok("{}".to_owned()),
            Rest::Text(rest) => Ok(decode(shown + &rest)),
            Rest::NoObject(text) if shown.is_empty() => Err(decode(text)),
            rest => panic!("{shown} {rest:?}"),
        }
    }

    #[test]
    fn what_engines_write_for_no_arguments_is_an_empty_object() {
        for pieces in [
            &[][..],
            &["", " \n"],
            &["null"],
            &["nu", "ll", " "],
            &["{}"],
            &["{", " }"],
            &["{}", "\n"],
            &["null", "{}"],
            &["\"\""],
            &["\"{}\""],
            &["\"null\""],
            &["[", "]"],
            &["None"],
            &["undefined\n"],
        ] {
            let read: Value = serde_json::from_str(&read(pieces).unwrap()).unwrap();
            assert_eq!(read, serde_json::json!({}), "{pieces:?}");
        }
    }

    #[test]
    fn the_object_that_is_meant_comes_out() {
        let want = r#"{"a":"}\"{\\","b":[{}]}"#;
        let twice = Value::from(want).to_string();
        let thrice = Value::from(&*twice).to_string();
        for pieces in [
            &[want][..],
            &[&want[..7], &want[7..]],
            &["{}", want],
            &["null", want],
            &["  ", want, "  "],
            &[want, want],
            &[want, "<|end|>"],
            &[&*twice],
            &[&twice[..5], &twice[5..]],
            &[&*thrice],
            &["{}", &twice],
        ] {
            assert_eq!(read(pieces).as_deref(), Ok(want), "{pieces:?}");
        }
    }

    #[test]
    fn arguments_that_are_no_object_or_cut_off_stay_as_they_are() {
        for text in ["[1]", "7", "\"a\"", "no", "nul", "nope", "rm -rf {}"] {
            assert_eq!(read(&[text]), Err(text.to_owned()));
        }
        for text in ["{", "{\"a", "{\"a\":{}"] {
            assert_eq!(read(&[text]), Ok(text.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(key in ".{0,5}", value in ".{0,9}", cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let want = serde_json::json!({ key: [value, null, { "x": "}{" }] }).to_string();
            let mut at: Vec<usize> = cuts.iter().map(|cut| want.floor_char_boundary(cut.index(want.len() + 1))).collect();
            at.extend([0, want.len()]);
            at.sort_unstable();
            let pieces: Vec<&str> = at.windows(2).map(|pair| &want[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces), Ok(want.clone()));
        }

        #[test]
        fn arbitrary_pieces_do_not_panic(pieces in prop::collection::vec("[{}\\[\\]\" \\\\nula:é]{0,6}", 0..6)) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let _ = read(&pieces);
        }
    }
}
