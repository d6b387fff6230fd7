//! The canonical form of a request's body, so that requests with the same meaning have the same bytes.
//!
//! Objects are sorted by name, numbers are written as exact decimals, escapes in strings are resolved, white space is
//! removed, and a message content that consists of one plain text part becomes the string of its text. The order of
//! lists and every byte of a text are kept. Members that only affect transport or accounting are left out (`TRANSPORT`),
//! as are values that equal the absence of their member: `null`, empty lists of tools, penalties of 0 and such. A
//! temperature has no default here: engines take an absent one from the model's own settings.
//!
//! The form is for hashing alone. Every value starts with its kind and delimits itself, so that two bodies with
//! different meanings never have the same form.

use std::{borrow::Cow, ops::Range};

use super::{
    RequestBody,
    walk::{elements, members, string},
};
use signalbox_types::Endpoint;

/// Top-level members that do not change the answer, or that are a separate part of the cache key (`model`).
const TRANSPORT: [&str; 12] = [
    "model",
    "stream",
    "stream_options",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "metadata",
    "store",
    "cache",
    "priority",
    "request_id",
];

/// Top-level members of OpenAI's API for which `null` means their absence.
const NULLABLE: [&str; 30] = [
    "audio",
    "best_of",
    "echo",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "min_p",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "suffix",
    "temperature",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "verbosity",
    "web_search_options",
];

/// The deepest nesting of values; each level is scanned once more.
const DEEPEST: usize = 32;

/// A body in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    bytes: Vec<u8>,
    /// The range of the last user text, including its head.
    last: Option<Range<usize>>,
    /// The ranges of the earlier user texts.
    earlier: Vec<Range<usize>>,
    /// True if an earlier user message is not plain text.
    unread: bool,
}

/// The body is ambiguous (a duplicate member in an object, half a surrogate pair) or nests too deep.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is ambiguous")]
pub struct Ambiguous;

