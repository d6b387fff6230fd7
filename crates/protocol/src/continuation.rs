//! Continues an answer that broke off: builds the request for the rest, and adapts its events to the first stream.
//!
//! A model can be asked to continue its own text if its server accepts the assistant's message as the last one.
//! Otherwise the same request is sent again, and the text already sent is removed from the new answer, provided that
//! the new answer begins with exactly that text. In both cases the caller receives one answer: one role, one id, no
//! text twice.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::RequestBody;
use signalbox_types::Endpoint;

/// The way in which a server is asked to continue.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Prefill {
    /// A last message by the assistant, and a flag to continue it (vLLM, `SGLang`).
    Flagged,
    /// A last message by the assistant (llama.cpp).
    Plain,
}

/// Members with which an answer is still only its text, whatever their value.
const HARMLESS: [&str; 22] = [
    "model",
    "messages",
    "prompt",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "seed",
    "stop",
    "user",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "metadata",
    "service_tier",
    "ignore_eos",
];
/// Further members for which that holds with these values alone.
const HARMLESS_AS: [(&str, &[&str]); 11] = [
    ("tools", &["null", "[]"]),
    ("functions", &["null", "[]"]),
    ("n", &["null", "1"]),
    ("best_of", &["null", "1"]),
    ("logprobs", &["null", "false"]),
    ("top_logprobs", &["null", "0"]),
    ("response_format", &["null", "{\"type\":\"text\"}", "{\"type\": \"text\"}"]),
    ("store", &["null", "false"]),
    ("reasoning_effort", &["null", "\"none\""]),
    ("echo", &["null", "false"]),
    ("suffix", &["null", "\"\""]),
];

/// True if an answer to this request is only its text, so that it can be continued where it broke off. An unknown
/// member could be a grammar, which would start again from its beginning.
pub fn is_plain_text(endpoint: Endpoint, body: &RequestBody) -> bool {
    let plain = |(name, value): (&[u8], &[u8])| {
        HARMLESS.iter().any(|it| it.as_bytes() == name)
            || HARMLESS_AS
                .iter()
                .any(|(it, values)| it.as_bytes() == name && values.iter().any(|it| it.as_bytes() == value))
    };
    matches!(endpoint, Endpoint::Chat | Endpoint::Completions) && body.members().all(plain)
}

/// The request for the text after `said`, which took about `tokens` tokens. `None` if this request cannot be continued.
pub fn request(
    endpoint: Endpoint,
    body: &RequestBody,
    prefill: Option<Prefill>,
    said: &str,
    tokens: u64,
) -> Option<RequestBody> {
    let mut members: Map<String, Value> = serde_json::from_slice(body.bytes()).ok()?;
    match endpoint {
        Endpoint::Chat => {
            let messages = members.get_mut("messages")?.as_array_mut()?;
            // Either the last message is the caller's, or it is the model's and is already being continued.
            if messages.last()?.get("role")? == "assistant" {
                return None;
            }
            messages.push(serde_json::json!({ "role": "assistant", "content": said }));
            if prefill? == Prefill::Flagged {
                members.insert("continue_final_message".to_owned(), true.into());
                members.insert("add_generation_prompt".to_owned(), false.into());
            }
        }
        // Every completion continues its prompt.
        Endpoint::Completions => {
            let Some(Value::String(prompt)) = members.get_mut("prompt") else { return None };
            prompt.push_str(said);
        }
        _ => return None,
    }
    for name in ["max_tokens", "max_completion_tokens"] {
        if let Some(most) = members.get(name).and_then(Value::as_u64) {
            members.insert(name.to_owned(), most.saturating_sub(tokens).max(1).into());
        }
    }
    RequestBody::json(endpoint, serde_json::to_vec(&members).ok()?.into()).ok()
}

/// The new answer does not begin with the text already sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the repeated request produced a different answer")]
pub struct Mismatch;

/// Adapts the events of the new stream to those already sent.
#[derive(Debug)]
pub struct StreamAdapter {
    /// The identifying members of the first stream's events.
    own: Map<String, Value>,
    /// The text that the new answer must repeat before it continues, and the length already repeated.
    expected: String,
    repeated: usize,
    /// Tokens already sent, which the usage of the new stream does not include.
    before: u64,
}

impl StreamAdapter {
    /// Adapts to a first stream with an event like `event`. The new stream repeats `expected` first, and its usage
    /// lacks `before` tokens.
    pub fn new(event: &[u8], expected: &str, before: u64) -> Self {
        let own: Map<String, Value> = serde_json::from_slice(event).unwrap_or_default();
        let named = |name: &str| matches!(name, "id" | "created" | "model" | "system_fingerprint" | "object");
        let own = own.into_iter().filter(|(name, _)| named(name)).collect();
        Self { own, expected: expected.to_owned(), repeated: 0, before }
    }

