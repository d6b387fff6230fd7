//! The body of a streamed answer that is translated to the caller's API, event by event.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use http::StatusCode;
use http_body::Frame;

use crate::record::{HeldRecord, Record};
use signalbox_protocol::{Event, Splitter, error};
use signalbox_translation::AnswerTranslator;
use signalbox_types::{Endpoint, Fault};

/// Largest event, in bytes; an image in base64 fits.
const MAX_EVENT: usize = 32 << 20;
/// Largest buffer that is used again, in bytes.
const MOST_KEPT: usize = 16 << 10;
/// Data of the event that ends a chat stream.
const DONE: &[u8] = b"[DONE]";

/// Translates the events of an answer, unless a backend that speaks the caller's API answered.
pub(super) struct TranslatedBody {
    inner: Body,
    translator: Box<dyn AnswerTranslator>,
    record: Arc<Record>,
    /// After `inner`, which ends first.
    held: HeldRecord,
    /// API in which the answer may come, besides chat.
    native: Option<Endpoint>,
    splitter: Splitter,
    state: State,
    /// Events that are translated and not sent yet: those of one chunk, in a buffer that is used again.
    ready: Vec<u8>,
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
        (record, held): (Arc<Record>, HeldRecord),
        native: Option<Endpoint>,
    ) -> Self {
        let splitter = Splitter::new(MAX_EVENT);
        Self { inner, translator, record, held, native, splitter, state: State::Start, ready: Vec::new() }
    }

    /// Decides whether the events need translation: before the first one, the answering backend may be unknown.
    fn begin(&mut self) {
        let served = self.record.served();
        let is_native = self.native.is_some() && served.as_ref().map(|served| served.endpoint) == self.native;
        self.state = if is_native { State::Native } else { State::Translating };
        if let Some(served) = served {
            self.translator.served_by(&served.pool);
        }
    }

    fn take(&mut self, chunk: Bytes) {
        self.splitter.feed(chunk);
        loop {
            match self.splitter.next_event() {
                Ok(Some(event)) => self.pass(&event),
                Ok(None) => break,
                Err(error) => return self.fail(&error.to_string()),
            }
        }
        if self.state == State::Native
            && let Some(rest) = self.splitter.rest()
        {
            self.ready.extend_from_slice(&rest.raw);
        }
    }

    /// Passes an event on in the caller's API. The first one with data shows in which it comes.
    fn pass(&mut self, event: &Event) {
        if self.state == State::Start && event.data().is_some() {
            self.begin();
        }
        if self.state == State::Native {
            self.ready.extend_from_slice(&event.raw);
        } else {
            self.translate(event);
        }
    }

    fn translate(&mut self, event: &Event) {
        match event.data() {
            // Comments keep the connection alive in every API.
            None => self.ready.extend_from_slice(&event.raw),
            Some(data) if self.state != State::Ended => {
                let done = *data == *DONE;
                let before = self.ready.len();
                if let Err(error) = self.translator.event(&data, &mut self.ready) {
                    self.ready.truncate(before);
                    return self.fail(&error.to_string());
                }
                if done {
                    self.held.translated();
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
        let before = self.ready.len();
        // The translator reads the error as it reads one of a backend.
        if self.translator.event(&error::body(Some(Endpoint::Chat), &fault), &mut self.ready).is_err() {
            self.ready.truncate(before);
        }
        self.held.spoil(&fault);
        // Ends the attempt, if it still runs, and then the request.
        self.inner = Body::empty();
        self.held.break_off(&fault);
        self.state = State::Ended;
    }

    /// The translated events. Short ones are copied, so that the buffer stays; a long one takes it along.
    fn take_ready(&mut self) -> Bytes {
        if self.ready.capacity() > MOST_KEPT {
            return std::mem::take(&mut self.ready).into();
        }
        let ready = Bytes::copy_from_slice(&self.ready);
        self.ready.clear();
        ready
    }

    /// Handles the end of the body. A chat stream may end properly without its last event.
    fn end(&mut self) {
        if self.state == State::Translating {
            let before = self.ready.len();
            self.translator.end(&mut self.ready);
            if self.ready.len() > before {
                self.held.translated();
            } else {
                self.fail("the backend's stream ended before the answer did");
            }
        }
        self.held.release();
        self.state = State::Over;
    }
}

impl http_body::Body for TranslatedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if !self.ready.is_empty() {
                let ready = self.take_ready();
                return Poll::Ready(Some(Ok(Frame::data(ready))));
            }
            if self.state == State::Over {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(chunk) = frame.into_data() else { continue };
                    if self.state == State::Native {
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

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use futures_util::stream;
    use http_body_util::BodyExt;
    use serde_json::json;

    use super::*;
    use crate::testing::{TestGateway, chat, chunk};
    use signalbox_translation::{AnswerContext, CallerApi, ChatRequest, NoStates, messages::ThinkingDisplay};

    const POLICY: &str = "pools: { p: { backends: [http://a] } }\nmodels: { m: { to: p } }\n";

    /// Body that a caller of `api` gets if a chat stream arrives in these pieces, and breaks afterwards or ends.
    async fn read(record: &Arc<Record>, api: CallerApi, pieces: &[&[u8]], breaks: bool) -> String {
        let request = br#"{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}"#;
        let response = br#"{"model":"m","stream":true,"input":"a"}"#;
        let context = AnswerContext {
            prompt_tokens: 1,
            thinking: ThinkingDisplay::Shown,
            states: Arc::new(NoStates),
            id: "1".into(),
            held: None,
            model: None,
            now: || 1,
        };
        let body: &[u8] = if api == CallerApi::Messages { request } else { response };
        let ChatRequest { answer, .. } = api.to_chat(body, &context).unwrap();
        let pieces = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece)));
        let broken = breaks.then(|| Err(std::io::Error::other("broken")));
        let inner = Body::from_stream(stream::iter(pieces.chain(broken).collect::<Vec<_>>()));
        let body = TranslatedBody::new(inner, answer, (record.clone(), record.hold()), None);
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    fn names(events: &str) -> Vec<&str> {
        events.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
    }

    #[tokio::test]
    async fn a_cut_at_any_byte_ends_in_an_error_and_chunks_change_nothing() {
        let record = TestGateway::new(POLICY, &[]).routed(&chat(true), &[]).await.call.record.clone();
        let call = json!([{ "index": 0, "id": "c", "function": { "name": "f", "arguments": "{\"a\":\"é\"}" } }]);
        let mut stream = String::new();
        for delta in
            [json!({ "role": "assistant", "content": "" }), json!({ "content": "ü" }), json!({ "tool_calls": call })]
        {
            stream.push_str(&chunk(&delta, None));
        }
        stream.push_str(&chunk(&json!({}), Some("tool_calls")));
        let last = stream.len();
        stream.write_str("data: [DONE]\n\n").unwrap();
        for (api, end, errors) in [
            (CallerApi::Messages, "message_stop", &["error"][..]),
            (CallerApi::Responses, "response.completed", &["error", "response.failed"]),
        ] {
            let whole = read(&record, api, &[stream.as_bytes()], false).await;
            assert_eq!(names(&whole).last(), Some(&end), "{whole}");
            for size in [1, 2, 3, 7, 64] {
                let pieces: Vec<_> = stream.as_bytes().chunks(size).collect();
                assert_eq!(read(&record, api, &pieces, false).await, whole, "{size}");
            }
            for at in 0..stream.len() {
                let cut = read(&record, api, &[&stream.as_bytes()[..at]], true).await;
                let names = names(&cut);
                assert!(errors.contains(names.last().unwrap()), "{at}: {cut}");
                assert!(!names.contains(&end), "{at}: {cut}");
                if at < last {
                    // An end that looks clean, in the middle of an answer, is none.
                    let cut = read(&record, api, &[&stream.as_bytes()[..at.min(last - 2)]], false).await;
                    assert!(!cut.contains(end), "{at}: {cut}");
                }
            }
        }
    }
}