/// Unescaped names and raw values.
type Members<'a> = Vec<(Cow<'a, str>, &'a [u8])>;
/// Writes one member of an object.
type Each<'f, 'a> = dyn FnMut(&mut Canonical, &str, &'a [u8]) -> Result<(), Ambiguous> + 'f;

/// Bytes of a text's head: its kind and its length.
const TEXT_HEAD: usize = 1 + size_of::<u64>();

impl Canonical {
    /// The canonical form of a chat or completion request.
    ///
    /// # Errors
    /// [`Ambiguous`] if the body has none, or was not read as JSON.
    pub fn of(endpoint: Endpoint, body: &RequestBody) -> Result<Self, Ambiguous> {
        let mut form =
            Self { bytes: Vec::with_capacity(body.bytes().len() + 64), last: None, earlier: Vec::new(), unread: false };
        form.text(endpoint.name());
        let mut found = Vec::with_capacity(body.members.len());
        for (name, raw) in body.members() {
            let name = std::str::from_utf8(name).map_err(|_| Ambiguous)?;
            if !TRANSPORT.contains(&name) && !is_default(name, raw) {
                found.push((Cow::Borrowed(name), raw));
            } else if body.members().filter(|(other, _)| *other == name.as_bytes()).count() > 1 {
                return Err(Ambiguous);
            }
        }
        if body.members().next().is_none() {
            return Err(Ambiguous);
        }
        form.object(found, &mut |form, name, raw| match name {
            "messages" => form.messages(raw),
            "prompt" if string(raw).is_some() => {
                let start = form.bytes.len();
                form.value(raw, 1)?;
                form.last = Some(start..form.bytes.len());
                Ok(())
            }
            _ => form.value(raw, 1),
        })?;
        Ok(form)
    }

    /// The whole form.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The last text by the user: the prompt, or the content of the last user message. `None` if it is not plain text.
    pub fn last_user_text(&self) -> Option<&str> {
        self.text_at(self.last.as_ref()?)
    }

    /// All earlier texts by the user; `None` if one of them is not plain text.
    pub fn earlier_user_texts(&self) -> Option<impl Iterator<Item = &str>> {
        (!self.unread).then(|| self.earlier.iter().filter_map(|at| self.text_at(at)))
    }

    fn text_at(&self, at: &Range<usize>) -> Option<&str> {
        std::str::from_utf8(&self.bytes[at.start + TEXT_HEAD..at.end]).ok()
    }

    /// The bytes before and after the last user text.
    pub fn around_last_user_text(&self) -> Option<[&[u8]; 2]> {
        let Range { start, end } = self.last.clone()?;
        Some([&self.bytes[..start], &self.bytes[end..]])
    }

    fn text(&mut self, text: &str) {
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn value(&mut self, raw: &[u8], depth: usize) -> Result<(), Ambiguous> {
        match raw.first().ok_or(Ambiguous)? {
            b'"' => self.text(&unescaped(raw)?),
            b'[' if depth < DEEPEST => {
                self.bytes.push(b'[');
                for element in elements(raw) {
                    self.value(element, depth + 1)?;
                }
                self.bytes.push(b']');
            }
            b'{' if depth < DEEPEST => {
                let found = named(raw)?;
                self.object(found, &mut |form, _, raw| form.value(raw, depth + 1))?;
            }
            b'n' | b't' | b'f' => self.bytes.push(raw[0]),
            b'-' | b'0'..=b'9' => {
                let Number { negative, digits, exponent } = Number::read(raw)?;
                self.bytes.push(if negative { b'-' } else { b'+' });
                self.bytes.extend_from_slice(&digits);
                self.bytes.push(b'e');
                self.bytes.extend_from_slice(&exponent.to_le_bytes());
            }
            _ => return Err(Ambiguous),
        }
        Ok(())
    }

    fn object<'a>(&mut self, mut found: Members<'a>, each: &mut Each<'_, 'a>) -> Result<(), Ambiguous> {
        found.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        if found.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Ambiguous);
        }
        self.bytes.push(b'{');
        for (name, raw) in found {
            self.text(&name);
            each(self, &name, raw)?;
        }
        self.bytes.push(b'}');
        Ok(())
    }

    fn messages(&mut self, raw: &[u8]) -> Result<(), Ambiguous> {
        if !raw.starts_with(b"[") {
            return Err(Ambiguous);
        }
        self.bytes.push(b'[');
        let mut plain_so_far = true;
        for message in elements(raw) {
            if !message.starts_with(b"{") {
                self.value(message, 2)?;
                continue;
            }
            let found = named(message)?;
            let by_user = found.iter().any(|(name, raw)| name == "role" && unescaped(raw).is_ok_and(|it| it == "user"));
            if by_user && let Some(last) = self.last.take() {
                self.earlier.push(last);
            }
            self.unread |= by_user && !plain_so_far;
            let mut said = None;
            self.object(found, &mut |form, name, raw| {
                let text = if name == "content" { plain(raw)? } else { None };
                let Some(text) = text else { return form.value(raw, 3) };
                let start = form.bytes.len();
                form.text(&text);
                said = Some(start..form.bytes.len());
                Ok(())
            })?;
            if by_user {
                plain_so_far &= said.is_some();
                self.last = said;
            }
        }
        self.bytes.push(b']');
        Ok(())
    }
}

/// True if a top-level member has the same meaning as its absence.
fn is_default(name: &str, raw: &[u8]) -> bool {
    let is_empty = |open: u8, close: u8| {
        raw.strip_prefix(&[open])
            .and_then(|rest| rest.strip_suffix(&[close]))
            .is_some_and(|rest| rest.trim_ascii().is_empty())
    };
    match name {
        _ if raw == b"null" => NULLABLE.contains(&name),
        "tools" | "functions" | "stop" => is_empty(b'[', b']'),
        "logit_bias" => is_empty(b'{', b'}'),
        "frequency_penalty" | "presence_penalty" => is_zero(raw),
        "response_format" => {
            let is_text = |raw: &[u8]| serde_json::from_slice::<String>(raw).is_ok_and(|kind| kind == "text");
            named(raw).is_ok_and(|members| matches!(&*members, [(name, kind)] if name == "type" && is_text(kind)))
        }
        "n" => Number::read(raw).is_ok_and(|it| !it.negative && it.digits == b"1" && it.exponent == 0),
        "logprobs" => raw == b"false",
        _ => false,
    }
}

/// True if a raw value is the number zero in any notation.
pub fn is_zero(raw: &[u8]) -> bool {
    let mantissa = raw.split(|byte| matches!(byte, b'e' | b'E')).next().unwrap_or_default();
    mantissa.contains(&b'0') && mantissa.iter().all(|byte| matches!(byte, b'-' | b'.' | b'0'))
}

