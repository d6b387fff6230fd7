//! Content of prompts and answers in spans: how much of it, and what is redacted.

use serde_json::{Map, Value, json};

use super::redaction::Redactor;

/// Capture of prompts and answers in spans.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptureContent {
    /// The most bytes of a prompt, and of an answer.
    pub most: usize,
    /// Replaces secrets before they leave the process.
    pub redactor: Redactor,
}

impl CaptureContent {
    /// The mark where a text goes on.
    pub const CUT: &str = "[cut]";

    /// The messages, or the parts of one, as JSON that may leave the process; `None` where not even an empty list fits.
    /// Each text is redacted before it is written, since escapes would hide where a word begins, and before it is cut,
    /// so that no half of a secret is left at the end.
    pub fn shown(&self, mut messages: Vec<Value>) -> Option<String> {
        for message in &mut messages {
            self.redact_all(message);
        }
        let text = Value::Array(fitting(messages, self.most)).to_string();
        (text.len() <= self.most).then_some(text)
    }

    /// Puts a mark in the place of each secret.
    pub fn redact(&self, text: &mut String) {
        self.redactor.redact(text);
    }

    fn redact_all(&self, json: &mut Value) {
        match json {
            Value::String(text) => self.redact(text),
            Value::Array(all) => all.iter_mut().for_each(|it| self.redact_all(it)),
            Value::Object(all) => {
                // Names in the arguments of a call are the model's own words, too.
                for (mut name, mut value) in std::mem::take(all) {
                    self.redact(&mut name);
                    self.redact_all(&mut value);
                    all.insert(name, value);
                }
            }
            Value::Number(number) => {
                let mut text = number.to_string();
                let before = text.clone();
                self.redact(&mut text);
                if text != before {
                    *json = Value::String(text);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// A list in at most `room` bytes of JSON. Long texts are cut, each to an equal share. If there are too many elements even
/// so, the last ones stay, and one that is cut to its mark stands for those before.
fn fitting(mut list: Vec<Value>, room: usize) -> Vec<Value> {
    let sizes: Vec<_> = list.iter().map(size).collect();
    if sizes.iter().sum::<usize>() + list.len() < room {
        return list;
    }
    let mut needed = 1;
    let fits = |element: &&Value| {
        needed += 1 + least_size(element);
        needed <= room
    };
    let kept = list.iter().rev().take_while(fits).count();
    let dropped = list.len() - kept;
    list.drain(..dropped);
    let wanted: Vec<_> = list.iter().zip(&sizes[dropped..]).map(|(it, size)| (least_size(it), *size)).collect();
    let room = room.saturating_sub(1 + list.len());
    let mut rooms = shares(&wanted, room);
    if dropped > 0 && kept > 1 {
        rooms[0] = wanted[0].0;
    }
    list.into_iter().zip(rooms).map(|(element, room)| cut(element, room)).collect()
}

/// A message, or a part of one, in at most `room` bytes, which are no less than its least size.
fn cut(element: Value, room: usize) -> Value {
    match element {
        element if size(&element) <= room => element,
        Value::Object(members) => {
            let wanted: Vec<_> = members.iter().map(|(name, it)| (least_member(name, it), member(name, it))).collect();
            let rooms = shares(&wanted, room.saturating_sub(1 + members.len()));
            let fixed = |name: &str| written(name) + 1;
            let cut = members.into_iter().zip(rooms).map(|((name, value), room)| {
                let room = room.saturating_sub(fixed(&name));
                let value = match value {
                    value if size(&value) <= room => value,
                    Value::Array(parts) if name == PARTS => Value::Array(fitting(parts, room)),
                    value => cut_text(&value, room),
                };
                (name, value)
            });
            Value::Object(cut.collect::<Map<_, _>>())
        }
        other => cut_text(&other, room),
    }
}

/// The member of a message that is a list of parts; all other lists are values.
const PARTS: &str = "parts";

/// A text, or any other value as text, with a mark where it is cut.
fn cut_text(value: &Value, room: usize) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut left = room.saturating_sub(2 + CaptureContent::CUT.len());
    let kept = text.chars().take_while(|letter| {
        let bytes = escaped(*letter);
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    });
    let kept: usize = kept.map(char::len_utf8).sum();
    json!(format!("{}{}", &text[..kept], CaptureContent::CUT))
}

/// Divides `room` among elements of a least and a full size: what the short ones leave goes to the long ones.
fn shares(wanted: &[(usize, usize)], room: usize) -> Vec<usize> {
    let mut left = room.saturating_sub(wanted.iter().map(|(least, _)| least).sum());
    let mut order: Vec<_> = (0..wanted.len()).collect();
    order.sort_unstable_by_key(|at| wanted[*at].1 - wanted[*at].0);
    let mut rooms = vec![0; wanted.len()];
    for (done, at) in order.into_iter().enumerate() {
        let (least, full) = wanted[at];
        let more = (full - least).min(left / (wanted.len() - done));
        rooms[at] = least + more;
        left -= more;
    }
    rooms
}

/// Bytes of the element, cut to its marks. Kinds and roles are never cut.
fn least_size(element: &Value) -> usize {
    match element {
        Value::Object(members) => {
            1 + members.len().max(1) + members.iter().map(|(name, value)| least_member(name, value)).sum::<usize>()
        }
        other => size(other).min(2 + CaptureContent::CUT.len()),
    }
}

fn least_member(name: &str, value: &Value) -> usize {
    let least = match value {
        Value::Array(parts) if name == PARTS => {
            // One part stands for all.
            (2 + parts.last().map_or(0, least_size)).min(size(value))
        }
        value if matches!(name, "type" | "role") => size(value),
        value => size(value).min(2 + CaptureContent::CUT.len()),
    };
    written(name) + 1 + least
}

fn member(name: &str, value: &Value) -> usize {
    written(name) + 1 + size(value)
}

/// Bytes of a value as JSON.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => written(text),
        Value::Array(all) => 1 + all.len().max(1) + all.iter().map(size).sum::<usize>(),
        Value::Object(all) => 1 + all.len().max(1) + all.iter().map(|(name, value)| member(name, value)).sum::<usize>(),
        other => other.to_string().len(),
    }
}

/// Bytes of a text as JSON.
fn written(text: &str) -> usize {
    2 + text.chars().map(escaped).sum::<usize>()
}

fn escaped(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn content(most: usize) -> CaptureContent {
        let own = vec![Regex::new(r"\bs[0-9]{6}").unwrap()];
        CaptureContent { most, redactor: Redactor::new(own) }
    }

    fn message(role: &str, text: &str) -> Value {
        json!({ "role": role, "parts": [{ "type": "text", "content": text }] })
    }

    #[test]
    fn content_is_redacted_before_it_is_written_and_cut() {
        let part = json!({ "type": "text", "content": format!("the code is s123456, {}", "is it? ".repeat(9)) });
        let shown = content(57).shown(vec![part]).unwrap();
        assert_eq!(shown, r#"[{"type":"text","content":"the code is [redacted][cut]"}]"#);
        let call =
            json!({ "type": "tool_call", "arguments": { "s123456": ["a\ns123456", 4_111_111_111_111_111_u64] } });
        let want = r#"[{"type":"tool_call","arguments":{"[redacted]":["a\n[redacted]","[redacted]"]}}]"#;
        assert_eq!(content(99).shown(vec![call]).as_deref(), Some(want));
    }

    #[test]
    fn long_texts_are_cut_and_all_messages_stay_while_they_fit() {
        let (short, long) = ("be brief", "word ".repeat(200));
        let shown = content(300).shown(vec![message("system", short), message("user", &long), message("user", &long)]);
        let shown = shown.unwrap();
        assert!(shown.len() <= 300 && shown.len() > 290, "{shown}");
        let read: Vec<Value> = serde_json::from_str(&shown).unwrap();
        assert_eq!(read[0], message("system", short));
        for cut in &read[1..] {
            let text = cut["parts"][0]["content"].as_str().unwrap();
            assert!(text.starts_with("word word") && text.ends_with("[cut]"), "{text}");
        }
    }

    #[test]
    fn the_last_of_many_messages_stay_behind_a_mark() {
        let all = (0..50).map(|number| message("user", &format!("question {number}"))).collect();
        let read: Vec<Value> = serde_json::from_str(&content(300).shown(all).unwrap()).unwrap();
        assert_eq!(read[0], message("user", "[cut]"));
        assert_eq!(read.last(), Some(&message("user", "question 49")));
    }

    #[test]
    fn nothing_is_shown_where_nothing_fits() {
        assert_eq!(content(1).shown(vec![message("user", "hi")]), None);
        assert_eq!(content(2).shown(vec![message("user", "hi")]).as_deref(), Some("[]"));
    }

    fn any_part() -> impl Strategy<Value = Value> {
        let text = "(\\PC|[\"\\\\\n\t\u{0}\u{1f}]|ü|😀){0,60}";
        prop_oneof![
            text.prop_map(|text| json!({ "type": "text", "content": text })),
            (text, text).prop_map(
                |(id, all)| json!({ "type": "tool_call", "id": id, "name": "f", "arguments": { id.clone(): [all, 1, null] } })
            ),
            (text, text).prop_map(
                |(id, all)| json!({ "type": "tool_call", "id": id, "name": all.clone(), "arguments": all })
            ),
            Just(json!({ "type": "image_url" })),
        ]
    }

    proptest! {
        #[test]
        fn shown_content_is_json_within_its_limit(
            messages in prop::collection::vec(prop::collection::vec(any_part(), 0..4), 0..8),
            most in 2usize..2000,
        ) {
            let messages: Vec<_> =
                messages.into_iter().map(|parts| json!({ "role": "user", "parts": parts })).collect();
            let full = Value::Array(messages.clone()).to_string();
            prop_assert_eq!(size(&Value::Array(messages.clone())), full.len());
            let shown = Value::Array(fitting(messages, most)).to_string();
            prop_assert!(shown.len() <= most, "{} of {}: {}", shown.len(), most, shown);
            let read = serde_json::from_str::<Vec<Value>>(&shown).unwrap();
            prop_assert!(read.iter().all(|message| message["role"] == "user" && message["parts"].is_array()));
        }
    }
}
