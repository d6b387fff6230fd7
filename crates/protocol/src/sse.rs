//! Server-sent events: splits a stream of bytes into events without changing a byte.
//!
//! Follows the WHATWG HTML standard, section 9.2 "Server-sent events": lines end in LF, CRLF or CR, an empty line ends an
//! event. Chunk boundaries may fall anywhere, also inside CRLF and inside a UTF-8 sequence.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use memchr::{memchr2, memmem};

/// Splits a stream of chunks into whole events. An event within one chunk is a slice of it; only an event that spans
/// chunks is copied.
#[derive(Debug)]
pub struct Splitter {
    /// Received bytes that are not scanned yet.
    chunk: Bytes,
    /// The beginning of an event whose end has not arrived.
    partial: BytesMut,
    /// True if the current line has no bytes yet.
    line_empty: bool,
    /// True if the last byte was a CR, to which a following LF belongs.
    after_cr: bool,
    /// True if the line that the CR ended was empty, and so ends the event.
    blank: bool,
    /// The largest event, in bytes.
    limit: usize,
}

/// An event was longer than the limit.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("an event of the stream is longer than {limit} bytes")]
pub struct TooLong {
    /// The limit, in bytes.
    pub limit: usize,
}

impl Splitter {
    /// A splitter that rejects events longer than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { chunk: Bytes::new(), partial: BytesMut::new(), line_empty: true, after_cr: false, blank: false, limit }
    }

    /// Adds the next chunk. Call [`next_event`](Self::next_event) until it returns `None` before adding another.
    pub fn feed(&mut self, chunk: Bytes) {
        debug_assert!(self.chunk.is_empty(), "the chunk before has events left");
        self.chunk = chunk;
    }

    /// The next whole event, including its closing empty line.
    pub fn next_event(&mut self) -> Result<Option<Event>, TooLong> {
        let end = self.scan();
        let length = self.partial.len() + end.unwrap_or(self.chunk.len());
        if length > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        match end {
            Some(end) if self.partial.is_empty() => Ok(Some(Event { raw: self.chunk.split_to(end) })),
            Some(end) => {
                self.partial.extend_from_slice(&self.chunk.split_to(end));
                Ok(Some(Event { raw: self.partial.split().freeze() }))
            }
            None => {
                self.partial.extend_from_slice(&std::mem::take(&mut self.chunk));
                Ok(None)
            }
        }
    }

    /// The remainder after the end of the stream: an event without its closing empty line.
    pub fn rest(&mut self) -> Option<Event> {
        let left = self.partial.split().freeze();
        (!left.is_empty()).then_some(Event { raw: left })
    }

    /// The number of bytes of the chunk that complete the current event.
    fn scan(&mut self) -> Option<usize> {
        let chunk = &self.chunk[..];
        let mut at = 0;
        loop {
            if self.after_cr {
                let next = *chunk.get(at)?;
                at += usize::from(next == b'\n');
                self.after_cr = false;
                self.line_empty = true;
                if std::mem::take(&mut self.blank) {
                    return Some(at);
                }
            }
            let Some(length) = memchr2(b'\n', b'\r', &chunk[at..]) else {
                self.line_empty &= at == chunk.len();
                return None;
            };
            let blank = self.line_empty && length == 0;
            at += length + 1;
            if chunk[at - 1] == b'\r' {
                (self.after_cr, self.blank) = (true, blank);
            } else {
                self.line_empty = true;
                if blank {
                    return Some(at);
                }
            }
        }
    }
}

/// The beginnings of an event's lines.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// One event, byte for byte as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its bytes, including the closing empty line if it was received.
    pub raw: Bytes,
}

impl Event {
    /// An event that carries `data`, which must not contain a line break.
    pub(super) fn of_data(data: &str) -> Self {
        Self { raw: Bytes::from(format!("data: {data}\n\n")) }
    }

    /// The value of its `data` field; several are joined by LF. `None` if it has none (a comment, a keep-alive).
    pub fn data(&self) -> Option<Cow<'_, [u8]>> {
        // Nearly every event is one such line.
        if let Some(rest) = self.raw.strip_prefix(b"data: ")
            && let Some(end) = memchr2(b'\n', b'\r', rest)
            && rest[end..].iter().all(|byte| matches!(byte, b'\n' | b'\r'))
        {
            return Some(Cow::Borrowed(&rest[..end]));
        }
        let mut found: Option<Cow<'_, [u8]>> = None;
        for line in self.lines() {
            let Some(value) = field(line, b"data") else { continue };
            match &mut found {
                None => found = Some(Cow::Borrowed(value)),
                Some(data) => {
                    let data = data.to_mut();
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
            }
        }
        found
    }

