//! Withholds the response head of a stream while its first token is awaited, so that its status can report a failure.
//!
//! Clients and proxies take a long silence for a dead connection. Before they do, the stream is opened; signs of life keep
//! it open from then on (`keep_alive`).

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, StatusCode, header};
use http_body::Frame;
use tokio::time::timeout;

use crate::{
    Reply,
    record::Record,
    reply::{self, is_events, put_stream_headers},
};
use signalbox_protocol::error;
use signalbox_types::{Endpoint, Fault};

/// Time for which the head is withheld.
const SILENCE: Duration = Duration::from_secs(10);
/// A comment, which clients of server-sent events skip (WHATWG HTML, section 9.2.6).
const COMMENT: &[u8] = b": waiting for the first token\n\n";

/// Returns the reply of `answer` if it comes in time, else a reply whose body waits for it.
pub(super) async fn in_time(
    record: &Arc<Record>,
    endpoint: Endpoint,
    simulated: bool,
    mut answer: BoxFuture<'static, Result<Reply, Fault>>,
) -> Result<Reply, Fault> {
    if let Ok(answered) = timeout(SILENCE, &mut answer).await {
        return answered;
    }
    record.progress().head(StatusCode::OK);
    let body = Late { record: record.clone(), endpoint, state: State::Waiting { answer, is_open: false } };
    let mut reply = Reply::new(Body::new(body));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    put_stream_headers(headers);
    reply::put_id(headers, &record.id());
    // The answering backend is not known yet.
    if simulated {
        headers.insert("x-signalbox-simulated", HeaderValue::from_static("true"));
    }
    Ok(reply)
}

/// Body of a stream that was opened before its first token.
struct Late {
    record: Arc<Record>,
    endpoint: Endpoint,
    state: State,
}

enum State {
    /// `is_open`: the caller has got bytes of the body.
    Waiting {
        answer: BoxFuture<'static, Result<Reply, Fault>>,
        is_open: bool,
    },
    Answering(Body),
    Over,
}

impl Late {
    /// Begins the answer. Returns the error event to send if there is none.
    fn begin(&mut self, answered: Result<Reply, Fault>) -> Option<Bytes> {
        match answered {
            Ok(reply) if is_events(reply.headers()) => {
                self.state = State::Answering(reply.into_body());
                None
            }
            Ok(_) => {
                let message = "the backend gave a whole answer, where a stream was asked for and is open already";
                let fault = Fault::upstream(StatusCode::BAD_GATEWAY, "upstream_garbage", message);
                Some(self.break_off(&fault))
            }
            Err(fault) => Some(self.break_off(&fault)),
        }
    }

    /// Ends the stream with an error that the client can read.
    fn break_off(&mut self, fault: &Fault) -> Bytes {
        self.state = State::Over;
        self.record.break_off(fault);
        error::event(self.endpoint, fault)
    }
}

impl http_body::Body for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            match &mut self.state {
                State::Waiting { answer, is_open } => {
                    let Poll::Ready(answered) = answer.as_mut().poll(cx) else {
                        if std::mem::replace(is_open, true) {
                            return Poll::Pending;
                        }
                        return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))));
                    };
                    if let Some(error) = self.begin(answered) {
                        return Poll::Ready(Some(Ok(Frame::data(error))));
                    }
                }
                State::Answering(body) => match Pin::new(body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => return Poll::Ready(Some(Ok(frame))),
                    Poll::Ready(Some(Err(_)) | None) => self.state = State::Over,
                    Poll::Pending => return Poll::Pending,
                },
                State::Over => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Waiting { .. } => false,
            State::Answering(body) => body.is_end_stream(),
            State::Over => true,
        }
    }
}
