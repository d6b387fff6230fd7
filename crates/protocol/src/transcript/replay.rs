//! Replays a cached answer as the events of a stream.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::whole::{Piece, TEXTS, Transcript, calls};
use crate::Event;
use signalbox_types::Endpoint;

impl Transcript {
    /// The answer as a stream of events, each with the pause before it. Includes usage if `include_usage`. If `paced`,
    /// texts come in their original pieces and pauses, if recorded; otherwise each text is one event without pauses.
    pub fn events(&self, include_usage: bool, paced: bool) -> Vec<(Duration, Event)> {
        let Ok(Value::Object(whole)) = serde_json::from_slice(self.whole()) else { return Vec::new() };
        let pieces: &[Piece] = if paced { &self.pieces } else { &[] };
        chat_events(self.endpoint, whole, pieces, include_usage)
    }
}

/// A whole answer of chat or completions as the events of a stream, each with the pause before it. Texts come in `pieces`,
/// and what these leave in one.
pub(super) fn chat_events(
    endpoint: Endpoint,
    mut head: Map<String, Value>,
    pieces: &[Piece],
    include_usage: bool,
) -> Vec<(Duration, Event)> {
    let usage = head.remove("usage");
    let Some(Value::Array(choices)) = head.remove("choices") else { return Vec::new() };
    if endpoint == Endpoint::Chat {
        head.insert("object".to_owned(), "chat.completion.chunk".into());
    }
    let mut parts: Vec<Part> = choices.into_iter().filter_map(|choice| Part::of(choice, endpoint)).collect();
    let mut replay = Replay { head, endpoint, include_usage, events: Vec::new() };
    for part in &mut parts {
        if let Some(opening) = part.opening.take() {
            replay.choice(Duration::ZERO, &json!({ "index": part.index, "delta": opening, "finish_reason": null }));
        }
    }
    for piece in pieces {
        let Some(part) = parts.get_mut(piece.choice as usize) else { continue };
        let pause = Duration::from_micros(piece.pause.into());
        let place = usize::from(piece.text);
        if let Some(text) = part.cut(place, piece.length as usize) {
            let choice = part.choice_with(endpoint, place, &text);
            replay.choice(pause, &choice);
        }
    }
    for part in &mut parts {
        for place in 0..TEXTS.len() {
            if let Some(text) = part.cut(place, usize::MAX) {
                let choice = part.choice_with(endpoint, place, &text);
                replay.choice(Duration::ZERO, &choice);
            }
        }
        let closing = Value::Object(std::mem::take(&mut part.closing));
        replay.choice(Duration::ZERO, &closing);
    }
    if let Some(usage) = usage.filter(|usage| include_usage && !usage.is_null()) {
        replay.event(Duration::ZERO, json!([]), Some(usage));
    }
    replay.events.push((Duration::ZERO, Event::of_data("[DONE]")));
    replay.events
}

/// A choice of a whole answer, prepared for streaming.
struct Part {
    index: Value,
    /// The delta of its first event; `None` for a completion.
    opening: Option<Map<String, Value>>,
    /// The remainder of its texts, by their positions in [`TEXTS`].
    texts: [String; TEXTS.len()],
    /// The content of its last event.
    closing: Map<String, Value>,
}

impl Part {
    fn of(choice: Value, endpoint: Endpoint) -> Option<Self> {
        let Value::Object(mut closing) = choice else { return None };
        let index = closing.get("index").filter(|index| index.is_u64()).cloned().unwrap_or_else(|| 0.into());
        closing.insert("index".to_owned(), index.clone());
        if closing.get("finish_reason").is_none_or(Value::is_null) {
            closing.insert("finish_reason".to_owned(), "stop".into());
        }
        let mut texts: [String; TEXTS.len()] = Default::default();
        let mut take = |from: &mut Map<String, Value>| {
            for (name, place) in TEXTS.iter().zip(&mut texts) {
                if let Some(Value::String(text)) = from.get_mut(*name)
                    && !text.is_empty()
                {
                    *place = std::mem::take(text);
                    from.remove(*name);
                }
            }
        };
        let opening = match closing.remove("message") {
            Some(Value::Object(mut message)) if endpoint == Endpoint::Chat => {
                take(&mut message);
                calls(&mut message)
                    .zip(0_u64..)
                    .for_each(|(call, at)| drop(call.insert("index".to_owned(), at.into())));
                Some(message)
            }
            _ => {
                take(&mut closing);
                None
            }
        };
        if endpoint == Endpoint::Chat {
            closing.insert("delta".to_owned(), json!({}));
        } else {
            closing.insert("text".to_owned(), "".into());
        }
        Some(Self { index, opening, texts, closing })
    }

    /// Takes the next `length` bytes of a text, rounded up to whole characters; `None` if nothing is left.
    fn cut(&mut self, text: usize, length: usize) -> Option<String> {
        let left = self.texts.get_mut(text).filter(|left| !left.is_empty())?;
        let rest = left.split_off(left.ceil_char_boundary(length.min(left.len())));
        Some(std::mem::replace(left, rest)).filter(|text| !text.is_empty())
    }

    /// The choice of an event with this piece of a text.
    fn choice_with(&self, endpoint: Endpoint, place: usize, text: &str) -> Value {
        if endpoint == Endpoint::Chat {
            json!({ "index": self.index, "delta": { TEXTS[place]: text }, "finish_reason": null })
        } else {
            json!({ "index": self.index, TEXTS[place]: text, "finish_reason": null })
        }
    }
}

/// The events produced so far.
struct Replay {
    /// The members common to all events.
    head: Map<String, Value>,
    endpoint: Endpoint,
    include_usage: bool,
    events: Vec<(Duration, Event)>,
}

impl Replay {
    fn choice(&mut self, pause: Duration, choice: &Value) {
        // In OpenAI's own streams with usage, every event has this member.
        let usage = (self.include_usage && self.endpoint == Endpoint::Chat).then_some(Value::Null);
        self.event(pause, json!([choice]), usage);
    }

    fn event(&mut self, pause: Duration, choices: Value, usage: Option<Value>) {
        let mut chunk = self.head.clone();
        chunk.insert("choices".to_owned(), choices);
        if let Some(usage) = usage {
            chunk.insert("usage".to_owned(), usage);
        }
        self.events.push((pause, Event::of_data(&Value::Object(chunk).to_string())));
    }
}
