//! Body of an engine's answer as it is received, over either kind of connection.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::direct;
use signalbox_protocol::encoding::DecodeError;

/// A body as its connection delivers it. Dropped before its end, it closes its connection.
#[derive(Debug)]
pub(super) enum ReceivedBody {
    /// Over TLS, or to a server that is called by a name.
    Client(reqwest::Body),
    /// Over a plain connection, which the reader of the body drives.
    Direct(Box<direct::Answer>),
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

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Client(body) => Pin::new(body).poll_frame(cx).map_err(BodyError::Client),
            Self::Direct(body) => body.poll_frame(cx).map_err(BodyError::Direct),
            Self::Empty => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Client(body) => body.is_end_stream(),
            Self::Direct(body) => body.is_end_stream(),
            Self::Empty => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Client(body) => body.size_hint(),
            Self::Direct(body) => body.size_hint(),
            Self::Empty => SizeHint::with_exact(0),
        }
    }
}
