//! Facts of a request's body and of its answer for spans, by OpenTelemetry's conventions for generative AI: parameters, reasons to finish, and,
//! where the policy asks for it, the content, redacted and cut.

use memchr::memmem;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value as Json, json};

use signalbox_otel::Value;
use signalbox_policy::CaptureContent;
use signalbox_protocol::{LONG_BODY, RequestBody};
use signalbox_types::Endpoint;

/// Most characters of an id or a reason in an answer, most reasons, and most stop sequences.
const LONGEST: usize = 128;
const MOST: usize = 16;
/// Bytes of an answer's text that are kept beyond those shown: the end of a text that was cut may hold half of a secret, and is never shown.
const SPARE: usize = 512;
/// Parameters that are numbers, by the API's name and the conventions'.
const NUMBERS: [(&str, &str); 6] = [
    ("temperature", "gen_ai.request.temperature"),
    ("top_p", "gen_ai.request.top_p"),
    ("top_k", "gen_ai.request.top_k"),
    ("frequency_penalty", "gen_ai.request.frequency_penalty"),
    ("presence_penalty", "gen_ai.request.presence_penalty"),
    ("seed", "gen_ai.request.seed"),
];

/// Facts from a request's body.
pub(super) struct RequestFacts {
    pub(super) attributes: Vec<(&'static str, Value)>,
}

impl RequestFacts {
    pub(super) fn of(endpoint: Endpoint, body: &RequestBody, content: Option<&CaptureContent>) -> Self {
        let mut attributes = Vec::new();
        let mut add = |key, value: Option<Value>| attributes.extend(value.map(|value| (key, value)));
        let read = |name: &str| body.member(name).and_then(read_json::<Json>);
        for (name, key) in NUMBERS {
            let number = read(name);
            let whole = (name == "seed").then(|| number.as_ref()?.as_u64()).flatten();
            add(key, whole.map(Value::Count).or_else(|| number?.as_f64().map(Value::Number)));
        }
        add("gen_ai.request.max_tokens", body.max_tokens.map(Value::Count));
        add("gen_ai.request.stream", Some(Value::Flag(body.stream)));
        let choices = read("n").and_then(|n| n.as_u64()).filter(|n| *n != 1);
        add("gen_ai.request.choice.count", choices.map(Value::Count));
        let stops = match read("stop").or_else(|| read("stop_sequences")) {
            Some(Json::String(one)) => vec![one],
            Some(Json::Array(all)) => all.iter().filter_map(|it| it.as_str().map(str::to_owned)).take(MOST).collect(),
            _ => Vec::new(),
        };
        let stops: Vec<_> = stops.into_iter().map(|it| it.chars().take(LONGEST).collect()).collect();
        add("gen_ai.request.stop_sequences", (!stops.is_empty()).then_some(Value::Texts(stops)));
        let format = read("response_format").and_then(|it| Some(it["type"].as_str()?.starts_with("json")));
        add("gen_ai.output.type", format.map(|json| Value::Word(if json { "json" } else { "text" })));
        // A longer body would hold up the worker.
        if let Some(content) = content.filter(|_| body.bytes().len() <= LONG_BODY) {
            let (system, messages) = said(endpoint, &read);
            let shown =
                |parts: Vec<Json>| Some(parts).filter(|parts| !parts.is_empty()).and_then(|it| content.shown(it));
            add("gen_ai.system_instructions", shown(system).map(Value::Text));
            add("gen_ai.input.messages", shown(messages).map(Value::Text));
        }
        Self { attributes }
    }
}

/// The parts of the system prompt, and the messages, in the form of the conventions.
fn said(endpoint: Endpoint, read: &dyn Fn(&str) -> Option<Json>) -> (Vec<Json>, Vec<Json>) {
    let (system, input) = match endpoint {
        Endpoint::Messages => (read("system"), read("messages")),
        Endpoint::Responses => (read("instructions"), read("input")),
        Endpoint::Completions => (None, read("prompt")),
        _ => (None, read("messages")),
    };
    let system = system.map(|it| parts(&it)).unwrap_or_default();
    let messages = match input {
        Some(Json::Array(all)) => all.iter().map(message).collect(),
        Some(text) => vec![json!({ "role": "user", "parts": parts(&text) })],
        None => Vec::new(),
    };
    (system, messages)
}

fn message(raw: &Json) -> Json {
    let role: String = raw["role"].as_str().unwrap_or("user").chars().take(LONGEST).collect();
    let mut all = parts(&raw["content"]);
    for call in raw["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        all.push(json!({ "type": "tool_call", "id": call["id"], "name": function["name"], "arguments": function["arguments"] }));
    }
    json!({ "role": role, "parts": all })
}

/// Parts of a message. Of what is no text only the kind is told.
fn parts(content: &Json) -> Vec<Json> {
    let part = |part: &Json| match part.as_str().or_else(|| part["text"].as_str()) {
        Some(text) => json!({ "type": "text", "content": text }),
        None => json!({ "type": part["type"].as_str().unwrap_or("unknown").chars().take(LONGEST).collect::<String>() }),
    };
    match content {
        Json::Null => Vec::new(),
        Json::Array(all) => all.iter().map(part).collect(),
        one => vec![part(one)],
    }
}

/// Facts from an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerFacts {
    pub(super) id: Option<String>,
    pub(super) reasons: Vec<String>,
    /// Its text, as far as it is captured.
    pub(super) text: Option<String>,
    /// The text goes on beyond what is captured.
    cut: bool,
}

