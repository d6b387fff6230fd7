//! Answers over plain connections.

use std::{
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::{broken::Broken, connection::Connection, framing::Framing, idle::Idle};

/// Body of an answer, with the connection that brings it.
#[derive(Debug)]
pub(in super::super) struct Answer {
    pub(super) framing: Framing,
    /// `None` once it has failed.
    pub(super) connection: Option<Box<Connection>>,
    /// The way back of a connection that can be used again.
    pub(super) whole: Option<Whole>,
}

/// The place where a connection is kept.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) authority: Arc<str>,
    pub(super) idle: Weak<Idle>,
}

impl Answer {
    pub(in super::super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        let data = ready!(connection.poll_data(&mut self.framing, cx));
        if data.is_err() {
            self.connection = None;
        }
        Poll::Ready(data.map(|data| data.map(Frame::data)).transpose())
    }

    pub(in super::super) fn is_end_stream(&self) -> bool {
        self.framing == Framing::Ended
    }

    pub(in super::super) fn size_hint(&self) -> SizeHint {
        self.framing.size_hint()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let (Some(mut connection), Some(whole)) = (self.connection.take(), self.whole.take()) else { return };
        let Some(idle) = whole.idle.upgrade() else { return };
        if self.is_end_stream() && connection.is_open() {
            idle.keep(whole.authority, connection);
        }
    }
}
