//! One turn: its request goes through the walk, and the events of the answer become frames.

use std::sync::Arc;

use axum::{body::Body, extract::Request};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Collected, Limited};
use tokio::sync::mpsc;

use super::{
    create::{Create, text},
    frame,
    history::{Past, joined, output_items},
};
use crate::{Reply, reply::is_events};
use signalbox_protocol::{LONG_BODY, Splitter, json::member};
use signalbox_types::Fault;

/// Path that takes an upgrade, and to which turns go.
pub(crate) const PATH: &str = "/v1/responses";

/// The walk of a request, from the edge on.
pub(crate) type Walk = Arc<dyn Fn(Request) -> BoxFuture<'static, Reply> + Send + Sync>;

/// Largest event of an answer, in bytes.
const LARGEST_EVENT: usize = 32 << 20;
/// Most bytes that are read of an answer that is no stream.
const LARGEST_ERROR: usize = 1 << 20;

/// Output of a turn.
pub(super) enum FromTurn {
    /// A frame for the client.
    Frame(String),
    /// A sign of life.
    Ping,
    /// The end, with the response if only this connection knows it.
    Ended { lane: Option<String>, past: Option<Past> },
}

/// A turn to run.
pub(super) struct Turn {
    pub(super) create: Create,
    /// Items of the response that it continues, if only this connection knows it.
    pub(super) earlier: Option<Bytes>,
    pub(super) walk: Walk,
    pub(super) headers: HeaderMap,
}

impl Turn {
    /// Runs the turn. Dropped, it ends the request.
    pub(super) async fn run(self, frames: mpsc::Sender<FromTurn>) {
        let lane = self.create.lane.clone();
        let past = self.answered(&frames).await;
        // The connection may be gone.
        let _ = frames.send(FromTurn::Ended { lane, past }).await;
    }

    async fn answered(self, frames: &mpsc::Sender<FromTurn>) -> Option<Past> {
        let Self { create, earlier, walk, headers } = self;
        let lane = create.lane.clone();
        let lane = lane.as_deref();
        let length = create.length() + earlier.as_ref().map_or(0, Bytes::len);
        let prepare = move || {
            let items = create.items(earlier.as_ref());
            let body = create.body(earlier.is_some().then_some(&items));
            (items, body)
        };
        let (items, body) =
            if length <= LONG_BODY { prepare() } else { tokio::task::spawn_blocking(prepare).await.ok()? };
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http::Uri::from_static(PATH);
        *request.headers_mut() = headers;
        let (head, body) = walk(request).await.into_parts();
        if head.status != StatusCode::OK || !is_events(&head.headers) {
            let body = Limited::new(body, LARGEST_ERROR).collect().await.map(Collected::to_bytes).unwrap_or_default();
            let status = if head.status.is_success() { StatusCode::BAD_GATEWAY } else { head.status };
            let error = frame::error_answer(status, &head.headers, &body, lane);
            frames.send(FromTurn::Frame(error)).await.ok()?;
            return None;
        }
        let last = passed_on(body, lane, frames).await?;
        let response = member(last.trim_ascii_start(), "response")?;
        if member(response, "store") == Some(b"true") {
            return None;
        }
        let output = member(response, "output").map(output_items).unwrap_or_default();
        Some(Past { id: text(response, "id")?, items: joined(&items, &output) })
    }
}

/// Passes the events of an answer on. Returns the data of the last one if the response is complete.
async fn passed_on(mut body: Body, lane: Option<&str>, frames: &mpsc::Sender<FromTurn>) -> Option<Bytes> {
    let mut events = Splitter::new(LARGEST_EVENT);
    while let Some(part) = body.frame().await {
        let Ok(part) = part else { break };
        let Ok(chunk) = part.into_data() else { continue };
        events.feed(chunk);
        while let Ok(Some(event)) = events.next_event() {
            let Some(data) = event.data().filter(|data| !data.trim_ascii().is_empty()) else {
                frames.send(FromTurn::Ping).await.ok()?;
                continue;
            };
            if data.trim_ascii() == b"[DONE]" {
                continue;
            }
            let kind = text(&data, "type").unwrap_or_default();
            let frame = if kind == "error" { frame::error_event(&data, lane) } else { frame::event(&data, lane) };
            frames.send(FromTurn::Frame(frame)).await.ok()?;
            match &*kind {
                "response.completed" | "response.incomplete" => return Some(Bytes::copy_from_slice(&data)),
                "response.failed" | "error" => return None,
                _ => {}
            }
        }
    }
    let fault = Fault::upstream(StatusCode::BAD_GATEWAY, "answer_cut", "the backend's answer broke off");
    frames.send(FromTurn::Frame(frame::fault(&fault, lane))).await.ok()?;
    None
}
