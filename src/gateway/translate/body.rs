//! The body of a streamed answer that is translated to the caller's API, event by event.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;

use crate::{
    gateway::record::Record,
    protocol::{Event, Splitter, error},
    translation::AnswerTranslator,
    types::{Endpoint, Fault},
};

/// Largest event, in bytes; an image in base64 fits.
const MAX_EVENT: usize = 32 << 20;
/// Data of the event that ends a chat stream.
const DONE: &[u8] = b"[DONE]";

/// Translates the events of an answer, unless a backend that speaks the caller's API answered.
pub(super) struct TranslatedBody {
    inner: Body,
    translator: Box<dyn AnswerTranslator>,
    record: Arc<Record>,
    /// API in which the answer may come, besides chat.
    native: Option<Endpoint>,
    splitter: Splitter,
    state: State,
    /// Events that are translated and not sent yet.
    ready: VecDeque<Bytes>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// No event has arrived.
    Start,
    Translating,
    /// The answer is in the caller's API.
    Native,
    /// The end or an error was translated.
    Ended,
    Over,
}

impl TranslatedBody {
    pub(super) fn new(
        inner: Body,
        translator: Box<dyn AnswerTranslator>,
        record: Arc<Record>,
        native: Option<Endpoint>,
    ) -> Self {
        let splitter = Splitter::new(MAX_EVENT);
        Self { inner, translator, record, native, splitter, state: State::Start, ready: VecDeque::new() }
    }

    /// Decides at the first event whether it needs translation: before, the answering backend may be unknown.
    fn begin(&mut self) {
        if self.state == State::Start {
            let is_native = self.native.is_some() && self.record.served().map(|served| served.endpoint) == self.native;
            self.state = if is_native { State::Native } else { State::Translating };
        }
    }

    fn take(&mut self, chunk: Bytes) {
        self.splitter.feed(chunk);
        loop {
            match self.splitter.next_event() {
                Ok(Some(event)) => self.translate(event),
                Ok(None) => return,
                Err(error) => return self.fail(&error.to_string()),
            }
        }
    }

    fn translate(&mut self, event: Event) {
        match event.data() {
            // Comments keep the connection alive in every API.
            None => self.ready.push_back(event.raw),
            Some(data) if self.state != State::Ended => {
                let done = *data == *DONE;
                let mut out = Vec::with_capacity(data.len() + 64);
                match self.translator.event(&data, &mut out) {
                    Ok(()) if out.is_empty() => {}
                    Ok(()) => self.ready.push_back(out.into()),
                    Err(error) => return self.fail(&error.to_string()),
                }
                if done {
                    self.state = State::Ended;
                }
            }
            Some(_) => {}
        }
    }

    /// Ends the answer with an error event of the caller's API.
    fn fail(&mut self, cause: &str) {
        let message = format!("the backend's answer is not usable: {cause}");
        let fault = Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", message);
        let mut out = Vec::new();
        // The translator reads the error as it reads one of a backend.
        if self.translator.event(&error::body(Some(Endpoint::Chat), &fault), &mut out).is_ok() {
            self.ready.push_back(out.into());
        }
        self.state = State::Ended;
    }

    /// Handles the end of the body. A chat stream may end properly without its last event.
    fn end(&mut self) {
        if self.state == State::Translating {
            self.translate(Event { raw: Bytes::from_static(b"data: [DONE]\n\n") });
        }
        self.state = State::Over;
    }
}

impl http_body::Body for TranslatedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(ready))));
            }
            if self.state == State::Over {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(chunk) = frame.into_data() else { continue };
                    if !chunk.starts_with(b":") {
                        self.begin();
                    }
                    if matches!(self.state, State::Start | State::Native) {
                        return Poll::Ready(Some(Ok(Frame::data(chunk))));
                    }
                    self.take(chunk);
                }
                Some(Err(error)) if self.state == State::Native => return Poll::Ready(Some(Err(error.into()))),
                Some(Err(error)) => {
                    self.fail(&error.to_string());
                    self.state = State::Over;
                }
                None => self.end(),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.state == State::Over && self.ready.is_empty()
    }
}