    /// The text that the caller has and the new stream has not repeated yet.
    pub fn still_expected(&self) -> &str {
        &self.expected[self.repeated..]
    }

    /// Tokens sent before this stream.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// Converts an event of the new stream into one of the first stream; `None` if the caller already has all of it.
    ///
    /// # Errors
    /// [`Mismatch`] if the new stream does not repeat the text already sent.
    pub fn fit(&mut self, data: &[u8]) -> Result<Option<Bytes>, Mismatch> {
        if data.trim_ascii() == b"[DONE]" {
            return if self.still_expected().is_empty() { Ok(Some(event("[DONE]"))) } else { Err(Mismatch) };
        }
        let Ok(mut chunk) = serde_json::from_slice::<Map<String, Value>>(data) else { return Ok(None) };
        chunk.extend(self.own.clone());
        let mut says_something = self.count(&mut chunk);
        if let Some(choice) = chunk.get_mut("choices").and_then(|choices| choices.get_mut(0)) {
            says_something |= self.choice(choice)?;
        }
        Ok(says_something.then(|| event(&Value::Object(chunk).to_string())))
    }

    /// Adds the tokens already sent to the usage; returns true if there is usage.
    fn count(&self, chunk: &mut Map<String, Value>) -> bool {
        let Some(usage) = chunk.get_mut("usage").and_then(Value::as_object_mut) else { return false };
        let count = |usage: &Map<String, Value>, name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
        let (prompt, completion) = (count(usage, "prompt_tokens"), count(usage, "completion_tokens"));
        // The continued request had them in its prompt.
        let (prompt, completion) = (prompt.saturating_sub(self.before), completion.saturating_add(self.before));
        usage.insert("prompt_tokens".to_owned(), prompt.into());
        usage.insert("completion_tokens".to_owned(), completion.into());
        if usage.contains_key("total_tokens") {
            usage.insert("total_tokens".to_owned(), prompt.saturating_add(completion).into());
        }
        true
    }

    fn choice(&mut self, choice: &mut Value) -> Result<bool, Mismatch> {
        let finished = choice.get("finish_reason").is_some_and(|reason| !reason.is_null());
        if let Some(delta) = choice.get_mut("delta").and_then(Value::as_object_mut) {
            delta.remove("role");
        }
        let delta = choice.get_mut("delta").filter(|delta| delta.is_object());
        let (holder, name) = match delta {
            Some(delta) => (delta, "content"),
            None => (choice, "text"),
        };
        let mut more = false;
        if let Some(Value::String(text)) = holder.get_mut(name) {
            let rest = self.unsent(text)?.into_owned();
            more = !rest.is_empty();
            *text = rest;
        }
        if finished && !self.still_expected().is_empty() {
            return Err(Mismatch);
        }
        Ok(more || finished)
    }

    /// The part of `text` that the caller does not have yet.
    fn unsent<'a>(&mut self, text: &'a str) -> Result<Cow<'a, str>, Mismatch> {
        let left = self.still_expected();
        if left.starts_with(text) {
            self.repeated += text.len();
            return Ok("".into());
        }
        let rest = text.strip_prefix(left).ok_or(Mismatch)?;
        self.repeated = self.expected.len();
        Ok(rest.into())
    }
}