/// Parts of an event, or of a whole answer, in all three APIs.
#[derive(Deserialize)]
struct Event {
    id: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(rename = "type")]
    kind: Option<String>,
    stop_reason: Option<String>,
    status: Option<String>,
    delta: Option<Json>,
    message: Option<Identified>,
    response: Option<Response>,
    content: Option<Json>,
    output: Option<Json>,
    incomplete_details: Option<Json>,
}

#[derive(Deserialize)]
struct Choice {
    finish_reason: Option<String>,
    delta: Option<Json>,
    message: Option<Json>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Identified {
    id: Option<String>,
}

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    status: Option<String>,
    incomplete_details: Option<Json>,
}

impl AnswerFacts {
    /// False for an event that has nothing to add, which most are told by without being parsed.
    pub(super) fn wants(&self, event: &[u8], most_text: usize) -> bool {
        self.id.is_none() || most_text > 0 || finishes(event)
    }

    /// Adds what one event, or a whole answer, says.
    pub(super) fn read(&mut self, data: &[u8], most_text: usize) {
        let Some(event) = read_json::<Event>(data) else { return };
        let Event {
            id,
            choices,
            kind,
            stop_reason,
            status,
            delta,
            message,
            response,
            content,
            output,
            incomplete_details,
        } = event;
        let id = id.or_else(|| message?.id).or_else(|| response.as_ref()?.id.clone());
        if self.id.is_none() {
            self.id = id.map(|id| id.chars().take(LONGEST).collect());
        }
        for Choice { finish_reason, delta, message, text } in choices {
            self.reason(finish_reason);
            let said = [delta, message].into_iter().flatten().find_map(|it| it["content"].as_str().map(str::to_owned));
            self.say(said.or(text).as_deref(), most_text);
        }
        self.reason(stop_reason.or_else(|| Some(delta.as_ref()?["stop_reason"].as_str()?.to_owned())));
        let whole = response.map(|it| (it.status, it.incomplete_details)).or(Some((status, incomplete_details)));
        if let Some((Some(status), details)) = whole
            && matches!(&*status, "completed" | "incomplete" | "failed")
        {
            let why = details.and_then(|it| it["reason"].as_str().map(str::to_owned));
            self.reason(why.or(Some(status)));
        }
        let delta = delta.as_ref();
        let said = delta.and_then(|it| it["text"].as_str());
        self.say(
            said.or_else(|| delta?.as_str().filter(|_| kind.as_deref() == Some("response.output_text.delta"))),
            most_text,
        );
        let output = output.iter().flat_map(|it| it.as_array().into_iter().flatten()).map(|it| &it["content"]);
        for part in content.iter().chain(output).flat_map(|it| it.as_array().into_iter().flatten()) {
            self.say(part["text"].as_str(), most_text);
        }
    }

