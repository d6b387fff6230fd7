//! Extracts a body's [`Outline`]: the features that routing needs, for every dialect (chat, completions, responses,
//! Anthropic messages), read from the raw bytes into a reused buffer.
//!
//! Member names are compared as written; the rare ones with escapes are ignored.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    RequestBody,
    walk::{depth, elements, is_nothing, member, members, string, unescape},
};
use signalbox_types::{Effort, Outline};

/// For longer turns only this many bytes of the head and of the tail are read, so that time stays bounded.
const END: usize = 32 << 10;

/// The earlier user turns that are kept where the last has at most [`SHORT`] bytes, and the bytes of the head and of the
/// tail of each.
const EARLIER: usize = 8;
const SHORT: u64 = 256;
/// Longest user text, in bytes, that accepts an offer of the assistant.
const REPLY: u64 = 64;
const EARLIER_END: usize = 1 << 10;

/// A thinking budget from this many tokens on is high effort.
const HIGH_BUDGET: u64 = 8192;

impl RequestBody {
    /// Reads the outline into `outline`, replacing its content. Allocates only while its buffers grow, to 80 KB at most.
    pub fn outline(&self, outline: &mut Outline) {
        outline.clear();
        outline.max_tokens = self.max_tokens;
        outline.stream = self.stream;
        for found in &self.members {
            let (name, raw) = (found.name(self.bytes()), &self.bytes()[found.value.clone()]);
            match name {
                b"messages" => conversation(raw, outline),
                b"input" if string(raw).is_none() && elements(raw).any(|item| item.starts_with(b"{")) => {
                    conversation(raw, outline);
                }
                b"prompt" | b"input" | b"query" => {
                    outline.turns = 1;
                    outline.messages = 1;
                    outline.text.clear();
                    outline.text_bytes = copy(raw, END, &mut outline.text);
                }
                b"system" | b"instructions" => outline.system_bytes += content_bytes(raw),
                b"tools" | b"functions" => outline.tools += elements(raw).count() as u32,
                b"tool_choice" | b"function_call" => outline.tool_forced |= forced(raw),
                b"response_format" | b"output_format" | b"output_config" => format(raw, outline),
                b"text" => member(raw, "format").into_iter().for_each(|raw| format(raw, outline)),
                b"reasoning_effort" => outline.effort = outline.effort.max(effort(raw)),
                b"reasoning" => {
                    let said = member(raw, "effort").map(effort);
                    outline.effort = outline.effort.max(said.unwrap_or_default());
                }
                b"thinking" => outline.effort = outline.effort.max(thinking(raw)),
                _ => {}
            }
        }
    }

    /// Hash of the text of the first user message, which later turns repeat. `None` where there is no conversation.
    pub fn first_question(&self, seed: u64) -> Option<u64> {
        let list = self.member("messages").or_else(|| self.member("input"))?;
        let first = if string(list).is_some() {
            list
        } else {
            elements(list)
                .filter(|message| member(message, "role").and_then(string) == Some(b"user"))
                .find_map(|message| member(message, "content"))?
        };
        // By its text alone: clients move marks of caches from one part to another.
        let (mut hash, mut has_text) = (seed, false);
        parts(first, &mut |part| {
            if let Part::Text(text) = part {
                (hash, has_text) = (xxh3_64_with_seed(text, hash), true);
            }
        });
        Some(if has_text { hash } else { xxh3_64_with_seed(first, seed) })
    }

    /// The kinds of the offered tools as written; empty for a tool that names none.
    pub fn tool_kinds(&self) -> impl Iterator<Item = &[u8]> {
        let tools = self.member("tools").into_iter().flat_map(elements);
        tools.map(|tool| member(tool, "type").and_then(string).unwrap_or_default())
    }
}

