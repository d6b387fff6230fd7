//! An answer that is still arriving: the content of each choice, accumulated from events or read from a whole body.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::says_something;
use signalbox_types::Endpoint;

/// The most choices, and the most calls of one choice, that are read; further ones are ignored.
const MAX_CHOICES: usize = 128;

/// The content so far of an answer from `/v1/chat/completions` or `/v1/completions`.
#[derive(Clone, Debug, Default)]
pub struct PartialAnswer {
    /// Its choices, in order of first appearance.
    pub(super) choices: Vec<Choice>,
    /// True if the answer is known to be complete.
    pub(super) over: bool,
    /// Number of events that added content.
    pieces: u64,
}

/// One choice of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    index: u64,
    /// Its text, without reasoning.
    pub(super) text: String,
    /// The content of its `refusal` field.
    pub(super) refusal: String,
    /// Its tool calls.
    pub(super) calls: Vec<Call>,
    /// Its finish reason, once it has ended.
    pub(super) finish: Option<String>,
    /// The logprob of each token, if requested.
    pub(super) logprobs: Vec<f64>,
    /// True if the choice has content of a kind that is not read here, such as audio.
    pub(super) other: bool,
}

/// A tool call.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    index: u64,
    pub(super) name: String,
    pub(super) arguments: String,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    choices: Option<Vec<RawChoice<'a>>>,
}

#[derive(Deserialize)]
struct RawChoice<'a> {
    index: Option<u64>,
    /// Present in an event.
    #[serde(borrow)]
    delta: Option<Message<'a>>,
    /// Present in a whole answer.
    #[serde(borrow)]
    message: Option<Message<'a>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    logprobs: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<RawCall<'a>>>,
    /// The older form, from before several tools could be called.
    #[serde(borrow)]
    function_call: Option<Function<'a>>,
    #[serde(borrow)]
    audio: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawCall<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
    /// A tool of another kind, whose input is not JSON.
    #[serde(borrow)]
    custom: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<Cow<'a, str>>,
}

/// Logprobs in the forms of chat and of completions.
#[derive(Deserialize)]
struct Logprobs {
    content: Option<Vec<Logprob>>,
    token_logprobs: Option<Vec<Option<f64>>>,
}

#[derive(Deserialize)]
struct Logprob {
    logprob: f64,
}

impl PartialAnswer {
    /// True if answers of `endpoint` can be read here.
    pub fn reads(endpoint: Endpoint) -> bool {
        matches!(endpoint, Endpoint::Chat | Endpoint::Completions)
    }

    /// Reads a whole answer; `None` if its shape is unknown.
    pub fn whole(body: &[u8]) -> Option<Self> {
        let mut draft = Self::default();
        draft.add(body).ok()?;
        draft.over = true;
        (!draft.choices.is_empty()).then_some(draft)
    }

    /// Adds the data of one more event. Unknown data is ignored.
    pub fn push(&mut self, data: &[u8]) {
        if data.trim_ascii() == b"[DONE]" {
            self.over = true;
        } else if self.add(data).is_ok() {
            self.over |= !self.choices.is_empty() && self.choices.iter().all(|choice| choice.finish.is_some());
        }
    }

    /// Number of events that added content: a lower bound of the tokens received.
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// True if nothing could be read.
    pub fn is_blank(&self) -> bool {
        self.choices.is_empty()
    }

    /// True if the answer is known to be complete.
    pub fn is_over(&self) -> bool {
        self.over
    }

    fn add(&mut self, data: &[u8]) -> Result<(), serde_json::Error> {
        let answer: Answer<'_> = serde_json::from_slice(data)?;
        for raw in answer.choices.into_iter().flatten() {
            let index = raw.index.unwrap_or(0);
            let known = self.choices.iter().position(|choice| choice.index == index);
            let at = known.unwrap_or(self.choices.len());
            if at == MAX_CHOICES {
                continue;
            }
            if known.is_none() {
                self.choices.push(Choice { index, ..Choice::default() });
            }
            self.pieces += u64::from(self.choices[at].add(raw));
        }
        Ok(())
    }
}

/// The content of a complete answer.
#[derive(Clone, Debug)]
pub struct AnswerContent<'a> {
    /// Its text, or its refusal.
    pub text: &'a str,
    /// The name and arguments of each tool call.
    pub calls: Vec<(&'a str, &'a str)>,
}

impl PartialAnswer {
    /// Its content, if it has one choice that ended by itself and consists of text and function calls alone.
    pub fn said(&self) -> Option<AnswerContent<'_>> {
        let [choice] = &self.choices[..] else { return None };
        let ended = matches!(choice.finish.as_deref(), Some("stop" | "tool_calls" | "function_call"));
        if !ended || choice.other {
            return None;
        }
        let text = if choice.text.is_empty() { &choice.refusal } else { &choice.text };
        Some(AnswerContent { text, calls: choice.calls.iter().map(|call| (&*call.name, &*call.arguments)).collect() })
    }
}

