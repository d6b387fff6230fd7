//! Body of an engine's answer, in plain bytes.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Response, header};
use http_body::{Body, Frame, SizeHint};

use super::{
    decoded::Decoded,
    direct,
    received_body::{BodyError, ReceivedBody},
};
use signalbox_protocol::encoding::Encodings;

/// Body of an answer from upstream. Dropped before its end, it closes its connection.
#[derive(Debug)]
pub struct AnswerBody(Inner);

#[derive(Debug)]
enum Inner {
    Received(ReceivedBody),
    /// One that an engine compressed.
    Decoded(Box<Decoded>),
}

impl AnswerBody {
    /// A body without content.
    pub fn empty() -> Self {
        Self(Inner::Received(ReceivedBody::Empty))
    }
}

/// The answer with a plain body. One in an encoding that is not read stays as it is.
pub(super) fn plain(answer: Response<AnswerBody>) -> Response<AnswerBody> {
    let Ok(encodings) = Encodings::of(answer.headers()) else { return answer };
    let (mut head, body) = answer.into_parts();
    if head.headers.remove(header::CONTENT_ENCODING).is_none() || encodings.is_plain() {
        return Response::from_parts(head, body);
    }
    head.headers.remove(header::CONTENT_LENGTH);
    let body = match body.0 {
        Inner::Received(received) => Inner::Decoded(Decoded::new(received, &encodings).into()),
        decoded @ Inner::Decoded(_) => decoded,
    };
    Response::from_parts(head, AnswerBody(body))
}

impl From<reqwest::Body> for AnswerBody {
    fn from(body: reqwest::Body) -> Self {
        Self(Inner::Received(ReceivedBody::Client(body)))
    }
}

impl From<direct::Answer> for AnswerBody {
    fn from(body: direct::Answer) -> Self {
        Self(Inner::Received(ReceivedBody::Direct(body.into())))
    }
}

// === impl Body ===

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Inner::Received(body) => Pin::new(body).poll_frame(cx),
            Inner::Decoded(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Received(body) => body.is_end_stream(),
            Inner::Decoded(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Received(body) => body.size_hint(),
            Inner::Decoded(_) => SizeHint::default(),
        }
    }
}
