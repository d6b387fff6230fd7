//! Reads a request body whole if the limits allow it. A longer one is streamed through unread.

use std::sync::Arc;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;

use crate::body_memory::{BodyMemory, Share};
use signalbox_policy::Limits;

/// Request body, buffered or streamed.
pub(super) enum Read {
    /// The whole body.
    Whole(Bytes),
    /// A body that is passed on as it arrives.
    Streamed(Body),
}

impl Read {
    /// Reads a body within the limits on one body and on all buffered bodies together.
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
                // The receiver of the body gets its error.
                Some(Err(error)) => {
                    let broken = stream::iter([Ok(read.freeze()), Err(error)]);
                    return Self::Streamed(Body::from_stream(broken));
                }
            }
        }
    }

    /// Converts the body for the upstream request.
    pub(super) fn into_body(self) -> reqwest::Body {
        match self {
            Self::Whole(bytes) => bytes.into(),
            Self::Streamed(body) => reqwest::Body::wrap_stream(body.into_data_stream()),
        }
    }
}

/// Returns a body of `read` and then the rest of `body`.
fn after(read: Bytes, body: Body) -> Body {
    Body::from_stream(stream::once(async { Ok(read) }).chain(body.into_data_stream()))
}
