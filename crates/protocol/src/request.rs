//! Reads the routing fields of a request's body.

use std::ops::Range;

use bytes::Bytes;
use http::StatusCode;

use super::{
    json,
    multipart::{Form, names_models, twice},
    walk::{elements, inside, is_nothing, member, string},
};
use signalbox_types::{Endpoint, Fault};

/// A request's body and the fields that the gateway has read. All other bytes are kept.
#[derive(Clone, Debug)]
pub struct RequestBody {
    pub(super) bytes: Bytes,
    pub(super) members: Vec<json::Member>,
    /// The model's name, if the body has one.
    pub model: Option<String>,
    /// The range of that name: a JSON string with its quotes, or a multipart field's content.
    pub(super) model_at: Option<Range<usize>>,
    /// True if the answer is to be streamed.
    pub stream: bool,
    /// True if the client itself requested the usage chunk at the end of a stream.
    pub include_usage: bool,
    /// The client's limit on the answer, in tokens.
    pub max_tokens: Option<u64>,
    /// True if a form has a field that may set another model on some server.
    form_names_more: bool,
    /// The API of a body that was read.
    endpoint: Option<Endpoint>,
    /// Bytes of the prompt (messages, prompt, input, tools, instructions).
    pub prompt_bytes: usize,
}

/// The members that the model reads, in the order of chat templates.
const RENDERED: [&[u8]; 8] =
    [b"tools", b"system", b"instructions", b"documents", b"messages", b"prompt", b"input", b"query"];

/// Words that ask an engine to refuse a prompt that is too long.
const KEPT_WHOLE: [&[u8]; 5] = [b"", b"none", b"disabled", b"off", b"error"];

impl RequestBody {
    /// A body that is passed on without being read.
    pub fn opaque(bytes: Bytes) -> Self {
        Self {
            // Audio and images are not text: their size in tokens is unknown.
            prompt_bytes: 0,
            bytes,
            members: Vec::new(),
            model: None,
            model_at: None,
            stream: false,
            include_usage: false,
            max_tokens: None,
            form_names_more: false,
            endpoint: None,
        }
    }

    /// Reads a multipart form; `boundary` is its content type's.
    pub fn form(bytes: Bytes, boundary: &str) -> Result<Self, Fault> {
        let Form { model: model_at, stream, names_more, .. } = Form::read(&bytes, boundary)?;
        let model = match &model_at {
            Some(at) => Some(
                std::str::from_utf8(&bytes[at.clone()])
                    .map_err(|_| Fault::field("model", "the form field 'model' is not UTF-8 text"))?
                    .to_owned(),
            ),
            None => None,
        };
        Ok(Self { model, model_at, stream, form_names_more: names_more, ..Self::opaque(bytes) })
    }

    /// Reads a JSON object in one pass.
    pub fn json(endpoint: Endpoint, bytes: Bytes) -> Result<Self, Fault> {
        let members = json::members(&bytes).map_err(|error| not_json(&bytes, &error))?;
        let mut body = Self { members, endpoint: Some(endpoint), ..Self::opaque(bytes) };
        body.read(endpoint)?;
        Ok(body)
    }

    /// True if a text as `input` is a user's message, as in the Responses API, and not an embedding's text.
    pub fn input_is_message(&self) -> bool {
        self.endpoint == Some(Endpoint::Responses)
    }

