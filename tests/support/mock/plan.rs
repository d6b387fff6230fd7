//! Plans: steps that the mock carries out for one request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// Steps of one answer, in order. Without an explicit ending the answer is completed and the connection kept.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(super) steps: Vec<Step>,
    cuts: Vec<usize>,
    every: Option<usize>,
    ended: bool,
}

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Head { status: u16, headers: Vec<(String, String)>, framing: Framing },
    Body(Bytes),
    Raw(Bytes),
    Gate(usize),
    Pause(Duration),
    Ending(Ending),
}

/// Framing of the body.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
}

/// End of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Complete; the connection stays.
    Complete,
    /// Complete; then the connection is closed, though the head did not say so (llama.cpp does this).
    CompleteAndClose,
    /// The connection is closed within the answer.
    Cut,
    /// The connection is reset within the answer.
    Reset,
    /// Nothing more happens until the client leaves.
    Hang,
}

impl Plan {
    /// An answer with a status and no body yet.
    pub fn status(status: u16) -> Self {
        Self::headed(status, Framing::Length)
    }

    /// A JSON answer.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::status(status).header("content-type", "application/json").body(body.to_string())
    }

    /// An answer of any type: HTML with 200, half a JSON document, …
    pub fn text(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::status(status).header("content-type", content_type).body(body)
    }

    /// An error as OpenAI words it.
    pub fn error(status: u16, message: &str) -> Self {
        Self::json(status, &super::answers::error(status, message))
    }

    /// A complete chat answer that is not streamed.
    pub fn chat(text: &str) -> Self {
        Self::json(200, &super::answers::chat(text))
    }

    /// A stream of server-sent events: add [`events`](Self::events), [`gate`](Self::gate)s and an ending.
    pub fn stream() -> Self {
        Self::headed(200, Framing::Chunked).header("content-type", "text/event-stream")
    }

    /// A well-formed streamed chat answer: the role, these deltas, the finish, usage, `[DONE]`.
    pub fn chat_stream<I: IntoIterator<Item: AsRef<str>>>(deltas: I) -> Self {
        let deltas: Vec<String> = deltas.into_iter().map(|delta| delta.as_ref().to_owned()).collect();
        let usage = super::answers::usage_event(7, deltas.len());
        Self::stream().events(super::answers::chat_events(deltas)).event(&usage).done()
    }

    /// The request is read, then the connection closed without a byte.
    pub fn close() -> Self {
        Self::default().cut()
    }

    /// The request is read, then the connection reset without a byte.
    pub fn reset_at_once() -> Self {
        Self::default().reset()
    }

    /// The request is read and never answered.
    pub fn silence() -> Self {
        Self::default().hang()
    }

    /// Sends these bytes instead of a head: an answer that is not HTTP.
    pub fn garbage(bytes: impl Into<Bytes>) -> Self {
        Self { steps: vec![Step::Raw(bytes.into())], ..Self::default() }.cut()
    }

    fn headed(status: u16, framing: Framing) -> Self {
        Self { steps: vec![Step::Head { status, headers: Vec::new(), framing }], ..Self::default() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let head = self.steps.iter_mut().find_map(|step| match step {
            Step::Head { headers, .. } => Some(headers),
            _ => None,
        });
        head.expect("`header` needs a plan with a head").push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds bytes to the body.
    pub fn body(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Body(bytes.into()))
    }

    /// Adds one event, `data: {data}` and a blank line, as a chunk of its own.
    pub fn event(self, data: &str) -> Self {
        self.body(format!("data: {data}\n\n"))
    }

    /// Adds events.
    pub fn events<I: IntoIterator<Item: AsRef<str>>>(self, events: I) -> Self {
        events.into_iter().fold(self, |plan, event| plan.event(event.as_ref()))
    }

    /// Adds `data: [DONE]`.
    pub fn done(self) -> Self {
        self.event("[DONE]")
    }

    /// Waits until the test opens gate `number` of the mock.
    pub fn gate(self, number: usize) -> Self {
        self.step(Step::Gate(number))
    }

    /// Waits for a time that matters to the test, such as a slow first token.
    pub fn pause(self, time: Duration) -> Self {
        self.step(Step::Pause(time))
    }

    /// Waits for `time` before anything else, the head included.
    pub fn after(self, time: Duration) -> Self {
        self.first(Step::Pause(time))
    }

    /// Waits at gate `number` before anything else, the head included.
    pub fn behind(self, number: usize) -> Self {
        self.first(Step::Gate(number))
    }

    /// Sends the body in chunks that end at these offsets of it (and at gates, pauses and the end), not after each event.
    pub fn cut_at(mut self, offsets: impl IntoIterator<Item = usize>) -> Self {
        self.cuts.extend(offsets);
        self.every.get_or_insert(usize::MAX);
        self
    }

    /// Sends the body in chunks of `size` bytes.
    pub fn cut_every(mut self, size: usize) -> Self {
        self.every = Some(size.max(1));
        self
    }

    /// Ends here: complete, then the connection is closed although nothing announced it, as llama.cpp does.
    pub fn then_close(self) -> Self {
        self.end(Ending::CompleteAndClose)
    }

    /// Ends here: the connection is closed, the answer stays incomplete.
    pub fn cut(self) -> Self {
        self.end(Ending::Cut)
    }

    /// Ends here: the connection is reset.
    pub fn reset(self) -> Self {
        self.end(Ending::Reset)
    }

    /// Ends here: nothing more comes until the client leaves.
    pub fn hang(self) -> Self {
        self.end(Ending::Hang)
    }

    fn end(mut self, ending: Ending) -> Self {
        self.ended = true;
        self.step(Step::Ending(ending))
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn first(mut self, step: Step) -> Self {
        self.steps.insert(0, step);
        self
    }

    /// Returns the steps to carry out, with an ending and the body in the requested chunks.
    pub(super) fn finished(mut self) -> Vec<Step> {
        if !self.ended {
            self.steps.push(Step::Ending(Ending::Complete));
        }
        let Some(every) = self.every else { return self.steps };
        let (mut steps, mut offset, mut pending) = (Vec::new(), 0, BytesMut::new());
        for step in self.steps {
            match step {
                Step::Body(bytes) => pending.extend_from_slice(&bytes),
                other => {
                    let piece = std::mem::take(&mut pending).freeze();
                    steps.extend(chunks(&piece, offset, every, &self.cuts).map(Step::Body));
                    offset += piece.len();
                    steps.push(other);
                }
            }
        }
        steps
    }
}

/// Splits `bytes`, which begin at `offset` of the body, at each cut and each multiple of `every`.
fn chunks(bytes: &Bytes, offset: usize, every: usize, cuts: &[usize]) -> impl Iterator<Item = Bytes> {
    let inside = (1..bytes.len()).filter(|at| cuts.contains(&(offset + at)) || (offset + at).is_multiple_of(every));
    let ends: Vec<usize> = inside.chain((!bytes.is_empty()).then_some(bytes.len())).collect();
    let mut from = 0;
    let bytes = bytes.clone();
    ends.into_iter().map(move |end| bytes.slice(std::mem::replace(&mut from, end)..end))
}