/// Counts a list of messages or items, and copies the text of the user's last one, and of those before if it is short.
fn conversation(raw: &[u8], outline: &mut Outline) {
    let (mut turns, mut count): ([&[u8]; EARLIER + 1], _) = ([b""; EARLIER + 1], 0);
    // The assistant's message before the next one of the user, and before the last one.
    let (mut before, mut offer): (&[u8], &[u8]) = (b"", b"");
    for message in elements(raw) {
        let (mut role, mut kind, mut content): (&[u8], &[u8], &[u8]) = (b"", b"", b"");
        for (name, value) in members(message) {
            match name {
                b"role" => role = string(value).unwrap_or_default(),
                b"type" => kind = string(value).unwrap_or_default(),
                b"content" => content = value,
                _ => {}
            }
        }
        outline.messages += 1;
        outline.in_tool_loop = false;
        match (role, kind) {
            (b"assistant", _) => before = content,
            (b"system" | b"developer", _) => outline.system_bytes += content_bytes(content),
            (b"tool" | b"function", _) => result(outline),
            (_, kind) if kind.ends_with(b"_call_output") => result(outline),
            (b"user", _) => {
                let mut seen = Parts::default();
                parts(content, &mut |part| seen.count(&part));
                outline.images += seen.images;
                outline.audio += seen.audio;
                outline.files += seen.files;
                if seen.results > 0 && seen.texts == 0 {
                    outline.tool_results += seen.results - 1;
                    result(outline);
                } else {
                    outline.tool_results += seen.results;
                    outline.said_before = outline.said;
                    outline.said = xxh3_64_with_seed(content, outline.said).max(1);
                    outline.turns += 1;
                    offer = std::mem::take(&mut before);
                    turns.rotate_right(1);
                    (turns[0], count) = (content, count + 1);
                }
            }
            _ => {}
        }
    }
    if let [last, earlier @ ..] = &turns[..count.min(EARLIER + 1)] {
        outline.text.clear();
        outline.text_bytes = copy(last, END, &mut outline.text);
        outline.earlier_turns.clear();
        if outline.text_bytes <= REPLY {
            copy_offer(offer, &mut outline.earlier_turns);
        }
        for turn in earlier.iter().filter(|_| outline.text_bytes <= SHORT) {
            copy(turn, EARLIER_END, &mut outline.earlier_turns);
            outline.earlier_turns.push('\0');
        }
    }
}

/// Appends the last line of an assistant's message as an earlier turn if it asks: a short reply accepts what it offers.
fn copy_offer(content: &[u8], to: &mut String) {
    let start = to.len();
    copy(content, EARLIER_END, to);
    let end = start + to[start..].trim_end().len();
    to.truncate(end);
    if to[start..].ends_with(['?', '\u{ff1f}']) {
        let line = to[start..].rfind('\n').map_or(start, |at| start + at + 1);
        to.replace_range(start..line, "");
        to.push('\0');
    } else {
        to.truncate(start);
    }
}

fn result(outline: &mut Outline) {
    outline.tool_results += 1;
    outline.in_tool_loop = true;
}

/// A part of a message's content.
enum Part<'a> {
    /// The raw inside of a JSON string.
    Text(&'a [u8]),
    Image,
    Audio,
    File,
    Result,
}

#[derive(Default)]
struct Parts {
    texts: u32,
    images: u32,
    audio: u32,
    files: u32,
    results: u32,
}

impl Parts {
    fn count(&mut self, part: &Part<'_>) {
        match part {
            Part::Text(_) => self.texts += 1,
            Part::Image => self.images += 1,
            Part::Audio => self.audio += 1,
            Part::File => self.files += 1,
            Part::Result => self.results += 1,
        }
    }
}

