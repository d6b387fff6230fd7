//! Builds a whole answer from the events of a stream.
//!
//! Merges as the OpenAI SDKs do: strings are joined, lists with an `index` are merged by it, other lists are extended,
//! objects are merged member by member (`accumulate_delta` in `openai-python`, `lib/streaming/_deltas.py`).

use std::time::Duration;

use serde_json::{Map, Value};

use super::whole::{Piece, TEXTS, Transcript, Uncacheable, calls, says_something};
use crate::Event;
use signalbox_types::Endpoint;

/// Strings that are sent once or repeated, and never joined.
const NEVER_JOINED: [&str; 4] = ["role", "type", "id", "object"];

/// The part of a streamed answer that has arrived.
#[derive(Debug)]
pub struct TranscriptBuilder {
    endpoint: Endpoint,
    /// True if the pauses between the answer's texts are recorded.
    timed: bool,
    answer: Map<String, Value>,
    /// By their indices.
    choices: Vec<(u64, Map<String, Value>)>,
    pieces: Vec<Piece>,
    pause: Duration,
    done: bool,
    uncacheable: Option<Uncacheable>,
}

impl TranscriptBuilder {
    /// An empty answer from `endpoint`; `timed` records pauses, so that it can be replayed with them.
    pub fn new(endpoint: Endpoint, timed: bool) -> Self {
        Self {
            endpoint,
            timed,
            answer: Map::new(),
            choices: Vec::new(),
            pieces: Vec::new(),
            pause: Duration::ZERO,
            done: false,
            uncacheable: None,
        }
    }

    /// Adds an event that arrived `pause` after the previous one.
    pub fn push(&mut self, event: &Event, pause: Duration) {
        self.pause += pause;
        let Some(data) = event.data().filter(|data| !data.is_empty()) else { return };
        if data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return;
        }
        match serde_json::from_slice(&data) {
            Ok(Value::Object(chunk)) if !chunk.get("error").is_some_and(says_something) => self.chunk(chunk),
            Ok(Value::Object(_)) => self.uncacheable = Some(Uncacheable::Unfinished),
            _ => self.uncacheable = Some(Uncacheable::Unreadable),
        }
    }

    fn chunk(&mut self, mut chunk: Map<String, Value>) {
        let choices = chunk.remove("choices");
        merge_whole(&mut self.answer, chunk);
        match choices {
            None | Some(Value::Null) => {}
            Some(Value::Array(choices)) => choices.into_iter().for_each(|choice| self.choice(choice)),
            Some(_) => self.uncacheable = Some(Uncacheable::Unreadable),
        }
    }

    fn choice(&mut self, choice: Value) {
        let Value::Object(mut choice) = choice else {
            self.uncacheable = Some(Uncacheable::Unreadable);
            return;
        };
        let index = choice.remove("index").and_then(|index| index.as_u64()).unwrap_or(0);
        let at = self.choices.iter().position(|(known, _)| *known == index).unwrap_or_else(|| {
            self.choices.push((index, Map::new()));
            self.choices.len() - 1
        });
        self.record_pieces(&choice, at);
        if let Some(Value::Object(delta)) = choice.get("delta") {
            self.record_pieces(delta, at);
        }
        let known = &mut self.choices[at].1;
        for name in ["delta", "logprobs", "text"] {
            if let Some(new) = choice.remove(name) {
                let name = if name == "delta" { "message" } else { name };
                merge(known.entry(name).or_insert(Value::Null), new, name);
            }
        }
        merge_whole(known, choice);
    }

    /// Records the lengths of the texts in `of`.
    fn record_pieces(&mut self, of: &Map<String, Value>, choice: usize) {
        for (text, name) in TEXTS.iter().enumerate().filter(|_| self.timed) {
            let Some(Value::String(piece)) = of.get(*name).filter(|piece| says_something(piece)) else { continue };
            let pause = std::mem::take(&mut self.pause).as_micros();
            self.pieces.push(Piece {
                choice: choice as u32,
                text: text as u8,
                length: piece.len() as u32,
                pause: u32::try_from(pause).unwrap_or(u32::MAX),
            });
        }
    }

    /// The answer, if it is complete and its JSON no longer than `largest` bytes.
    ///
    /// # Errors
    /// [`Uncacheable`] if it must not be replayed.
    pub fn finish(mut self, largest: usize) -> Result<Transcript, Uncacheable> {
        let (endpoint, pieces) = (self.endpoint, std::mem::take(&mut self.pieces));
        let mut transcript = Transcript::of(endpoint, self.whole()?, largest)?;
        transcript.pieces = pieces.into();
        Ok(transcript)
    }

    /// The whole answer, if it is complete.
    ///
    /// # Errors
    /// [`Uncacheable`] if it is not.
    pub(super) fn whole(mut self) -> Result<Map<String, Value>, Uncacheable> {
        if let Some(uncacheable) = self.uncacheable {
            return Err(uncacheable);
        }
        let mut choices = Vec::with_capacity(self.choices.len());
        for (index, choice) in self.choices {
            let mut whole = Map::from_iter([("index".to_owned(), Value::from(index))]);
            whole.extend(choice);
            if self.endpoint == Endpoint::Chat {
                let Some(Value::Object(message)) = whole.get_mut("message") else {
                    return Err(Uncacheable::Unreadable);
                };
                message.entry("role").or_insert_with(|| "assistant".into());
                message.entry("content").or_insert(Value::Null);
                calls(message).for_each(|call| drop(call.remove("index")));
            }
            choices.push(Value::Object(whole));
        }
        if !self.done && choices.iter().any(|choice| choice["finish_reason"].is_null()) {
            return Err(Uncacheable::Unfinished);
        }
        let usage = self.answer.remove("usage").filter(|usage| !usage.is_null());
        if self.endpoint == Endpoint::Chat {
            self.answer.insert("object".to_owned(), "chat.completion".into());
        }
        self.answer.insert("choices".to_owned(), choices.into());
        if let Some(usage) = usage {
            self.answer.insert("usage".to_owned(), usage);
        }
        Ok(self.answer)
    }
}

/// Merges members that are sent as wholes, once or repeatedly.
fn merge_whole(known: &mut Map<String, Value>, new: Map<String, Value>) {
    for (name, value) in new {
        if !value.is_null() || !known.contains_key(&name) {
            known.insert(name, value);
        }
    }
}

/// Merges `new` into the known value of the member `name`.
fn merge(known: &mut Value, new: Value, name: &str) {
    match (known, new) {
        (_, Value::Null) => {}
        (Value::String(known), Value::String(new)) if !NEVER_JOINED.contains(&name) => known.push_str(&new),
        (Value::Object(known), Value::Object(new)) => {
            for (name, value) in new {
                let known = known.entry(&*name).or_insert(Value::Null);
                merge(known, value, &name);
            }
        }
        (Value::Array(known), Value::Array(new)) => {
            for element in new {
                let index = element.get("index").filter(|index| index.is_u64());
                match known.iter_mut().find(|it| index.is_some() && it.get("index") == index) {
                    Some(known) => merge(known, element, ""),
                    None => known.push(element),
                }
            }
        }
        (known, new) => *known = new,
    }
}
