//! Locates the parts of a prompt in its hashed bytes: the end of its head, and the part that contains a byte.
//!
//! Positions are bytes of [`RequestBody::rendered`], one part after the other.

use memchr::memmem;

use super::{
    RequestBody,
    walk::{elements, inside, member, string},
};
use signalbox_types::{Head, HeadEnd, Located, Part};

/// A cache breakpoint as written in the body. Within a string its quotes would be escaped.
const BREAKPOINT: &[u8] = b"\"cache_control\"";

/// Number of bytes that are searched for breakpoints.
const SEARCHED: usize = 192 << 10;

/// A top-level member that the model reads.
struct Piece<'a> {
    name: &'a [u8],
    raw: &'a [u8],
    /// Its start in the rendered prompt.
    at: u64,
}

impl<'a> Piece<'a> {
    fn end(&self) -> u64 {
        self.at + inside(self.raw).len() as u64
    }

    /// Its messages, each with the position of its end; none if it is not a list of messages.
    fn messages(&self) -> impl Iterator<Item = (&'a [u8], u64)> {
        let (inner, at) = (inside(self.raw).as_ptr() as usize, self.at);
        let is_list = matches!(self.name, b"messages" | b"input");
        let all = elements(if is_list { self.raw } else { b"" }).filter(|message| message.starts_with(b"{"));
        all.map(move |message| {
            let end = (message.as_ptr() as usize + message.len()).saturating_sub(inner);
            (message, at + end as u64)
        })
    }
}

impl RequestBody {
    /// The head of the prompt: the beginning that is sent with every request.
    pub fn head(&self) -> Head {
        if let Some(bytes) = self.first_breakpoint() {
            return Head { bytes, end: HeadEnd::Breakpoint };
        }
        let mut system_end = 0;
        for piece in self.pieces() {
            if matches!(part(piece.name), Part::Tools | Part::System) {
                system_end = piece.end();
                continue;
            }
            let mut first = piece.end();
            for (message, end) in piece.messages() {
                if !is_instruction(message) {
                    first = end;
                    break;
                }
                system_end = end;
            }
            if system_end == 0 {
                return Head { bytes: first, end: HeadEnd::Unmarked };
            }
            break;
        }
        Head { bytes: system_end, end: HeadEnd::System }
    }

    /// The part that contains the byte `place`.
    pub fn locate(&self, place: u64) -> Located {
        let mut last = Located { part: Part::Prompt, goes_on: false };
        for piece in self.pieces() {
            last.part = part(piece.name);
            if place >= piece.end() {
                continue;
            }
            let (mut leads, mut messages) = (true, piece.messages().enumerate());
            while let Some((number, (message, end))) = messages.next() {
                leads &= is_instruction(message);
                if place < end {
                    let part = if leads { Part::System } else { Part::Message(number as u32) };
                    return Located { part, goes_on: messages.next().is_some() };
                }
            }
            return last;
        }
        last
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut at = 0;
        self.read_by_the_model().map(move |(name, raw)| {
            let piece = Piece { name, raw, at };
            at = piece.end();
            piece
        })
    }

    fn first_breakpoint(&self) -> Option<u64> {
        let mut at = 0;
        for part in self.rendered() {
            let left = SEARCHED.saturating_sub(at).min(part.len());
            let mut found = memmem::find_iter(&part[..left], BREAKPOINT);
            if let Some(found) = found.find(|found| is_breakpoint(&part[found + BREAKPOINT.len()..])) {
                return Some((at + found) as u64);
            }
            at += part.len();
        }
        None
    }
}

/// True if the text after the name is a breakpoint's value. `ephemeral` is the only type; a tool may have an argument
/// of the same name.
fn is_breakpoint(rest: &[u8]) -> bool {
    let value = rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
    value.and_then(|value| member(value, "type")).and_then(string) == Some(b"ephemeral")
}

fn part(name: &[u8]) -> Part {
    match name {
        b"tools" => Part::Tools,
        b"system" | b"instructions" | b"documents" => Part::System,
        b"messages" => Part::Message(0),
        _ => Part::Prompt,
    }
}

