//! A request's body: read whole where it may be, to be looked through; what is too long for that passes through unread.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;

use crate::{
    gateway::body_memory::{BodyMemory, Share},
    policy::Limits,
};

/// A request's body.
pub(super) enum Read {
    /// All of it.
    Whole(Bytes),
    /// As it comes.
    Streamed(Body),
}

impl Read {
    /// Reads a body within the limits on one, and on all together.
    pub(super) async fn of(mut body: Body, limits: &Limits, held: &Arc<BodyMemory>) -> Self {
        let mut share = Share::new(held.clone());
        let mut read = BytesMut::new();
        loop {
            match body.frame().await {
                None => return Self::Whole(share.of(read.freeze())),
                Some(Ok(frame)) => {
                    let Ok(chunk) = frame.into_data() else { continue };
                    let fits =
                        read.len() + chunk.len() <= limits.body && share.grow(chunk.len(), limits.bodies).is_ok();
                    read.extend_from_slice(&chunk);
                    if !fits {
                        return Self::Streamed(after(read.freeze(), body));
                    }
                }
                // What it breaks with is for those who get it to see.
                Some(Err(error)) => {
                    let broken = stream::iter([Ok(read.freeze()), Err(error)]);
                    return Self::Streamed(Body::from_stream(broken));
                }
            }
        }
    }

    /// What is sent on.
    pub(super) fn into_body(self) -> reqwest::Body {
        match self {
            Self::Whole(bytes) => bytes.into(),
            Self::Streamed(body) => reqwest::Body::wrap_stream(body.into_data_stream()),
        }
    }
}

/// `read`, and then the rest of `body`.
fn after(read: Bytes, body: Body) -> Body {
    Body::from_stream(stream::once(async { Ok(read) }).chain(body.into_data_stream()))
}
