//! Recorded requests: head, body bytes, and fate of the answer.

use std::collections::HashMap;

use bytes::{Buf, Bytes, BytesMut};
use tokio::{io::AsyncReadExt, net::tcp::OwnedReadHalf};

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Index among the planned requests.
    pub number: usize,
    /// Index of its connection.
    pub connection: usize,
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names as received, in order.
    pub headers: Vec<(String, String)>,
    pub body: Bytes,
    pub fate: Fate,
    /// The body's `model`, read once.
    model: String,
}

/// Fate of an answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is under way.
    Open,
    /// Its plan was carried out to the end, cuts included.
    Done,
    /// The client left first.
    ClientGone,
}

impl Seen {
    /// Returns the first value of a header, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Parses the body as JSON; `null` if it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body's `model`, or "".
    pub fn model(&self) -> &str {
        &self.model
    }

    /// True if the body requests a stream.
    pub fn streams(&self) -> bool {
        self.json()["stream"] == true
    }
}

/// Reads requests off one connection, one after the other.
pub(super) struct Reader {
    half: OwnedReadHalf,
    buffer: BytesMut,
}

impl Reader {
    pub(super) fn new(half: OwnedReadHalf) -> Self {
        Self { half, buffer: BytesMut::new() }
    }

    /// Reads the next request; `None` if the client closed or sent something other than an HTTP/1 request.
    pub(super) async fn request(&mut self, connection: usize) -> Option<Seen> {
        let head = self.until(b"\r\n\r\n").await?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.trim_end().split("\r\n");
        let mut start = lines.next()?.split(' ');
        let (method, path) = (start.next()?.to_owned(), start.next()?.to_owned());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let lower: HashMap<String, &str> =
            headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        let body = if lower.get("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            self.chunked().await?
        } else {
            let length = lower.get("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
            self.exactly(length).await?
        };
        let model = serde_json::from_slice::<serde_json::Value>(&body)
            .ok()
            .and_then(|json| json["model"].as_str().map(str::to_owned))
            .unwrap_or_default();
        Some(Seen { number: 0, connection, method, path, headers, body, fate: Fate::Open, model })
    }

    /// Waits until the client closes its side; keeps received bytes for the next request.
    pub(super) async fn closed(&mut self) {
        while self.more().await.is_some() {}
    }

    async fn chunked(&mut self) -> Option<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let line = self.until(b"\r\n").await?;
            let size = std::str::from_utf8(&line).ok()?.trim().split(';').next().map(str::to_owned)?;
            let size = usize::from_str_radix(&size, 16).ok()?;
            let chunk = self.exactly(size + 2).await?;
            if size == 0 {
                return Some(body.freeze());
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    async fn until(&mut self, end: &[u8]) -> Option<Bytes> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, end) {
                return Some(self.buffer.split_to(at + end.len()).freeze());
            }
            self.more().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> Option<Bytes> {
        while self.buffer.remaining() < length {
            self.more().await?;
        }
        Some(self.buffer.split_to(length).freeze())
    }

    async fn more(&mut self) -> Option<()> {
        match self.half.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }
}