fn is_instruction(message: &[u8]) -> bool {
    matches!(member(message, "role").and_then(string), Some(b"system" | b"developer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Endpoint;

    fn body(endpoint: Endpoint, text: &str) -> RequestBody {
        RequestBody::json(endpoint, bytes::Bytes::copy_from_slice(text.as_bytes())).expect("a body")
    }

    /// The rendered prompt up to `place`.
    fn before(body: &RequestBody, place: u64) -> String {
        let all: Vec<u8> = body.rendered().flatten().copied().collect();
        String::from_utf8(all[..place as usize].to_vec()).unwrap()
    }

    #[test]
    fn the_head_ends_where_a_conversation_begins() {
        let chat = body(
            Endpoint::Chat,
            r#"{"model":"m","messages":[ {"role":"system","content":"Be [brief]."}, {"role":"developer","content":"x"},
               {"role":"user","content":"hi"},{"role":"system","content":"late"} ],"tools":[{"a":1}]}"#,
        );
        let head = chat.head();
        assert_eq!(head.end, HeadEnd::System);
        assert!(before(&chat, head.bytes).starts_with("{\"a\":1}{\"role\":\"system\""), "tools are read first");
        assert!(before(&chat, head.bytes).ends_with("\"content\":\"x\"}"));
        let part_at = |text: &str| {
            let all = before(&chat, chat.rendered().map(|part| part.len() as u64).sum());
            chat.locate(all.find(text).expect("a place") as u64)
        };
        assert_eq!(part_at("\"a\"").part, Part::Tools);
        assert_eq!(part_at("brief"), Located { part: Part::System, goes_on: true });
        assert_eq!(part_at("hi"), Located { part: Part::Message(2), goes_on: true });
        assert_eq!(part_at("late"), Located { part: Part::Message(3), goes_on: false });

        let messages = body(
            Endpoint::Messages,
            r#"{"model":"m","system":[{"type":"text","text":"abc"}],"messages":[{"role":"user","content":"x"}]}"#,
        );
        assert_eq!(before(&messages, messages.head().bytes), r#"{"type":"text","text":"abc"}"#);
        let responses =
            body(Endpoint::Responses, r#"{"model":"m","instructions":"abc","input":[{"role":"user","content":"x"}]}"#);
        assert_eq!(before(&responses, responses.head().bytes), "abc");
        assert_eq!(responses.locate(10).part, Part::Message(0));
    }

    #[test]
    fn without_a_system_prompt_the_head_is_the_first_message() {
        let chat = body(
            Endpoint::Chat,
            r#"{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"user","content":"ho"}]}"#,
        );
        let head = chat.head();
        assert_eq!((head.end, &*before(&chat, head.bytes)), (HeadEnd::Unmarked, r#"{"role":"user","content":"hi"}"#));
        let plain = body(Endpoint::Completions, r#"{"model":"m","prompt":"once upon"}"#);
        assert_eq!((plain.head(), plain.locate(3).part), (Head { bytes: 9, end: HeadEnd::Unmarked }, Part::Prompt));
        let form = RequestBody::opaque(bytes::Bytes::from_static(b"x"));
        assert_eq!((form.head().bytes, form.locate(0).part), (0, Part::Prompt));
    }

    #[test]
    fn the_first_breakpoint_ends_the_head() {
        let marked = body(
            Endpoint::Messages,
            r#"{"model":"m","system":[{"type":"text","text":"say \"cache_control\"","cache_control":{"type":"ephemeral"}}],
               "messages":[{"role":"user","content":"x"}],"cache_control":{}}"#,
        );
        let head = marked.head();
        assert_eq!(head.end, HeadEnd::Breakpoint);
        assert!(before(&marked, head.bytes).ends_with("cache_control\\\"\","), "what a text says is no breakpoint");

        let unmarked = body(
            Endpoint::Chat,
            r#"{"model":"m","tools":[{"type":"function","cache_control":null,"function":{"parameters":{"type":"object",
               "properties":{"cache_control":{"type":"string"}},"required":["cache_control"]}}}],
               "messages":[{"role":"user","content":"x","cache_control" : { "ttl": "1h", "type" : "ephemeral" } }]}"#,
        );
        let head = unmarked.head();
        assert_eq!(head.end, HeadEnd::Breakpoint);
        assert!(before(&unmarked, head.bytes).ends_with(r#""content":"x","#), "{}", before(&unmarked, head.bytes));
    }
}