    /// The value of its `event` field, if it has one.
    pub fn name(&self) -> Option<&[u8]> {
        if self.raw.starts_with(b"data:") && memmem::find(&self.raw, b"event:").is_none() {
            return None;
        }
        self.lines().filter_map(|line| field(line, b"event")).last()
    }

    /// Its text, if that has no field of an event and is no comment: some engines end a stream with an error so.
    pub(super) fn naked_text(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.raw).ok()?.trim();
        let is_field = |line: &[u8]| FIELDS.iter().any(|field| line.starts_with(field));
        (!text.is_empty() && !self.lines().any(is_field)).then_some(text)
    }

    /// True if it has data, and says no more with it than that the upstream lives.
    pub fn is_heartbeat(&self) -> bool {
        const NAMES: [&[u8]; 4] = [b"ping", b"heartbeat", b"keepalive", b"keep-alive"];
        const TYPES: [&[u8]; 4] = [b"\"ping\"", b"\"heartbeat\"", b"\"keepalive\"", b"\"keep-alive\""];
        const LONGEST: usize = 256;
        if self.raw.len() > LONGEST {
            return false;
        }
        let Some(data) = self.data() else { return false };
        let data = data.trim_ascii();
        data.is_empty()
            || data == b"{}"
            || self.name().is_some_and(|name| NAMES.contains(&name))
            || data.starts_with(b"{\"type\"") && TYPES.iter().any(|kind| memmem::find(&data[7..], kind).is_some())
    }

    /// True if a body that begins with these bytes is a stream of events, whatever its head says; `None` if more bytes
    /// are needed to tell.
    pub fn begins_stream(bytes: &[u8]) -> Option<bool> {
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii_start();
        if FIELDS.iter().any(|field| text.starts_with(field)) {
            return Some(true);
        }
        let may_become = text.is_empty()
            || "\u{feff}".as_bytes().starts_with(bytes)
            || FIELDS.iter().any(|field| field.starts_with(text));
        if may_become { None } else { Some(false) }
    }

    /// The event with its closing empty line added if the stream ended too early, so that another event may follow it.
    #[must_use]
    pub fn closed(self) -> Self {
        let missing: &[u8] = match &*self.raw {
            [.., b'\n', b'\n'] | [.., b'\r', b'\r'] | [.., b'\r', b'\n', b'\r', b'\n'] => return self,
            [.., b'\n' | b'\r'] => b"\n",
            _ => b"\n\n",
        };
        Self { raw: [&self.raw, missing].concat().into() }
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let raw = self.raw.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.raw);
        let mut rest = Some(raw);
        std::iter::from_fn(move || {
            let text = rest.take()?;
            let Some(end) = memchr2(b'\n', b'\r', text) else { return Some(text) };
            rest = Some(&text[end + 1..]);
            Some(&text[..end])
        })
    }
}

/// The value of the field `name` on `line`, one leading space removed.
fn field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    match line.strip_prefix(name)? {
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        [] => Some(&[]),
        _ => None,
    }
}