    fn read(&mut self, endpoint: Endpoint) -> Result<(), Fault> {
        let bytes = self.bytes.clone();
        let members = std::mem::take(&mut self.members);
        let mut seen = 0_u32;
        for member in &members {
            let raw = &bytes[member.value.clone()];
            let value = Value { name: member.name(&bytes), raw };
            let bit = match member.name(&bytes) {
                b"model" => {
                    self.model = Some(value.text()?);
                    self.model_at = Some(member.value.clone());
                    0
                }
                b"stream" => {
                    self.stream = value.flag()?;
                    1
                }
                b"stream_options" => {
                    self.include_usage = value.include_usage()?;
                    2
                }
                b"max_tokens" => {
                    self.max_tokens = value.count()?.or(self.max_tokens);
                    3
                }
                b"max_completion_tokens" | b"max_output_tokens" => {
                    self.max_tokens = value.count()?.or(self.max_tokens);
                    4
                }
                // Servers that match field names without regard to case would use it instead of the field that was
                // checked here.
                name if name.eq_ignore_ascii_case(b"model") => {
                    let name = value.name();
                    return Err(Fault::field(name.clone(), format!("'{name}' is not a field: write 'model'")));
                }
                b"messages" => {
                    value.list()?;
                    self.prompt_bytes += raw.len();
                    5
                }
                b"tools" => {
                    value.list_or_null()?;
                    self.prompt_bytes += raw.len();
                    6
                }
                b"prompt" | b"input" | b"instructions" | b"system" | b"query" | b"documents" => {
                    self.prompt_bytes += raw.len();
                    continue;
                }
                _ => continue,
            };
            if seen & (1 << bit) != 0 {
                return Err(twice(&value.name()));
            }
            seen |= 1 << bit;
        }
        self.members = members;
        self.check_required(endpoint)
    }

    fn check_required(&self, endpoint: Endpoint) -> Result<(), Fault> {
        // The second of each pair is what engines take instead: precomputed embeddings, and a conversation to embed.
        let prompt: Option<[&str; 2]> = match endpoint {
            Endpoint::Chat | Endpoint::Messages => Some(["messages"; 2]),
            Endpoint::Completions => Some(["prompt", "prompt_embeds"]),
            Endpoint::Embeddings => Some(["input", "messages"]),
            _ => None,
        };
        let Some(prompt) = prompt else { return Ok(()) };
        match [["model"; 2], prompt].into_iter().find(|names| names.iter().all(|name| self.member(name).is_none())) {
            None => Ok(()),
            Some([name, _]) => {
                Err(Fault::field(name, format!("you must provide '{name}': add a \"{name}\" field to the body")))
            }
        }
    }

    /// The prompt as it stands in the body, in the order in which chat templates render it. Lists come without their
    /// closing bracket: a conversation's next request continues where this one ends. Empty for a body that was not read
    /// as JSON.
    pub fn rendered(&self) -> impl Iterator<Item = &[u8]> {
        self.read_by_the_model().map(|(_, raw)| inside(raw))
    }

    /// The members that the model reads, each with its name and whole raw value.
    pub(super) fn read_by_the_model(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let named = |wanted: &'static &[u8]| self.members().filter(move |(name, _)| name == wanted);
        RENDERED.iter().flat_map(named)
    }

    /// The top-level members in order, each an unescaped name and a raw JSON value. Empty for a body that was not read
    /// as JSON.
    pub fn members(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.members.iter().map(|member| (member.name(&self.bytes), &self.bytes[member.value.clone()]))
    }

    /// True if the request asks for reasoning, which may delay the first output by a minute.
    pub fn asks_to_think(&self) -> bool {
        ["reasoning", "reasoning_effort", "thinking", "thinking_budget"]
            .iter()
            .filter_map(|name| self.member(name))
            .any(|value| !matches!(value, b"null" | b"\"none\"" | b"\"minimal\"" | b"false" | b"0"))
    }