fn event(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

/// Fuzz target: the first event belongs to the broken stream and its text is the text already sent; the other events
/// are the rest. The output must be readable and carry only the first stream's id.
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_rest(input: &[u8]) {
    let mut splitter = super::Splitter::new(1 << 20);
    splitter.feed(Bytes::copy_from_slice(input));
    let mut events = std::iter::from_fn(|| splitter.next_event().ok().flatten());
    let Some(first) = events.next() else { return };
    let first = first.data().unwrap_or_default().into_owned();
    let id = |data: &[u8]| serde_json::from_slice::<Value>(data).ok().and_then(|value| value.get("id").cloned());
    let said = serde_json::from_slice::<Value>(&first).ok();
    let said = said.and_then(|value| value["choices"][0]["delta"]["content"].as_str().map(str::to_owned));
    for (expected, before) in [(said.unwrap_or_default(), 0), (String::new(), 3)] {
        let mut tailor = StreamAdapter::new(&first, &expected, before);
        for event in events.by_ref() {
            let Some(data) = event.data() else { continue };
            let Ok(fitted) = tailor.fit(&data) else { break };
            let fitted = fitted.map(|fitted| super::Event { raw: fitted });
            let Some(fitted) = fitted.as_ref().and_then(super::Event::data).filter(|data| **data != *b"[DONE]") else {
                continue;
            };
            assert!(super::json::is_json(&fitted), "{}", String::from_utf8_lossy(&fitted));
            assert!(id(&first).is_none_or(|own| id(&fitted) == Some(own)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn chunk(text: &str, finish: Option<&str>) -> Vec<u8> {
        json!({ "id": "new", "model": "m2", "choices": [{ "index": 0, "delta": { "role": "assistant", "content": text }, "finish_reason": finish }] })
            .to_string()
            .into_bytes()
    }

    /// The text that a caller reads from the adapted events.
    fn text(events: &[Bytes]) -> String {
        let read = |event: &Bytes| {
            let data = std::str::from_utf8(event).unwrap().trim_start_matches("data: ").trim_end().to_owned();
            let value: Value = serde_json::from_str(&data).ok()?;
            assert_eq!((&value["id"], &value["model"]), (&json!("old"), &json!("m")));
            assert!(value["choices"][0]["delta"].get("role").is_none());
            value["choices"][0]["delta"]["content"].as_str().map(str::to_owned)
        };
        events.iter().filter_map(read).collect()
    }

    const FIRST: &[u8] =
        br#"{"id":"old","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}"#;

    #[test]
    fn only_plain_text_answers_are_continued() {
        let plain = |more: &str| {
            let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
            is_plain_text(Endpoint::Chat, &RequestBody::json(Endpoint::Chat, body.into()).unwrap())
        };
        for harmless in ["", r#","tools":[]"#, r#","n":1,"temperature":0.3"#, r#","response_format":{"type":"text"}"#] {
            assert!(plain(harmless), "{harmless}");
        }
        for more in
            [r#","tools":[{}]"#, r#","n":2"#, r#","logprobs":true"#, r#","response_format":{"type":"json_object"}"#]
        {
            assert!(!plain(more), "{more}");
        }
    }

    #[test]
    fn a_request_continues_where_the_answer_broke_off() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":60,"x":1.50}"#;
        let body = RequestBody::json(Endpoint::Chat, body.into()).unwrap();
        let more = request(Endpoint::Chat, &body, Some(Prefill::Flagged), "Hel\"lo", 40).unwrap();
        let value: Value = serde_json::from_slice(more.bytes()).unwrap();
        assert_eq!(value["messages"][1], json!({ "role": "assistant", "content": "Hel\"lo" }));
        assert_eq!((&value["max_tokens"], &value["continue_final_message"]), (&json!(20), &json!(true)));
        assert_eq!(more.max_tokens, Some(20));
        assert!(request(Endpoint::Chat, &body, None, "a", 1).is_none(), "nobody knows how to ask");
        assert!(request(Endpoint::Chat, &more, Some(Prefill::Plain), "a", 1).is_none(), "it is one already");
        let prompt = RequestBody::json(Endpoint::Completions, r#"{"model":"m","prompt":"Once"}"#.into()).unwrap();
        let more = request(Endpoint::Completions, &prompt, None, " upon", 1).unwrap();
        assert_eq!(more.member("prompt"), Some(&br#""Once upon""#[..]));
    }

    #[test]
    fn usage_covers_both_streams() {
        let mut tailor = StreamAdapter::new(FIRST, "", 40);
        let usage =
            br#"{"id":"new","choices":[],"usage":{"prompt_tokens":50,"completion_tokens":20,"total_tokens":70}}"#;
        let fitted = tailor.fit(usage).unwrap().unwrap();
        assert!(std::str::from_utf8(&fitted).unwrap().contains(r#""completion_tokens":60"#), "{fitted:?}");
        assert!(std::str::from_utf8(&fitted).unwrap().contains(r#""prompt_tokens":10"#), "{fitted:?}");
    }

    proptest! {
        /// For any chunks, the caller receives the whole answer once, or an error that the answers differ.
        #[test]
        fn different_answers_are_never_joined(
            pieces in prop::collection::vec("[a-z \u{e4}\u{1F600}]{0,4}", 1..20),
            cut in 0usize..40,
            other in prop::option::of(0usize..20),
        ) {
            let whole = pieces.concat();
            let said: String = whole.chars().take(cut).collect();
            let mut again = pieces.clone();
            if let Some(at) = other.filter(|at| *at < again.len()) {
                again[at].push('#');
            }
            let mut tailor = StreamAdapter::new(FIRST, &said, 0);
            let mut events = Vec::new();
            let mut fits = || -> Result<(), Mismatch> {
                for piece in &again {
                    events.extend(tailor.fit(&chunk(piece, None))?);
                }
                events.extend(tailor.fit(&chunk("", Some("stop")))?);
                events.extend(tailor.fit(b"[DONE]")?);
                Ok(())
            };
            let fits = fits();
            let read = said.clone() + &text(&events);
            if fits.is_ok() {
                prop_assert_eq!(read, again.concat());
            } else {
                prop_assert!(!again.concat().starts_with(&said));
                prop_assert_eq!(read, said);
            }
        }
    }
}
