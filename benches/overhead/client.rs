//! A minimal client: hand-written HTTP/1.1 over one kept connection, the same for every target.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use memchr::memmem;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A kept connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Timings of one exchange.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Sample {
    /// Time to the first byte of the answer's body.
    pub(crate) first: Duration,
    /// Time to the last byte.
    pub(crate) total: Duration,
    /// Overhead that the gateway reports, in microseconds.
    pub(crate) own: Option<u32>,
}

/// A parsed response head.
struct Head {
    /// Offset of the body.
    body: usize,
    /// Length of the body, or `None` if it is chunked.
    length: Option<usize>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 64 << 10] })
    }

    /// Sends a whole request and reads the whole answer.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<Sample> {
        let started = Instant::now();
        self.stream.write_all(request).await?;
        let (mut filled, mut head, mut first) = (0, None, None);
        let (body, end) = loop {
            if filled == self.buffer.len() {
                self.buffer.resize(filled * 2, 0);
            }
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            let now = Instant::now();
            if read == 0 {
                return Err(io::Error::other("the connection was closed within an answer"));
            }
            filled += read;
            let seen = &self.buffer[..filled];
            if head.is_none() {
                head = Head::read(seen)?;
            }
            let Some(Head { body, length }) = head else { continue };
            if filled > body {
                first.get_or_insert(now);
            }
            if length.map_or_else(|| seen.ends_with(b"\r\n0\r\n\r\n"), |length| filled >= body + length) {
                break (body, now);
            }
        };
        let own = header(&self.buffer[..body], "x-signalbox-overhead-us").and_then(|text| text.parse().ok());
        Ok(Sample { first: first.unwrap_or(end) - started, total: end - started, own })
    }

    /// Number of events in the last answer.
    pub(crate) fn events(&self) -> usize {
        memmem::find_iter(&self.buffer, b"data: {").count()
    }
}

impl Head {
    /// Parses the head. `None` while it is incomplete; an error if its status is not 200.
    fn read(seen: &[u8]) -> io::Result<Option<Self>> {
        let Some(end) = memmem::find(seen, b"\r\n\r\n") else { return Ok(None) };
        let head = &seen[..end + 2];
        if !head.starts_with(b"HTTP/1.1 200") {
            return Err(io::Error::other(format!("unsuccessful answer: {}", String::from_utf8_lossy(seen))));
        }
        let length = header(head, "content-length").and_then(|text| text.parse().ok());
        Ok(Some(Self { body: end + 4, length }))
    }
}

/// Returns a header's value.
fn header<'a>(head: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// Builds a chat request with a prompt of about `prompt` bytes.
pub(crate) fn request(model: &str, stream: bool, prompt: usize) -> Vec<u8> {
    let sentence = "The 7.15 to the junction is held at the home signal until the down goods has cleared. ";
    let text: String = sentence.chars().cycle().take(prompt).collect();
    let body = format!(
        r#"{{"model":"{model}","messages":[{{"role":"system","content":"Answer in a word."}},{{"role":"user","content":"{text}"}}],"max_tokens":64,"temperature":0.7,"stream":{stream}}}"#
    );
    let length = body.len();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\nAuthorization: Bearer none\r\nUser-Agent: bench\r\n";
    format!("{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}