    /// True if the request asks the engine to shorten a prompt that is too long for it:
    ///
    /// * `truncate_prompt_tokens` (vLLM), `prompt_truncate_len` and `context_length_exceeded_behavior` (Fireworks)
    /// * `truncate` (Cohere, NVIDIA NIM, Text Embeddings Inference, Ollama)
    /// * `truncation` (Responses)
    /// * `transforms` and the plugin `context-compression` (`OpenRouter`)
    /// * `context_management` (Messages, Responses)
    pub fn asks_to_truncate(&self) -> bool {
        self.members().any(|(name, raw)| match name {
            b"truncate_prompt_tokens" | b"prompt_truncate_len" => {
                serde_json::from_slice(raw).is_ok_and(|tokens: f64| tokens != 0.0)
            }
            b"truncate" | b"truncation" | b"context_length_exceeded_behavior" => match string(raw) {
                Some(way) => !KEPT_WHOLE.iter().any(|whole| way.eq_ignore_ascii_case(whole)),
                None => raw == b"true" || raw.starts_with(b"{") && !is_nothing(raw),
            },
            b"transforms" => elements(raw).any(|transform| string(transform) == Some(b"middle-out")),
            b"plugins" => elements(raw).any(|plugin| {
                let id = member(plugin, "id").and_then(string);
                id == Some(b"context-compression") && member(plugin, "enabled") != Some(b"false")
            }),
            b"context_management" => !is_nothing(raw),
            _ => false,
        })
    }

    /// The raw JSON of the top-level member `name`; the first if there are several.
    pub fn member(&self, name: &str) -> Option<&[u8]> {
        self.members().find(|(it, _)| *it == name.as_bytes()).map(|(_, raw)| raw)
    }

    /// True if the body was read as JSON.
    pub fn is_json(&self) -> bool {
        !self.members.is_empty()
    }

    /// The name of the first field, other than `model`, that may name a model. For a form it is always `models`.
    pub fn other_model_field(&self) -> Option<String> {
        let mut named = self.members().map(|(name, _)| name).filter(|name| *name != b"model" && names_models(name));
        let name = named.next().map(|name| String::from_utf8_lossy(name).into_owned());
        name.or_else(|| self.form_names_more.then(|| "models".to_owned()))
    }

    /// The body as received.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

fn not_json(bytes: &[u8], error: &serde_json::Error) -> Fault {
    let message = if bytes.iter().all(u8::is_ascii_whitespace) {
        "the request has no body: send a JSON object with the content type application/json".to_owned()
    } else {
        format!("the body is not a valid JSON object: {error}")
    };
    Fault::client(StatusCode::BAD_REQUEST, "bad_json", message).with_code("invalid_json")
}

/// A member's value, to be read as the type that its name requires.
struct Value<'a> {
    name: &'a [u8],
    raw: &'a [u8],
}