/// Calls `each` for the parts of a content: a string, a list of strings, or a list of typed parts.
fn parts<'a>(content: &'a [u8], each: &mut dyn FnMut(Part<'a>)) {
    if let Some(text) = string(content) {
        return each(Part::Text(text));
    }
    for part in elements(content) {
        if let Some(text) = string(part) {
            each(Part::Text(text));
            continue;
        }
        let (mut kind, mut text) = (&b""[..], None);
        for (name, value) in members(part) {
            match name {
                b"type" => kind = string(value).unwrap_or_default(),
                b"text" => text = string(value),
                _ => {}
            }
        }
        match (kind, text) {
            (b"image_url" | b"input_image" | b"image", _) => each(Part::Image),
            (b"input_audio" | b"audio", _) => each(Part::Audio),
            (b"file" | b"input_file" | b"document", _) => each(Part::File),
            (b"tool_result", _) => each(Part::Result),
            (_, Some(text)) => each(Part::Text(text)),
            _ => {}
        }
    }
}

fn content_bytes(content: &[u8]) -> u64 {
    let mut bytes = 0;
    parts(content, &mut |part| {
        if let Part::Text(text) = part {
            bytes += text.len() as u64;
        }
    });
    bytes
}

/// Appends a content's text, one part per line: the first `most` bytes and the last. Returns its length.
fn copy(content: &[u8], most: usize, to: &mut String) -> u64 {
    let (bytes, start) = (content_bytes(content), to.len());
    let tail_from = (bytes as usize).saturating_sub(most).max(most);
    let mut at = 0;
    parts(content, &mut |part| {
        let Part::Text(text) = part else { return };
        let head = &text[..whole(text, most.saturating_sub(at).min(text.len()))];
        let tail = &text[after_a_space(text, tail_from.saturating_sub(at).clamp(head.len(), text.len()))..];
        for piece in [head, tail] {
            if !piece.is_empty() {
                if to.len() > start && (piece.as_ptr() != text[head.len()..].as_ptr() || head.is_empty()) {
                    to.push('\n');
                }
                unescape(piece, to);
            }
        }
        at += text.len();
    });
    bytes
}

