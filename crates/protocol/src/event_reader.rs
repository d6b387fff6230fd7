//! Reads the events of one stream, of which most differ in their text alone.
//!
//! An event that begins and ends as an earlier one did, with another string without escapes between, is the same JSON
//! document but for that string. Its facts are those of the earlier one, and nothing is parsed.

use std::ops::Range;

use super::{
    Event, EventFacts, answer,
    engine_error::{EngineError, ErrorForm},
};
use signalbox_types::Endpoint;

/// Reader of a stream's events.
#[derive(Debug)]
pub struct EventReader {
    endpoint: Endpoint,
    shape: Option<Box<Shape>>,
}

/// The bytes around an event's text.
#[derive(Debug, Default)]
struct Shape {
    /// Up to the text's opening quote, and from its closing quote.
    before: Vec<u8>,
    after: Vec<u8>,
    facts: EventFacts,
}

impl EventReader {
    /// Creates a reader for answers of `endpoint`.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, shape: None }
    }

    /// The API of the events.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Reads the next event. An error is one in any form: also as text, in an event of that name, or as a line of JSON
    /// that is no event at all.
    pub fn read_event(&mut self, event: &Event) -> EventFacts {
        match event.data() {
            Some(data) if !data.trim_ascii().is_empty() => {
                let mut seen = self.read(&data);
                // The libraries of Messages look at nothing but events of this name.
                if self.endpoint == Endpoint::Messages
                    && let Some(error) = seen.error.as_mut().filter(|_| event.name() != Some(b"error"))
                {
                    error.form = ErrorForm::Unusual;
                }
                if seen.token || seen.done || seen.error.is_some() || event.name() != Some(b"error") {
                    return seen;
                }
                EventFacts { alive: true, broken: false, error: Some(EngineError::of_named_event(&data)), ..seen }
            }
            Some(_) => EventFacts::default(),
            None => {
                let text = event.naked_text();
                let naked = text
                    .and_then(|text| EngineError::of_document(text).or_else(|| EngineError::of_text(text.as_bytes())));
                EventFacts { alive: naked.is_some(), error: naked, ..EventFacts::default() }
            }
        }
    }

    /// Reads the data of the next event, as `answer::read_event` does.
    pub fn read(&mut self, data: &[u8]) -> EventFacts {
        if let Some(facts) = self.shape.as_ref().and_then(|shape| shape.read(data)) {
            return facts;
        }
        let facts = answer::read_event(self.endpoint, data);
        self.learn(data, &facts);
        facts
    }

    fn learn(&mut self, data: &[u8], facts: &EventFacts) {
        let Some(Range { start, end }) = facts.text_at else { return };
        if end - start < 2 || !is_plain(&data[start + 1..end - 1]) {
            return;
        }
        let shape = self.shape.get_or_insert_default();
        shape.before.clear();
        shape.before.extend_from_slice(&data[..=start]);
        shape.after.clear();
        shape.after.extend_from_slice(&data[end - 1..]);
        shape.facts = facts.clone();
    }
}

impl Shape {
    fn read(&self, data: &[u8]) -> Option<EventFacts> {
        let text = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        if text.is_empty() || !is_plain(text) {
            return None;
        }
        let start = self.before.len() - 1;
        Some(EventFacts { text_bytes: text.len(), text_at: Some(start..start + text.len() + 2), ..self.facts.clone() })
    }
}

/// True for the content of a JSON string that stands for itself.
fn is_plain(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte >= 0x20 && *byte != b'"' && *byte != b'\\') && std::str::from_utf8(text).is_ok()
}

/// Fuzz target: reads lines of arbitrary bytes as the events of a stream.
///
/// # Panics
/// If the reader sees an event otherwise than alone.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_event_reader(input: &[u8]) {
    for endpoint in [Endpoint::Chat, Endpoint::Completions] {
        let mut reader = EventReader::new(endpoint);
        for data in input.split(|byte| *byte == b'\n') {
            assert_eq!(reader.read(data), answer::read_event(endpoint, data));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(text: &str, more: &str) -> String {
        let text = serde_json::Value::from(text);
        format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{{{more}"content":{text}}},"finish_reason":null}}]}}"#)
    }

    #[test]
    fn events_that_differ_in_text_alone_are_not_parsed() {
        let mut reader = EventReader::new(Endpoint::Chat);
        let first = chunk("Hello", "");
        assert_eq!(reader.read(first.as_bytes()), answer::read_event(Endpoint::Chat, first.as_bytes()));
        let shape = reader.shape.as_ref().expect("the shape is known");
        assert!(shape.read(chunk(" wörld", "").as_bytes()).is_some_and(|facts| facts.text_bytes == 7));
        for other in ["", "a\nb", "\"}", "\\"] {
            assert_eq!(shape.read(chunk(other, "").as_bytes()), None, "{other:?}");
        }
        assert_eq!(shape.read(chunk("a", r#""refusal":"no","#).as_bytes()), None);
    }

    proptest! {
        #[test]
        fn a_stream_is_read_as_its_events_are(
            texts in prop::collection::vec(("[a-zé\"\\\\\n{}]{0,6}", prop::sample::select(vec!["", r#""role":"assistant","#, r#""refusal":"no","#])), 1..8),
        ) {
            let mut reader = EventReader::new(Endpoint::Chat);
            for (text, more) in texts {
                let event = chunk(&text, more);
                prop_assert_eq!(reader.read(event.as_bytes()), answer::read_event(Endpoint::Chat, event.as_bytes()));
            }
        }

        #[test]
        fn any_lines_are_read_as_they_are_alone(lines in prop::collection::vec(any::<Vec<u8>>(), 1..4)) {
            fuzz_event_reader(&lines.join(&b'\n'));
        }
    }
}