    fn reason(&mut self, reason: Option<String>) {
        if let Some(reason) = reason.filter(|_| self.reasons.len() < MOST) {
            self.reasons.push(reason.chars().take(LONGEST).collect());
        }
    }

    fn say(&mut self, text: Option<&str>, most: usize) {
        let (Some(text), true) = (text, most > 0) else { return };
        let all = self.text.get_or_insert_default();
        let room = (most + SPARE).saturating_sub(all.len());
        let said = &text[..text.floor_char_boundary(room)];
        all.push_str(said);
        self.cut |= said.len() < text.len();
    }

    /// Replaces the text by what may be shown of it.
    pub(super) fn redact(&mut self, content: Option<&CaptureContent>) {
        let Some(mut text) = self.text.take() else { return };
        let Some(content) = content else { return };
        if self.cut {
            content.redact(&mut text);
            text.truncate(text.floor_char_boundary(text.len().saturating_sub(SPARE)));
            text += CaptureContent::CUT;
        }
        let reason = self.reasons.first();
        let message =
            json!({ "role": "assistant", "parts": [{ "type": "text", "content": text }], "finish_reason": reason });
        self.text = content.shown(vec![message]);
    }

    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let reasons = (!self.reasons.is_empty()).then(|| Value::Texts(self.reasons.clone()));
        let all = [
            ("gen_ai.response.id", self.id.clone().map(Value::Text)),
            ("gen_ai.response.finish_reasons", reasons),
            ("gen_ai.output.messages", self.text.clone().map(Value::Text)),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }
}

/// Reads JSON. The escapes of half a surrogate pair, which no text can hold, are read as replacement characters.
fn read_json<T: DeserializeOwned>(raw: &[u8]) -> Option<T> {
    serde_json::from_slice(raw).ok().or_else(|| serde_json::from_slice(&whole_pairs(raw)?).ok())
}

/// `raw` with U+FFFD for each escape of half a surrogate pair; `None` without any.
fn whole_pairs(raw: &[u8]) -> Option<Vec<u8>> {
    let half = |at: usize, of: std::ops::Range<u16>| {
        let digits = raw.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let code = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        of.contains(&code).then_some(())
    };
    let (first, second) = (0xd800..0xdc00, 0xdc00..0xe000);
    let (mut whole, mut at, mut is_changed) = (Vec::with_capacity(raw.len()), 0, false);
    while let Some(rest) = raw.get(at..).filter(|rest| !rest.is_empty()) {
        let escape = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
        whole.extend_from_slice(&rest[..escape]);
        at += escape;
        let is_first = half(at, first.clone()).is_some();
        let length = match is_first {
            true if half(at + 6, second.clone()).is_some() => 12,
            _ if is_first || half(at, second.clone()).is_some() => {
                whole.extend_from_slice(b"\\ufffd");
                is_changed = true;
                at += 6;
                continue;
            }
            _ => 2,
        };
        let end = (at + length).min(raw.len());
        whole.extend_from_slice(&raw[at..end]);
        at = end;
    }
    is_changed.then_some(whole)
}