impl Choice {
    /// Adds new content; returns true if there was any.
    fn add(&mut self, raw: RawChoice<'_>) -> bool {
        let before = (self.text.len(), self.refusal.len(), self.calls.len());
        let mut more = false;
        if let Some(finish) = raw.finish_reason {
            self.finish = Some(finish.into_owned());
        }
        self.text += raw.text.as_deref().unwrap_or_default();
        if let Some(logprobs) = raw.logprobs.and_then(|raw| serde_json::from_str::<Logprobs>(raw.get()).ok()) {
            let chat = logprobs.content.into_iter().flatten().map(|token| token.logprob);
            // The first token of an echoed prompt has no logprob.
            self.logprobs.extend(chat.chain(logprobs.token_logprobs.into_iter().flatten().flatten()));
        }
        for message in [raw.delta, raw.message].into_iter().flatten() {
            self.content(message.content);
            self.refusal += message.refusal.as_deref().unwrap_or_default();
            self.other |= message.audio.is_some_and(says_something);
            let calls = message.tool_calls.into_iter().flatten().enumerate();
            for (at, call) in calls {
                self.other |= call.custom.is_some();
                if let Some(function) = call.function {
                    more |= self.call(call.index.unwrap_or(at as u64), &function);
                }
            }
            if let Some(function) = message.function_call {
                more |= self.call(0, &function);
            }
        }
        more || before != (self.text.len(), self.refusal.len(), self.calls.len())
    }

    /// Adds the content if it is a string; marks it as other content if not.
    fn content(&mut self, raw: Option<&RawValue>) {
        let Some(raw) = raw.filter(|raw| says_something(raw)) else { return };
        match serde_json::from_str::<Cow<'_, str>>(raw.get()) {
            Ok(text) => self.text += &text,
            Err(_) => self.other = true,
        }
    }

    fn call(&mut self, index: u64, function: &Function<'_>) -> bool {
        let known = self.calls.iter().position(|call| call.index == index);
        let at = known.unwrap_or(self.calls.len());
        if at == MAX_CHOICES {
            return false;
        }
        if known.is_none() {
            self.calls.push(Call { index, ..Call::default() });
        }
        let call = &mut self.calls[at];
        let (name, arguments) = (function.name.as_deref(), function.arguments.as_deref());
        // Some engines repeat the name with every piece of the arguments.
        if call.name.is_empty() {
            call.name += name.unwrap_or_default();
        }
        call.arguments += arguments.unwrap_or_default();
        arguments.is_some_and(|text| !text.is_empty())
    }

    /// The calls that are known to be complete.
    pub(super) fn finished_calls(&self) -> &[Call] {
        let open = usize::from(self.finish.is_none());
        &self.calls[..self.calls.len().saturating_sub(open)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamed(events: &[&str]) -> PartialAnswer {
        let mut draft = PartialAnswer::default();
        for event in events {
            draft.push(event.as_bytes());
        }
        draft
    }

    #[test]
    fn streamed_events_equal_the_whole_answer() {
        let draft = streamed(&[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a\n"},"logprobs":{"content":[{"token":"a","logprob":-0.5}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"x\":"}}]}}]}"#,
            r#"{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"name":"g"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}"#,
            "no json",
            r#"{"choices":[],"usage":{}}"#,
        ]);
        let whole = PartialAnswer::whole(
            br#"{"choices":[{"index":0,"message":{"content":"a\nb"},"finish_reason":"stop","logprobs":{"content":[{"logprob":-0.5}]}},
                {"index":1,"message":{"content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"d","function":{"name":"g","arguments":""}}]}}]}"#,
        )
        .unwrap();
        for (part, all) in draft.choices.iter().zip(&whole.choices) {
            let content = |choice: &Choice| {
                let calls: Vec<_> = choice.calls.iter().map(|it| (it.name.clone(), it.arguments.clone())).collect();
                (choice.text.clone(), calls, choice.finish.clone(), choice.logprobs.clone())
            };
            assert_eq!(content(part), content(all));
        }
        assert!(whole.over && !draft.over, "one choice has not ended");
        assert_eq!((draft.pieces(), draft.choices[1].finished_calls().len()), (5, 1));
    }

    #[test]
    fn other_shapes_are_read_partially() {
        let completion = PartialAnswer::whole(
            br#"{"choices":[{"text":"a","index":0,"logprobs":{"token_logprobs":[null,-1.5]},"finish_reason":"length"}]}"#,
        )
        .unwrap();
        assert_eq!((&*completion.choices[0].text, &completion.choices[0].logprobs[..]), ("a", &[-1.5][..]));
        let parts =
            PartialAnswer::whole(br#"{"choices":[{"message":{"content":[{"type":"text","text":"a"}]}}]}"#).unwrap();
        assert!(parts.choices[0].other && parts.choices[0].text.is_empty());
        for unknown in [&b"[1]"[..], b"{}", br#"{"choices":[]}"#, br#"{"choices":[{"message":"odd"}]}"#, b"<html>"] {
            assert!(PartialAnswer::whole(unknown).is_none());
        }
        assert!(streamed(&["[DONE]"]).is_over() && streamed(&[]).is_blank());
    }
}
