//! The body of a traced answer on its way to the caller: unchanged, and read beside for the facts that spans have.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};

use super::{Reply, record::Record, reply::is_events, span_facts::AnswerFacts};
use signalbox_protocol::Splitter;

/// Largest event that is read, and largest whole answer, in bytes; of larger ones nothing is told.
const LARGEST: usize = 1 << 20;

/// Keeps the spans of a request back until its answer is over: the body that it [watches](Self::watch), or itself.
pub(super) struct AnswerWatch {
    facts: AnswerFacts,
    /// Most bytes of text that are captured.
    most_text: usize,
    record: Arc<Record>,
}

struct WatchedAnswer {
    /// `None` once it is over.
    inner: Option<Body>,
    reader: Reader,
    watch: AnswerWatch,
}

enum Reader {
    Events(Splitter),
    Whole(BytesMut),
    /// Too large to be read.
    Gone,
}

impl AnswerWatch {
    /// Begins before an answer can be over; `None` where the request is not traced.
    pub(super) fn begin(record: &Arc<Record>) -> Option<Self> {
        let traced = record.traced().filter(|traced| traced.context.sampled)?;
        traced.await_answer();
        let most_text = traced.exporter.content().map_or(0, |content| content.most);
        Some(Self { facts: AnswerFacts::default(), most_text, record: record.clone() })
    }

    /// Reads the answer as it passes.
    pub(super) fn watch(self, reply: Reply) -> Reply {
        let reader = if is_events(reply.headers()) {
            Reader::Events(Splitter::new(LARGEST))
        } else {
            Reader::Whole(BytesMut::new())
        };
        reply.map(|inner| Body::new(WatchedAnswer { inner: Some(inner), reader, watch: self }))
    }

    /// Reads the complete events; false where one is too long.
    fn read_events(&mut self, splitter: &mut Splitter) -> bool {
        while let Ok(next) = splitter.next_event() {
            let Some(event) = next else { return true };
            if let Some(data) = event.data().filter(|data| self.facts.wants(data, self.most_text)) {
                self.facts.read(&data, self.most_text);
            }
        }
        false
    }
}

impl Drop for AnswerWatch {
    fn drop(&mut self) {
        if let Some(traced) = self.record.traced() {
            self.facts.redact(traced.exporter.content());
            traced.answered(std::mem::take(&mut self.facts));
        }
    }
}

impl WatchedAnswer {
    fn read(&mut self, chunk: &Bytes) {
        let readable = match &mut self.reader {
            Reader::Gone => return,
            Reader::Whole(all) => {
                let fits = all.len() + chunk.len() <= LARGEST;
                all.extend_from_slice(if fits { chunk } else { &[] });
                fits
            }
            Reader::Events(splitter) => {
                splitter.feed(chunk.clone());
                self.watch.read_events(splitter)
            }
        };
        if !readable {
            self.reader = Reader::Gone;
        }
    }
}

impl http_body::Body for WatchedAnswer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let polled = Pin::new(inner).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(chunk) = frame.data_ref().cloned()
        {
            self.read(&chunk);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for WatchedAnswer {
    fn drop(&mut self) {
        // Settles the request, unless it is settled already.
        self.inner = None;
        if let Reader::Whole(all) = &self.reader {
            self.watch.facts.read(all, self.watch.most_text);
        }
    }
}