/// The last position up to `at` that splits neither an escape nor a character.
fn whole(text: &[u8], at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    // An escape is six bytes at most, a pair of them twelve.
    let near = at.saturating_sub(12);
    let mut end = at;
    if let Some(escape) = text[near..at].iter().position(|byte| *byte == b'\\') {
        let first = near + escape;
        end = first - text[..first].iter().rev().take_while(|byte| **byte == b'\\').count();
        // The second half of a surrogate pair stays with the first.
        if matches!(text.get(first..first + 4), Some([b'\\', b'u', b'd' | b'D', b'c'..=b'f' | b'C'..=b'F'])) {
            end = end.min(first.saturating_sub(6));
        }
    }
    while end > 0 && text[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    end
}

/// `at`, or the start of the next word if `at` lies inside the text: no escape contains a space.
fn after_a_space(text: &[u8], at: usize) -> usize {
    if at == 0 || at >= text.len() {
        return at;
    }
    memchr::memchr(b' ', &text[at..]).map_or(text.len(), |space| at + space)
}

/// True if the client requires a tool call: not for `auto`, `none` or no value.
fn forced(raw: &[u8]) -> bool {
    let kind = string(raw).or_else(|| member(raw, "type").and_then(string));
    match kind {
        Some(kind) => !matches!(kind, b"auto" | b"none" | b"allowed_tools"),
        None => member(raw, "name").is_some(),
    }
}

fn format(raw: &[u8], outline: &mut Outline) {
    let kind = member(raw, "type").and_then(string).unwrap_or_default();
    let schema = member(raw, "json_schema")
        .and_then(|inner| member(inner, "schema"))
        .or_else(|| member(raw, "schema"))
        .or_else(|| member(raw, "format").and_then(|inner| member(inner, "schema")));
    let depth = match schema {
        Some(schema) if !is_nothing(schema) => depth(schema),
        _ => u32::from(kind.starts_with(b"json")),
    };
    outline.schema_depth = outline.schema_depth.max(depth);
}

fn effort(raw: &[u8]) -> Effort {
    match string(raw).unwrap_or_default() {
        b"none" | b"minimal" => Effort::Minimal,
        b"low" => Effort::Low,
        b"medium" => Effort::Medium,
        b"high" | b"xhigh" | b"max" => Effort::High,
        _ => Effort::Unspecified,
    }
}

fn thinking(raw: &[u8]) -> Effort {
    match member(raw, "type").and_then(string) {
        Some(b"enabled" | b"adaptive") => {
            let budget = member(raw, "budget_tokens").and_then(|raw| serde_json::from_slice::<u64>(raw).ok());
            if budget.is_none_or(|tokens| tokens >= HIGH_BUDGET) { Effort::High } else { Effort::Medium }
        }
        Some(b"disabled") => Effort::Minimal,
        _ => Effort::Unspecified,
    }
}

/// Fuzz target: outlines arbitrary bytes as every kind of body, twice into one buffer.
///
/// # Panics
/// If the outline depends on the buffer's earlier content, or the text is too long.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_outline(input: &[u8]) {
    let bytes = bytes::Bytes::copy_from_slice(input);
    let mut used = Outline::of_text("what was there before");
    for endpoint in signalbox_types::Endpoint::ALL {
        let Ok(body) = RequestBody::json(endpoint, bytes.clone()) else { continue };
        let mut fresh = Outline::default();
        body.outline(&mut fresh);
        body.outline(&mut used);
        assert_eq!(fresh, used, "an outline must not depend on the one before it");
        // U+FFFD is three bytes where a broken escape is two.
        assert!(fresh.text.len() <= 4 * END, "the text is {} bytes long", fresh.text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Endpoint;

    fn outline(endpoint: Endpoint, body: &str) -> Outline {
        let body = RequestBody::json(endpoint, bytes::Bytes::copy_from_slice(body.as_bytes())).expect("a body");
        let mut outline = Outline::default();
        body.outline(&mut outline);
        outline
    }

    #[test]
    fn a_chat_is_outlined() {
        let found = outline(
            Endpoint::Chat,
            r#"{"model":"m","stream":true,"max_completion_tokens":90,"reasoning_effort":"high","tools":[{},{}],"tool_choice":"required",
              "response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{"a":{"type":"string"}}}}},
              "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},
              {"role":"assistant","content":"Hello."},{"content":[{"type":"text","text":"Wh\u0061t\n"},
              {"type":"image_url","image_url":{"url":"data:"}},{"text":"is \"this\"?","type":"text"}],"role":"user"}]}"#,
        );
        let want = Outline {
            text: "What\n\nis \"this\"?".to_owned(),
            text_bytes: 23,
            earlier_turns: "Hi\0".to_owned(),
            said: found.said,
            said_before: xxh3_64_with_seed(br#""Hi""#, 0),
            turns: 2,
            messages: 4,
            system_bytes: 9,
            tools: 2,
            tool_forced: true,
            schema_depth: 3,
            images: 1,
            max_tokens: Some(90),
            effort: Effort::High,
            stream: true,
            ..Outline::default()
        };
        assert_eq!(found, want);
    }

    #[test]
    fn tool_loops_are_recognised_in_every_dialect() {
        for (endpoint, body) in [
            (
                Endpoint::Chat,
                r#"{"model":"m","messages":[{"role":"user","content":"do it"},{"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","content":"42"}]}"#,
            ),
            (
                Endpoint::Messages,
                r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"do it"}]},{"role":"assistant","content":[]},{"role":"user","content":[{"type":"tool_result","content":"42"}]}]}"#,
            ),
            (
                Endpoint::Responses,
                r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"do it"}]},{"role":"assistant","content":[]},{"type":"function_call_output","output":"42"}]}"#,
            ),
        ] {
            let found = outline(endpoint, body);
            assert_eq!((found.turns, found.tool_results, found.in_tool_loop), (1, 1, true), "{endpoint:?}");
            assert_eq!(&*found.text, "do it", "{endpoint:?}");
        }
    }

    #[test]
    fn earlier_turns_are_kept_in_every_dialect_where_the_last_is_short() {
        let turns = |last: &str| {
            let user = |text: &str| format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}"#);
            let turns = ["old ".repeat(3000), "one\\u0021".to_owned(), "two".to_owned(), last.to_owned()]
                .map(|text| user(&text));
            turns.join(r#",{"role":"assistant","content":"fine"},"#)
        };
        for (endpoint, member) in
            [(Endpoint::Chat, "messages"), (Endpoint::Messages, "messages"), (Endpoint::Responses, "input")]
        {
            let body = |last: &str| format!(r#"{{"model":"m","{member}":[{}]}}"#, turns(last));
            let found = outline(endpoint, &body("go on"));
            assert_eq!((&*found.text, found.turns), ("go on", 4));
            let earlier: Vec<&str> = found.earlier().collect();
            assert_eq!((earlier.len(), &earlier[..2]), (3, &["two", "one!"][..]), "{endpoint:?}");
            assert!((2 * EARLIER_END - 8..=2 * EARLIER_END + 1).contains(&earlier[2].len()));
            assert_eq!(outline(endpoint, &body(&"go on ".repeat(50))).earlier().count(), 0);
        }
        let offered = |reply: &str| {
            let body = format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}},{{"role":"assistant","content":"Fine.\nShall I prove it? "}},{{"role":"user","content":"{reply}"}}]}}"#
            );
            outline(Endpoint::Chat, &body).earlier().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(offered("yes"), ["Shall I prove it?", "hi"]);
        assert_eq!(offered(&"yes ".repeat(17)), ["hi"], "a longer text says itself what it wants");
        let many = vec![r#"{"role":"user","content":"x"}"#; 50].join(",");
        assert_eq!(
            outline(Endpoint::Chat, &format!(r#"{{"model":"m","messages":[{many}]}}"#)).earlier().count(),
            EARLIER
        );
    }

    #[test]
    fn other_dialects_give_the_same_outline() {
        let plain = outline(Endpoint::Completions, r#"{"model":"m","prompt":["one","two"]}"#);
        assert_eq!((&*plain.text, plain.turns), ("one\ntwo", 1));
        let found = outline(
            Endpoint::Responses,
            r#"{"model":"m","input":"hello","instructions":"brief","reasoning":{"effort":"low"},"text":{"format":{"type":"json_object"}},"tool_choice":{"type":"function","name":"f"}}"#,
        );
        assert_eq!((&*found.text, found.system_bytes, found.effort), ("hello", 5, Effort::Low));
        assert_eq!((found.schema_depth, found.tool_forced), (1, true));
        let found = outline(
            Endpoint::Messages,
            r#"{"model":"m","messages":[{"role":"user","content":"x"}],"system":[{"type":"text","text":"abc"}],"thinking":{"type":"enabled","budget_tokens":1024},"tool_choice":{"type":"auto"}}"#,
        );
        assert_eq!((found.system_bytes, found.effort, found.tool_forced), (3, Effort::Medium, false));
    }

    #[test]
    fn of_long_turns_head_and_tail_are_read() {
        for filler in ["word ", "\\n\\\\ ", "\\ud83d\\ude00 ", "é ", "aa"] {
            for shift in 0..12 {
                let inside = format!("{}HEAD {} TAIL", "x".repeat(shift), filler.repeat(40_000));
                let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{inside}"}}]}}"#);
                let found = outline(Endpoint::Chat, &body);
                assert_eq!(found.text_bytes, inside.len() as u64);
                assert!(found.text.len() <= 2 * END + 1 && found.text.contains("HEAD"), "{filler}");
                assert!(found.text.ends_with("TAIL") && !found.text.contains('\u{fffd}'), "{filler} {shift}");
            }
        }
    }
}