/// The members of a raw object by their unescaped names.
fn named(raw: &[u8]) -> Result<Members<'_>, Ambiguous> {
    let name = |inner: &'_ [u8]| inner.contains(&b'\\');
    members(raw)
        .map(|(inner, value)| {
            let text = std::str::from_utf8(inner).map_err(|_| Ambiguous)?;
            let text = if name(inner) {
                serde_json::from_str::<String>(&format!("\"{text}\"")).map_err(|_| Ambiguous)?.into()
            } else {
                Cow::Borrowed(text)
            };
            Ok((text, value))
        })
        .collect()
}

/// The text of a raw string.
fn unescaped(raw: &[u8]) -> Result<Cow<'_, str>, Ambiguous> {
    let inner = string(raw).ok_or(Ambiguous)?;
    if inner.contains(&b'\\') {
        return serde_json::from_slice::<String>(raw).map(Cow::Owned).map_err(|_| Ambiguous);
    }
    std::str::from_utf8(inner).map(Cow::Borrowed).map_err(|_| Ambiguous)
}

/// The text of a content that is a string, or a list of one text part without other members.
fn plain(raw: &[u8]) -> Result<Option<Cow<'_, str>>, Ambiguous> {
    if raw.starts_with(b"\"") {
        return unescaped(raw).map(Some);
    }
    let mut parts = elements(raw);
    let (Some(part), None) = (parts.next(), parts.next()) else { return Ok(None) };
    let (mut kind, mut text) = (false, None);
    for (name, value) in named(part)? {
        match &*name {
            "type" if !kind && value.starts_with(b"\"") && unescaped(value)? == "text" => kind = true,
            "text" if text.is_none() && value.starts_with(b"\"") => text = Some(unescaped(value)?),
            _ => return Ok(None),
        }
    }
    Ok(text.filter(|_| kind))
}

/// An exact decimal: digits without zeros at either end, times ten to the exponent. Zero has no digits and no sign.
struct Number {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Number {
    fn read(raw: &[u8]) -> Result<Self, Ambiguous> {
        let (negative, rest) = match raw {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let mantissa = rest.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(rest.len());
        let mut exponent = match rest.get(mantissa + 1..) {
            None => 0,
            Some(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Ambiguous)?,
        };
        let mut digits = Vec::with_capacity(mantissa);
        let mut fraction = 0_i64;
        let mut after_point = false;
        for byte in &rest[..mantissa] {
            match byte {
                b'.' if !after_point => after_point = true,
                b'0'..=b'9' => {
                    fraction += i64::from(after_point);
                    if *byte != b'0' || !digits.is_empty() {
                        digits.push(*byte);
                    }
                }
                _ => return Err(Ambiguous),
            }
        }
        if mantissa == 0 {
            return Err(Ambiguous);
        }
        while digits.pop_if(|last| *last == b'0').is_some() {
            fraction -= 1;
        }
        if digits.is_empty() {
            return Ok(Self { negative: false, digits, exponent: 0 });
        }
        exponent = i64::checked_sub(exponent, fraction).ok_or(Ambiguous)?;
        Ok(Self { negative, digits, exponent })
    }
}

/// Fuzz target: a body that serde has read and written again must have the same form as the original.
///
/// # Panics
/// If another notation of a body has another form, or the last text is not part of the form.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_canonical(input: &[u8]) {
    let read = |bytes: Vec<u8>| RequestBody::json(Endpoint::Chat, bytes.into()).ok();
    let Some(body) = read(input.to_vec()) else { return };
    let Ok(form) = Canonical::of(Endpoint::Chat, &body) else { return };
    let text = form.last_user_text();
    assert_eq!(text.is_some(), form.around_last_user_text().is_some());
    // Only numbers that a tree of values keeps exactly survive the round trip.
    let Ok(tree) = serde_json::from_slice::<serde_json::Value>(input) else { return };
    if !input.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) && !has_long_number(input) {
        let again =
            read(serde_json::to_vec_pretty(&tree).unwrap_or_default()).map(|it| Canonical::of(Endpoint::Chat, &it));
        assert_eq!(again, Some(Ok(form)), "another notation has another form");
    }
}

