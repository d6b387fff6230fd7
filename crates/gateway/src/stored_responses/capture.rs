//! A body that stores the response that it carries before its last part is passed on, so that the caller's next request
//! finds it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{BoxError, body::Body};
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use memchr::memmem;
use tokio::task::JoinHandle;

use crate::record::Record;
use signalbox_answers::Answers;
use signalbox_cache::responses::{Item, NewResponse, Owner, own_id};
use signalbox_protocol::{LONG_BODY, Splitter, json::member};
use signalbox_types::{Clock, Endpoint};

/// Largest response that is stored, in bytes.
const MAX_RESPONSE: usize = 64 << 20;
/// Largest event, in bytes.
const MAX_EVENT: usize = 32 << 20;
/// Begins of the events that end a translated stream with its whole response. A JSON text has no line breaks within.
const LAST_EVENTS: [&[u8]; 2] = [b"event: response.completed\ndata: ", b"event: response.incomplete\ndata: "];

/// Parts of an answer to store, and their owner.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) answers: Arc<Answers>,
    pub(super) clock: Clock,
    pub(super) record: Arc<Record>,
    pub(super) owner: Owner,
    /// All items that lead to the answer, and how many of them were stored before.
    pub(super) input: Vec<Item>,
    pub(super) earlier: usize,
    /// True if the response is stored under its id.
    pub(super) stores: bool,
    /// Conversation that gets the new items.
    pub(super) conversation: Option<Box<str>>,
}

impl Turn {
    /// Stores a finished response. Hashes its items.
    fn store(mut self, object: &[u8]) {
        let is_finished = matches!(member(object, "status"), Some(b"\"completed\"" | b"\"incomplete\""));
        let Some(text) = std::str::from_utf8(object).ok().filter(|_| is_finished) else { return };
        let added = self.input[self.earlier..].to_vec();
        let Some(response) = NewResponse::read(text, std::mem::take(&mut self.input)) else { return };
        let (store, now) = (&self.answers.responses, self.clock.now());
        if let Some(conversation) = &self.conversation {
            let added = added.into_iter().chain(response.output().iter().cloned());
            let items = added.map(|item| (own_id(item.text()).map(Into::into), item)).collect();
            store.extend(&self.owner, conversation, items, now);
        }
        // A backend that speaks the API stores its responses itself.
        let is_native = self.record.served().is_some_and(|served| served.endpoint == Endpoint::Responses);
        if self.stores && !is_native && !store.put(&self.owner, &response, now) {
            tracing::debug!(id = %response.id, "responses: no room for a response (responses.store)");
        }
    }
}

/// Form in which the response comes.
enum Form {
    /// One JSON object.
    Whole(BytesMut),
    /// Translated events, whole ones in each piece.
    Events,
    /// Events of a backend, in any pieces.
    NativeEvents(Box<Splitter>),
}

/// Stores the response of an answer.
pub(super) struct Capture {
    inner: Body,
    /// `None` once there is nothing more to store.
    turn: Option<Turn>,
    form: Form,
    /// A long response being stored, and the part that waits for it.
    storing: Option<(JoinHandle<()>, Bytes)>,
}

impl Capture {
    pub(super) fn new(inner: Body, turn: Turn, is_events: bool, is_translated: bool) -> Self {
        let form = match (is_events, is_translated) {
            (false, _) => Form::Whole(BytesMut::new()),
            (true, true) => Form::Events,
            (true, false) => Form::NativeEvents(Box::new(Splitter::new(MAX_EVENT))),
        };
        Self { inner, turn: Some(turn), form, storing: None }
    }

    /// Looks for the response in the next part, which is the last one if `is_last`.
    fn find(&mut self, part: &Bytes, is_last: bool) -> Option<Bytes> {
        match &mut self.form {
            Form::Whole(kept) if kept.is_empty() && is_last => Some(part.clone()),
            Form::Whole(kept) if kept.len() + part.len() > MAX_RESPONSE => {
                self.turn = None;
                None
            }
            Form::Whole(kept) => {
                kept.extend_from_slice(part);
                is_last.then(|| std::mem::take(kept).freeze())
            }
            Form::Events => {
                let start = LAST_EVENTS.iter().find_map(|name| Some(memmem::find(part, name)? + name.len()))?;
                response_of(&part.slice(start..))
            }
            Form::NativeEvents(splitter) => {
                splitter.feed(part.clone());
                let mut found = None;
                while let Ok(Some(event)) = splitter.next_event() {
                    let data = event.data().unwrap_or_default();
                    let kind = member(&data, "type");
                    if matches!(kind, Some(b"\"response.completed\"" | b"\"response.incomplete\"")) {
                        found = response_of(&Bytes::copy_from_slice(&data));
                    }
                }
                found
            }
        }
    }

    /// Stores what was kept of a whole answer: a body of unknown length may end after its last part.
    fn end(&mut self) {
        let Form::Whole(kept) = &mut self.form else { return };
        if let Some(turn) = self.turn.take().filter(|_| !kept.is_empty()) {
            turn.store(&std::mem::take(kept).freeze());
        }
    }

    /// Stores a response at once, or a long one on a blocking thread. Returns the part if it need not wait.
    fn store(&mut self, response: Bytes, part: Bytes) -> Option<Bytes> {
        let Some(turn) = self.turn.take() else { return Some(part) };
        if response.len() <= LONG_BODY && turn.input.len() <= 1024 {
            turn.store(&response);
            return Some(part);
        }
        self.storing = Some((tokio::task::spawn_blocking(move || turn.store(&response)), part));
        None
    }
}

/// The response in the data of an event.
fn response_of(data: &Bytes) -> Option<Bytes> {
    let response = member(data, "response")?;
    Some(data.slice_ref(response))
}

impl http_body::Body for Capture {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some((task, part)) = &mut self.storing {
                // A panic there loses the response, not the answer.
                let _ = ready!(Pin::new(task).poll(cx));
                let part = std::mem::take(part);
                self.storing = None;
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                other => {
                    if other.is_none() {
                        self.end();
                    }
                    return Poll::Ready(other.map(|frame| frame.map_err(Into::into)));
                }
            };
            let part = match frame.into_data() {
                Ok(part) => part,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            };
            let is_last = self.inner.is_end_stream();
            let found = if self.turn.is_some() { self.find(&part, is_last) } else { None };
            let passed = match found {
                Some(response) => self.store(response, part),
                None => Some(part),
            };
            if let Some(part) = passed {
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.storing.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.storing.is_some() { SizeHint::default() } else { self.inner.size_hint() }
    }
}