impl Value<'_> {
    fn name(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }

    fn wrong(&self, wanted: &str) -> Fault {
        let found = match self.raw.first() {
            Some(b'"') => "a string",
            Some(b'[') => "an array",
            Some(b'{') => "an object",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        };
        let name = self.name();
        let message = format!("'{name}' must be {wanted}, not {found}{}", self.shown());
        Fault { class: "invalid_request_error", ..Fault::field(name, message) }.with_code("invalid_type")
    }

    /// The value itself, if it is short enough to be helpful.
    fn shown(&self) -> String {
        match self.raw {
            b"null" => String::new(),
            raw if raw.len() <= 24 => format!(" ({})", String::from_utf8_lossy(raw)),
            _ => String::new(),
        }
    }

    fn text(&self) -> Result<String, Fault> {
        let text: String = serde_json::from_slice(self.raw).map_err(|_| self.wrong("a string"))?;
        if text.is_empty() {
            return Err(Fault::field(self.name(), format!("'{}' must not be empty", self.name())));
        }
        Ok(text)
    }

    fn flag(&self) -> Result<bool, Fault> {
        match self.raw {
            b"true" => Ok(true),
            b"false" | b"null" => Ok(false),
            _ => Err(self.wrong("a boolean")),
        }
    }

    fn count(&self) -> Result<Option<u64>, Fault> {
        match self.raw {
            b"null" => Ok(None),
            raw => serde_json::from_slice(raw).map(Some).map_err(|_| self.wrong("a whole number of at least 0")),
        }
    }

    fn list(&self) -> Result<(), Fault> {
        match self.raw {
            [b'[', inner @ .., b']'] if inner.iter().all(u8::is_ascii_whitespace) => {
                Err(Fault::field(self.name(), format!("'{}' must have at least one element", self.name())))
            }
            [b'[', ..] => Ok(()),
            _ => Err(self.wrong("an array")),
        }
    }

    fn list_or_null(&self) -> Result<(), Fault> {
        match self.raw {
            b"null" | [b'[', ..] => Ok(()),
            _ => Err(self.wrong("an array")),
        }
    }

    fn include_usage(&self) -> Result<bool, Fault> {
        #[derive(serde::Deserialize)]
        struct Options {
            include_usage: Option<bool>,
        }
        match self.raw {
            b"null" => Ok(false),
            [b'{', ..] => match serde_json::from_slice::<Options>(self.raw) {
                Ok(options) => Ok(options.include_usage.unwrap_or(false)),
                Err(_) => Err(Fault::field(
                    "stream_options.include_usage",
                    "'stream_options.include_usage' must be a boolean",
                )
                .with_code("invalid_type")),
            },
            _ => Err(self.wrong("an object")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::edits::{Edits, fuzz_request};

    fn chat(text: &str) -> Result<RequestBody, Fault> {
        RequestBody::json(Endpoint::Chat, Bytes::copy_from_slice(text.as_bytes()))
    }

    fn edited(text: &str, edits: &Edits<'_>) -> String {
        String::from_utf8(chat(text).unwrap().edited(edits).to_vec()).unwrap()
    }

    #[test]
    fn only_what_must_change_changes() {
        let text =
            r#"{ "x_vendor": {"k":  1e400, "b" :"\ud83d"}, "model":"a","messages":[{"role":"user"}] ,"stream":true }"#;
        assert_eq!(
            edited(text, &Edits { model: Some("b"), include_usage: true, ..Edits::default() }),
            r#"{ "x_vendor": {"k":  1e400, "b" :"\ud83d"}, "model":"b","messages":[{"role":"user"}] ,"stream":true,"stream_options":{"include_usage":true} }"#
        );
    }

    #[test]
    fn the_cache_member_is_not_forwarded() {
        let text = r#"{"model":"a","cache":{"ttl":1},"messages":[1]}"#;
        assert_eq!(edited(text, &Edits::default()), text);
        let edits = Edits { drop_cache: true, ..Edits::default() };
        assert_eq!(edited(text, &edits), r#"{"model":"a","messages":[1]}"#);
    }

    #[test]
    fn a_model_that_is_dropped_is_not_renamed() {
        let edits = Edits { model: Some("b"), drop: &["model".to_owned()], ..Edits::default() };
        for text in [r#"{"model":"a","messages":[1]}"#, r#"{"messages":[1],"model":"a"}"#] {
            assert_eq!(edited(text, &edits), r#"{"messages":[1]}"#);
        }
    }

    #[test]
    fn a_body_without_edits_is_not_copied() {
        let body = chat(r#"{"model":"a","messages":[1]}"#).unwrap();
        assert_eq!(body.edited(&Edits { model: Some("a"), ..Edits::default() }).as_ptr(), body.bytes().as_ptr());
    }

    #[test]
    fn usage_is_requested_beside_other_stream_options() {
        let edits = Edits { include_usage: true, ..Edits::default() };
        assert_eq!(
            edited(r#"{"model":"a","messages":[1],"stream_options":{"include_usage":false,"x":1}}"#, &edits),
            r#"{"model":"a","messages":[1],"stream_options":{"include_usage":true,"x":1}}"#
        );
        assert_eq!(
            edited(r#"{"model":"a","stream_options":null,"messages":[1]}"#, &edits),
            r#"{"model":"a","stream_options":{"include_usage":true},"messages":[1]}"#
        );
    }

    #[test]
    fn a_member_is_renamed() {
        let rename = Some(("max_tokens", "max_completion_tokens"));
        let edits = Edits { rename, ..Edits::default() };
        for (text, want) in [
            (
                r#"{"model":"a","max_tokens" : 7,"messages":[1]}"#,
                r#"{"model":"a","max_completion_tokens" : 7,"messages":[1]}"#,
            ),
            (
                r#"{"model":"a","messages":[1],"max_tokens":7}"#,
                r#"{"model":"a","messages":[1],"max_completion_tokens":7}"#,
            ),
        ] {
            assert_eq!(edited(text, &edits), want);
        }
        let both = r#"{"model":"a","max_tokens":7,"max_completion_tokens":8,"messages":[1]}"#;
        assert_eq!(edited(both, &edits), both);
        let drop = ["max_tokens".to_owned()];
        let dropped = Edits { rename, drop: &drop, ..Edits::default() };
        assert_eq!(
            edited(r#"{"max_tokens":7,"messages":[1],"model":"a"}"#, &dropped),
            r#"{"messages":[1],"model":"a"}"#
        );
    }

    #[test]
    fn members_are_dropped_and_added() {
        let drop = ["top_k".to_owned(), "seed".to_owned(), "model".to_owned(), "messages".to_owned()];
        let defaults =
            [("max_tokens".to_owned(), Bytes::from_static(b"9")), ("seed".to_owned(), Bytes::from_static(b"1"))];
        let text = r#"{"top_k":1,"model":"a","messages":[1], "seed":2, "top_k":3}"#;
        let keep = Edits { drop: &drop[..2], ..Edits::default() };
        assert_eq!(edited(text, &keep), r#"{"model":"a","messages":[1]}"#);
        let add = Edits { drop: &drop[..1], defaults: &defaults, ..Edits::default() };
        assert_eq!(edited(text, &add), r#"{"model":"a","messages":[1], "seed":2,"max_tokens":9}"#);
        let all = Edits { drop: &drop, defaults: &defaults, ..Edits::default() };
        assert_eq!(edited(text, &all), r#"{"max_tokens":9}"#);
    }

    #[test]
    fn faults_name_the_field() {
        let fault = |text: &str| chat(text).map(|_| ()).unwrap_err();
        for (text, param, message) in [
            (r#"{"messages":[1]}"#, "model", r#"you must provide 'model': add a "model" field to the body"#),
            (r#"{"model":7,"messages":[1]}"#, "model", "'model' must be a string, not a number (7)"),
            (r#"{"model":"","messages":[1]}"#, "model", "'model' must not be empty"),
            (r#"{"model":"a","messages":{}}"#, "messages", "'messages' must be an array, not an object ({})"),
            (r#"{"model":"a","messages":[ ]}"#, "messages", "'messages' must have at least one element"),
            (
                r#"{"model":"a","messages":[1],"stream":"yes"}"#,
                "stream",
                r#"'stream' must be a boolean, not a string ("yes")"#,
            ),
            (
                r#"{"model":"a","messages":[1],"max_tokens":-1}"#,
                "max_tokens",
                "'max_tokens' must be a whole number of at least 0, not a number (-1)",
            ),
            (
                r#"{"model":"a","messages":[1],"mod\u0065l":"b"}"#,
                "model",
                "'model' is given twice: which one counts would be a guess, so send it once",
            ),
        ] {
            let fault = fault(text);
            assert_eq!((fault.param.as_deref(), &*fault.message), (Some(param), message), "{text}");
        }
        assert!(fault("{\"model\": \n oops}").message.contains("line 2 column 2"));
        assert!(fault(" ").message.starts_with("the request has no body"));
    }

    fn rendered(text: &str) -> String {
        let body = RequestBody::json(Endpoint::Responses, Bytes::copy_from_slice(text.as_bytes())).unwrap();
        let parts: Vec<_> = body.rendered().map(|part| std::str::from_utf8(part).unwrap()).collect();
        parts.join("|")
    }

    #[test]
    fn requests_to_shorten_the_prompt_are_recognised() {
        let asks =
            |member: &str| chat(&format!(r#"{{"model":"m","messages":[1],{member}}}"#)).unwrap().asks_to_truncate();
        for member in [
            r#""truncate_prompt_tokens":4000"#,
            r#""truncate_prompt_tokens":-1"#,
            r#""prompt_truncate_len":100"#,
            r#""context_length_exceeded_behavior":"truncate""#,
            r#""truncation":"auto""#,
            r#""truncation":{"type":"last_messages"}"#,
            r#""truncate":true"#,
            r#""truncate":"END""#,
            r#""transforms":["middle-out"]"#,
            r#""plugins":[{"id":"web"},{"id":"context-compression"}]"#,
            r#""context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}"#,
        ] {
            assert!(asks(member), "{member}");
        }
        for member in [
            r#""truncate_prompt_tokens":null"#,
            r#""truncate_prompt_tokens":0"#,
            r#""context_length_exceeded_behavior":"error""#,
            r#""truncation":"disabled""#,
            r#""truncation":null"#,
            r#""truncate":false"#,
            r#""truncate":"NONE""#,
            r#""transforms":[]"#,
            r#""plugins":[{"id":"context-compression","enabled":false}]"#,
            r#""context_management":{}"#,
            r#""user":"truncate""#,
        ] {
            assert!(!asks(member), "{member}");
        }
    }

    #[test]
    fn the_prompt_is_rendered_in_the_order_of_templates() {
        let text = r#"{"messages":[ {"role":"user"} ],"temperature":1,"system":"be \"terse\"","tools":[{"name":"t"}],"model":"a"}"#;
        let other =
            r#"{"model":"b","tools":[{"name":"t"}],"system":"be \"terse\"","messages":[ {"role":"user"} ],"seed":1}"#;
        assert_eq!(rendered(text), r#"{"name":"t"}|be \"terse\"|{"role":"user"}"#);
        assert_eq!(rendered(text), rendered(other));
        assert_eq!(rendered(r#"{"input":["a","b"],"instructions":null,"prompt":""}"#), r#"null||"a","b""#);
        assert_eq!(rendered(r#"{"tools":[ ],"model":"a"}"#), "");
        assert_eq!(RequestBody::opaque(Bytes::from_static(b"{\"prompt\":1}")).rendered().count(), 0);
    }

    #[test]
    fn a_conversation_s_next_request_continues_the_last() {
        let first = r#"{"model":"a","messages":[{"role":"user","content":"hi"}],"tools":[1]}"#;
        let next = r#"{"model":"a","messages":[{"role":"user","content":"hi"},{"role":"assistant"},{"role":"user"}],"tools":[1]}"#;
        assert!(rendered(next).starts_with(&rendered(first)));
        assert!(rendered(r#"{"prompt":"once upon a"}"#).starts_with(&rendered(r#"{"prompt":"once upon"}"#)));
    }

    #[test]
    fn a_form_is_read_and_renamed() {
        let text = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n\x01\x02\r\n--x--\r\n";
        let body = RequestBody::form(Bytes::from_static(text.as_bytes()), "x").unwrap();
        assert_eq!(body.model.as_deref(), Some("whisper"));
        let twice = text.replace("name=\"file\"", "name=\"model\"");
        assert_eq!(RequestBody::form(Bytes::from(twice), "x").unwrap_err().code, Some("duplicate_field"));
        let renamed = body.edited(&Edits { model: Some("w-1"), ..Edits::default() });
        assert_eq!(renamed, text.replace("whisper", "w-1").as_bytes());
    }

    proptest! {
        #[test]
        fn edits_keep_json_json(parts in proptest::collection::vec("(\"(a|b|model|top_k|stream_options|messages)\"|null|\\[1\\]|\\{\\}|:|,| )", 0..24)) {
            fuzz_request(format!("{{{}}}", parts.concat()).as_bytes());
        }

        #[test]
        fn members_in_any_order_can_be_edited(names in proptest::collection::vec(prop_oneof![Just("a"), Just("b"), Just("model"), Just("top_k"), Just("z"), Just("input"), Just("messages")], 1..8)) {
            let body: Vec<String> = names.iter().map(|name| match *name {
                "messages" => "\"messages\":[1]".to_owned(),
                name => format!("\"{name}\": \"v\""),
            }).collect();
            fuzz_request(format!("{{ {} }}", body.join(" , ")).as_bytes());
        }
    }
}