#[cfg(any(test, feature = "fuzzing"))]
fn has_long_number(input: &[u8]) -> bool {
    input.split(|byte| !byte.is_ascii_digit()).any(|run| run.len() > 15)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn form(text: &str) -> Result<Canonical, Ambiguous> {
        Canonical::of(Endpoint::Chat, &RequestBody::json(Endpoint::Chat, text.to_owned().into()).unwrap())
    }

    fn chat(more: &str) -> Canonical {
        form(&format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{more}}}"#)).unwrap()
    }

    #[test]
    fn notations_of_one_request_have_one_form() {
        let plain = chat("");
        for same in [
            r#","stream":true,"stream_options":{"include_usage":true},"user":"u","metadata":{"a":1},"store":true,"cache":{"ttl":1}"#,
            r#","n":1.0,"logprobs":false"#,
            r#","n":10e-1"#,
            r#","prompt_cache_key":"s","safety_identifier":"u","priority":3"#,
            r#","tools":[ ],"stop":null,"temperature":null,"logit_bias":{},"presence_penalty":0.0"#,
            r#","response_format":{"t\u0079pe":"text"}"#,
        ] {
            assert_eq!(chat(same), plain, "{same}");
        }
        for (one, other) in [
            (r#","temperature":0.70"#, r#" , "temperature" : 7E-1"#),
            (r#","temperature":-0.0"#, r#","temperature":0"#),
            (r#","top_p":1"#, r#","top_p":1.000"#),
            (r#","seed":18446744073709551616"#, r#","seed":18446744073709551616.0"#),
            (r#","stop":["\u0061\n"],"top_k":5"#, r#","top_\u006b":5,"stop":["a\u000a"]"#),
            (r#","x":{"a":1,"b":[2,{"d":3,"c":4}]}"#, r#","x":{"b":[2,{"c":4,"d":3}],"a":1}"#),
        ] {
            assert_eq!(chat(one), chat(other), "{one}");
        }
        let parts = r#"{"messages":[{"content":[{"text":"hi","type":"text"}],"role":"user"}],"model":"other"}"#;
        assert_eq!(form(parts).unwrap(), plain, "one text part is its text, and the model is no part of the form");
    }

    #[test]
    fn members_that_may_change_an_answer_change_the_form() {
        let plain = chat("");
        let forms = [
            r#","temperature":0"#,
            r#","temperature":1"#,
            r#","seed":18446744073709551616"#,
            r#","seed":18446744073709551617"#,
            r#","seed":-1"#,
            r#","seed":1e1"#,
            r#","n":2"#,
            r#","logprobs":true"#,
            r#","x":null"#,
            r#","response_format":{"type":"json_object"}"#,
            r#","presence_penalty":0.1"#,
            r#","stop":"a""#,
            r#","stop":["a"]"#,
            r#","stop":["a",""]"#,
            r#","tools":[{"a":1},{"b":1}]"#,
            r#","tools":[{"b":1},{"a":1}]"#,
            r#","x":{}"#,
            r#","x":[]"#,
            r#","x":"""#,
            r#","x":false"#,
        ]
        .map(chat);
        for (at, one) in forms.iter().enumerate() {
            assert_ne!(*one, plain);
            assert!(forms[..at].iter().all(|other| other != one), "{at}");
        }
        let messages = |text: &str| form(&format!(r#"{{"model":"m","messages":{text}}}"#)).unwrap();
        let said = [
            r#"[{"role":"user","content":"hi "}]"#,
            r#"[{"role":"user","content":"Hi"}]"#,
            r#"[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{}}]}]"#,
            r#"[{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}]"#,
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"hi"}}]}]"#,
            r#"[{"role":"user","content":["hi"]}]"#,
            r#"[{"role":"system","content":"hi"}]"#,
            r#"[{"role":"user","content":"hi","name":"a"}]"#,
            r#"[{"role":"system","content":"s"},{"role":"user","content":"hi"}]"#,
            r#"[{"role":"user","content":"hi"},{"role":"assistant","content":""}]"#,
        ]
        .map(messages);
        for (at, one) in said.iter().enumerate() {
            assert_ne!(one.bytes(), plain.bytes());
            assert!(said[..at].iter().all(|other| other.bytes() != one.bytes()), "{at}");
        }
    }

    #[test]
    fn the_last_user_text_is_found_and_can_be_cut_out() {
        let with = |text: &str| {
            form(&format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":"b"}},{{"role":"user","content":{text}}}]}}"#
            ))
            .unwrap()
        };
        let (one, other) = (with(r#""c""#), with(r#"[{"type":"text","text":"another\n"}]"#));
        assert_eq!((one.last_user_text(), other.last_user_text()), (Some("c"), Some("another\n")));
        assert_eq!(one.around_last_user_text(), other.around_last_user_text());
        assert_eq!(with(r#"[{"type":"image_url","image_url":{}}]"#).last_user_text(), None);
        assert_eq!(
            form(r#"{"model":"m","messages":[{"role":"system","content":"a"}]}"#).unwrap().last_user_text(),
            None
        );
        let body = RequestBody::json(Endpoint::Completions, r#"{"model":"m","prompt":"p"}"#.into()).unwrap();
        assert_eq!(Canonical::of(Endpoint::Completions, &body).unwrap().last_user_text(), Some("p"));
    }

    #[test]
    fn ambiguous_bodies_have_no_form() {
        for more in [
            r#","temperature":0,"temperature":1"#,
            r#","n":1,"n":2"#,
            r#","user":"a","user":"b""#,
            r#","x":{"a":1,"\u0061":2}"#,
            r#","stop":"\ud800""#,
            r#","seed":1e99999999999999999999"#,
        ] {
            let text = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
            assert_eq!(form(&text), Err(Ambiguous), "{more}");
        }
        let deep = format!(r#"{{"model":"m","messages":[1],"x":{}{}}}"#, "[".repeat(40), "]".repeat(40));
        assert_eq!(form(&deep), Err(Ambiguous));
        let opaque = RequestBody::opaque(bytes::Bytes::from_static(b"x"));
        assert_eq!(Canonical::of(Endpoint::Chat, &opaque), Err(Ambiguous));
    }

    #[test]
    fn zero_is_recognised_in_any_notation() {
        for zero in ["0", "0.0", "-0", "0e5", "0.000E-7"] {
            assert!(is_zero(zero.as_bytes()), "{zero}");
        }
        for other in ["0.1", "1", "null", "\"0\"", "", "-", "1e-400"] {
            assert!(!is_zero(other.as_bytes()), "{other}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c\"\\\\\né\u{1F600}]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-c]{0,2}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The same value with the members of its objects in reverse order, all letters escaped, and white space added.
    fn rewritten(value: &Value, out: &mut String) {
        match value {
            Value::Object(map) => {
                out.push_str("{ ");
                for (at, (name, value)) in map.iter().rev().enumerate() {
                    out.push_str(if at == 0 { "" } else { " ,\n" });
                    rewritten(&Value::from(name.as_str()), out);
                    out.push_str(" : ");
                    rewritten(value, out);
                }
                out.push('}');
            }
            Value::Array(list) => {
                out.push('[');
                for (at, value) in list.iter().enumerate() {
                    out.push_str(if at == 0 { " " } else { "\t,\r\n" });
                    rewritten(value, out);
                }
                out.push(']');
            }
            Value::String(text) => {
                out.push('"');
                text.encode_utf16().for_each(|unit| write!(out, "\\u{unit:04X}").unwrap());
                out.push('"');
            }
            Value::Number(number) => write!(out, "{number}.00e+0").unwrap(),
            other => out.push_str(&other.to_string()),
        }
    }

    proptest! {
        #[test]
        fn the_form_depends_on_meaning_alone(one in value(), other in value(), text in "[ -~\u{e9}]{0,12}") {
            let body = |x: &Value| json!({ "model": "m", "messages": [{ "role": "user", "content": text }], "x": x });
            let mut spelled = String::new();
            rewritten(&body(&one), &mut spelled);
            // The model's name is read elsewhere.
            let first = form(&body(&one).to_string()).unwrap();
            prop_assert_eq!(&form(&spelled).unwrap(), &first);
            prop_assert_eq!(first.last_user_text(), Some(&*text));
            prop_assert_eq!(form(&body(&other).to_string()).unwrap() == first, one == other);
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(input in "[\\[\\]{}\",:0-9eE.\\\\ua-f -]{0,60}") {
            fuzz_canonical(format!(r#"{{"model":"m","messages":[{input}]}}"#).as_bytes());
        }
    }
}
