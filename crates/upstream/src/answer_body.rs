//! Body of an engine's answer, over either kind of connection.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{decoded::Decoded, direct};
use signalbox_protocol::encoding::DecodeError;

/// Body of an answer from upstream. Dropped before its end, it closes its connection.
#[derive(Debug)]
pub struct AnswerBody(Inner);

#[derive(Debug)]
enum Inner {
    /// Over TLS, or to a server that is called by a name.
    Client(reqwest::Body),
    /// Over a plain connection, which the reader of the body drives.
    Direct(Box<direct::Answer>),
    /// One that an engine compressed.
    Decoded(Box<Decoded>),
    Empty,
}

/// An answer broke off.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum BodyError {
    /// Over TLS, or to a server that is called by a name.
    Client(#[from] reqwest::Error),
    /// Over a plain connection.
    Direct(#[from] direct::Broken),
    /// It is compressed, and damaged.
    Encoded(#[from] DecodeError),
}

impl AnswerBody {
    /// A body without content.
    pub fn empty() -> Self {
        Self(Inner::Empty)
    }
}

impl From<reqwest::Body> for AnswerBody {
    fn from(body: reqwest::Body) -> Self {
        Self(Inner::Client(body))
    }
}

impl From<direct::Answer> for AnswerBody {
    fn from(body: direct::Answer) -> Self {
        Self(Inner::Direct(body.into()))
    }
}

impl From<Decoded> for AnswerBody {
    fn from(body: Decoded) -> Self {
        Self(Inner::Decoded(body.into()))
    }
}

// === impl Body ===

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Inner::Client(body) => Pin::new(body).poll_frame(cx).map_err(BodyError::Client),
            Inner::Direct(body) => body.poll_frame(cx).map_err(BodyError::Direct),
            Inner::Decoded(body) => body.poll_frame(cx),
            Inner::Empty => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Client(body) => body.is_end_stream(),
            Inner::Direct(body) => body.is_end_stream(),
            Inner::Decoded(body) => body.is_end_stream(),
            Inner::Empty => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Client(body) => body.size_hint(),
            Inner::Direct(body) => body.size_hint(),
            Inner::Decoded(_) => SizeHint::default(),
            Inner::Empty => SizeHint::with_exact(0),
        }
    }
}