/// Fuzz target: splits arbitrary bytes in chunks of the size in the first byte; every byte must be kept.
///
/// # Panics
/// If a byte is lost or changed.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_sse(input: &[u8]) {
    let Some((step, bytes)) = input.split_first() else { return };
    let mut splitter = Splitter::new(usize::MAX);
    let mut out = Vec::new();
    for chunk in bytes.chunks(usize::from(*step).max(1)) {
        splitter.feed(Bytes::copy_from_slice(chunk));
        while let Ok(Some(event)) = splitter.next_event() {
            let _ = event.data();
            out.extend_from_slice(&event.raw);
        }
    }
    out.extend(splitter.rest().map(|event| event.raw.to_vec()).unwrap_or_default());
    assert_eq!(out, bytes, "the splitter lost or changed bytes");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut splitter = Splitter::new(1 << 20);
        let mut found = Vec::new();
        for chunk in chunks {
            splitter.feed(Bytes::copy_from_slice(chunk));
            while let Some(event) = splitter.next_event().unwrap() {
                found.push(event.raw.to_vec());
            }
        }
        found.extend(splitter.rest().map(|event| event.raw.to_vec()));
        found
    }

    #[test]
    fn every_line_ending_ends_an_event() {
        for stream in ["data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r"] {
            let whole = events(&[stream.as_bytes()]);
            let half = stream.len() / 2;
            assert_eq!(whole, [&stream.as_bytes()[..half], &stream.as_bytes()[half..]], "{stream:?}");
        }
    }

    #[test]
    fn data_of_one_line_is_that_of_the_general_case() {
        for raw in [
            "data: a\n\n",
            "data: a\r\n\r\n",
            "data: a\r\r",
            "data: a",
            "data: a\n",
            "data:a\n\n",
            "id: 1\ndata: a\n\n",
        ] {
            assert_eq!(Event { raw: Bytes::from_static(raw.as_bytes()) }.data().unwrap(), &b"a"[..], "{raw:?}");
        }
        assert_eq!(Event { raw: "data: a\n\ndata: b".into() }.data().unwrap(), &b"a\nb"[..]);
        assert_eq!(Event { raw: "data:  \n\n".into() }.data().unwrap(), &b" "[..]);
    }

    #[test]
    fn data_of_several_lines_is_joined() {
        let event = |raw: &'static str| Event { raw: Bytes::from_static(raw.as_bytes()) };
        assert_eq!(event("event: x\ndata: a\ndata:b\n\n").data().unwrap(), &b"a\nb"[..]);
        assert_eq!(event("\u{feff}data: a\r\n\r\n").data().unwrap(), &b"a"[..]);
        assert_eq!(event("data\n\n").data().unwrap(), &b""[..]);
        assert_eq!(event(": ping\n\n").data(), None);
        assert_eq!(event("database: a\n\n").data(), None);
    }

    #[test]
    fn an_incomplete_event_is_closed() {
        for (raw, want) in [
            ("data: a", "data: a\n\n"),
            ("data: a\n", "data: a\n\n"),
            ("data: a\r\n", "data: a\r\n\n"),
            ("data: a\r\n\r", "data: a\r\n\r\n"),
            ("data: a\r\r", "data: a\r\r"),
            ("data: a\r\n\r\n", "data: a\r\n\r\n"),
        ] {
            assert_eq!(Event { raw: Bytes::from_static(raw.as_bytes()) }.closed().raw, want);
        }
    }

    #[test]
    fn a_too_long_event_is_rejected() {
        let mut splitter = Splitter::new(8);
        splitter.feed(Bytes::from_static(b"data: 123456789"));
        assert_eq!(splitter.next_event(), Err(TooLong { limit: 8 }));
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(parts in proptest::collection::vec("(data: ?[a-zé\u{1F600}]{0,6}|: ping|event: x|)(\n|\r\n|\r)(\n|\r\n)?", 0..12), cuts in proptest::collection::vec(0usize..200, 0..8)) {
            let stream = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(stream.len())).collect();
            cuts.push(0);
            cuts.push(stream.len());
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events(&chunks), events(&[&stream[..]]));
        }

        #[test]
        fn no_byte_is_lost(input in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), any::<u8>()], 0..200)) {
            fuzz_sse(&input);
        }
    }

    #[test]
    fn streams_differ_from_documents_in_their_first_bytes() {
        for (bytes, want) in [
            ("data: a", Some(true)),
            ("\n\n: hi", Some(true)),
            ("\u{feff}event: x", Some(true)),
            ("id: 1", Some(true)),
            ("{\"a\":1}", Some(false)),
            ("<html>", Some(false)),
            ("dat", None),
            ("", None),
            (" \n", None),
            ("database", Some(false)),
        ] {
            assert_eq!(Event::begins_stream(bytes.as_bytes()), want, "{bytes:?}");
        }
        assert_eq!(Event::begins_stream(&[0xef, 0xbb]), None);
    }

    #[test]
    fn names_and_naked_json_are_read() {
        let event = |raw: &'static str| Event { raw: Bytes::from_static(raw.as_bytes()) };
        assert_eq!(event("event: error\ndata: x\n\n").name(), Some(&b"error"[..]));
        assert_eq!(event("data: event: error\n\n").name(), None);
        assert_eq!(event("data: x\nevent: error\n\n").name(), Some(&b"error"[..]));
        assert_eq!(event("{\"error\":1}\n").naked_text(), Some("{\"error\":1}"));
        assert_eq!(event(": {}\n\n").naked_text(), None);
    }
}