/// True where an event may give a reason to finish: `finish_reason` or `stop_reason` with a text, or the state of a response.
fn finishes(event: &[u8]) -> bool {
    let reasons = memmem::find_iter(event, b"_reason\"");
    let mut values = reasons.map(|at| event[at + b"_reason\"".len()..].trim_ascii_start().strip_prefix(b":"));
    values.any(|value| value.is_some_and(|value| value.trim_ascii_start().starts_with(b"\"")))
        || memmem::find(event, b"\"status\"").is_some()
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;
    use signalbox_policy::Redactor;

    #[test]
    fn facts_are_read_from_all_three_apis_streamed_and_whole() {
        let read = |events: &[&str]| {
            let mut facts = AnswerFacts::default();
            for event in events {
                facts.read(event.as_bytes(), 100);
            }
            let mut sparing = AnswerFacts::default();
            for event in events {
                if sparing.wants(event.as_bytes(), 0) {
                    sparing.read(event.as_bytes(), 0);
                }
            }
            assert_eq!((&sparing.id, &sparing.reasons), (&facts.id, &facts.reasons));
            (facts.id.unwrap_or_default(), facts.reasons.concat(), facts.text.unwrap_or_default())
        };
        let wanted = |reason: &str| ("a".to_owned(), reason.to_owned(), "hi you".to_owned());
        let chat = [
            r#"{"id":"a","choices":[{"delta":{"content":"hi "}}]}"#,
            r#"{"id":"a","choices":[{"delta":{"content":"you"},"finish_reason":"stop"}]}"#,
        ];
        assert_eq!(read(&chat), wanted("stop"));
        assert_eq!(
            read(&[r#"{"id":"a","choices":[{"message":{"content":"hi you"},"finish_reason":"length"}]}"#]),
            wanted("length")
        );
        let messages = [
            r#"{"type":"message_start","message":{"id":"a"}}"#,
            r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi you"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
        ];
        assert_eq!(read(&messages), wanted("end_turn"));
        assert_eq!(
            read(&[
                r#"{"id":"a","type":"message","content":[{"type":"text","text":"hi you"}],"stop_reason":"end_turn"}"#
            ]),
            wanted("end_turn")
        );
        let responses = [
            r#"{"type":"response.created","response":{"id":"a","status":"in_progress"}}"#,
            r#"{"type":"response.output_text.delta","delta":"hi you"}"#,
            r#"{"type":"response.incomplete","response":{"id":"a","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#,
        ];
        assert_eq!(read(&responses), wanted("max_output_tokens"));
        assert_eq!(
            read(&[
                r#"{"id":"a","status":"completed","output":[{"content":[{"type":"output_text","text":"hi you"}]}]}"#
            ]),
            wanted("completed")
        );
        let known = AnswerFacts { id: Some("a".to_owned()), ..AnswerFacts::default() };
        assert!(!known.wants(br#"{"id":"a","choices":[{"delta":{"content":"you"},"finish_reason":null}]}"#, 0));
        assert!(known.wants(br#"{"id":"a","choices":[{"delta":{},"finish_reason": "stop"}]}"#, 0));
        assert_eq!(read(&["[DONE]", "{", r#"{"choices":7}"#]).1, "");
    }

    #[test]
    fn halves_of_surrogate_pairs_do_not_hide_the_rest() {
        let read = |text: &str| read_json::<Json>(text.as_bytes());
        assert_eq!(
            read(r#"["a\ud83d b\ude00","\ud83d\ude00 \\ud83d"]"#),
            Some(json!(["a\u{fffd} b\u{fffd}", "😀 \\ud83d"]))
        );
        assert_eq!(read(r#"["\ud83d"#), None);
        assert_eq!(read("[\"\\"), None);
    }

    /// Secrets that redaction shortens move the end of what was kept into view.
    #[test]
    fn the_end_of_a_long_answer_shows_no_half_of_a_secret() {
        let own = vec![Regex::new(r"s[0-9]{6} ").unwrap()];
        let content = CaptureContent { most: 4096, redactor: Redactor::new(own) };
        for shift in 0..8 {
            let said = format!("{}{}", "-".repeat(shift), "s123456 ".repeat(1000));
            let mut facts = AnswerFacts::default();
            for part in said.as_bytes().chunks(50) {
                facts.say(std::str::from_utf8(part).ok(), 4096);
            }
            facts.redact(Some(&content));
            let shown = facts.text.unwrap();
            assert!(!shown.contains(['1', '6']), "{shown}");
            assert!(shown.contains("[redacted]") && shown.contains(CaptureContent::CUT), "{shown}");
        }
    }
}
