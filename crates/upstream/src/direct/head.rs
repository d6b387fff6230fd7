//! Heads of answers.

use std::mem::MaybeUninit;

use bytes::{Buf, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};

use super::broken::Broken;

/// Most headers of an answer.
const MOST_HEADERS: usize = 128;
/// Most bytes of a head.
const MOST_BYTES: usize = 256 << 10;

/// Head of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub status: StatusCode,
    pub(super) version: Version,
    pub headers: HeaderMap,
}

impl Head {
    /// True if the engine takes another request after this answer.
    pub(super) fn keeps_alive(&self) -> bool {
        let has = |wanted: &str| {
            let values = self.headers.get_all(header::CONNECTION).into_iter();
            let mut tokens = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
            tokens.any(|token| token.trim().eq_ignore_ascii_case(wanted))
        };
        !has("close") && (self.version == Version::HTTP_11 || has("keep-alive"))
    }
}

/// Reader of the heads before a body.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// Bytes that are known to hold no complete head: only another line is a reason to parse them again.
    seen: usize,
}

impl Heads {
    /// Takes the head of the final answer off the front of `read`. `None` if it is not complete.
    pub(super) fn take(&mut self, read: &mut BytesMut) -> Result<Option<Head>, Broken> {
        loop {
            while let Some(empty) = [&b"\r\n"[..], b"\n"].into_iter().find(|empty| read.starts_with(empty)) {
                read.advance(empty.len());
                self.seen = 0;
            }
            let lines = memchr::memrchr(b'\n', &read[self.seen..]).map(|at| self.seen + at + 1);
            let head = lines.map_or(Ok(None), |lines| take_any(read, lines))?;
            self.seen = if head.is_some() { 0 } else { read.len() };
            match head {
                None if read.len() > MOST_BYTES => return Err(Broken::LongHead),
                Some(head) if head.status == StatusCode::SWITCHING_PROTOCOLS => return Err(Broken::Switched),
                // The final one follows.
                Some(head) if head.status.is_informational() => {}
                head => return Ok(head),
            }
        }
    }
}

/// Takes a head, be it of an interim answer, out of the first `lines` bytes of `read`.
fn take_any(read: &mut BytesMut, lines: usize) -> Result<Option<Head>, Broken> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        &read[..lines],
        &mut headers,
    )?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    if length > MOST_BYTES {
        return Err(Broken::LongHead);
    }
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(httparse::Error::Status)?;
    let version = if response.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let start = read.as_ptr().addr();
    // Places of the values, which become slices of the bytes once these are taken.
    let mut found = Vec::with_capacity(response.headers.len());
    for header in response.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| httparse::Error::HeaderName)?;
        let at = if header.value.is_empty() { 0 } else { header.value.as_ptr().addr() - start };
        found.push((name, at..at + header.value.len()));
    }
    let bytes = read.split_to(length).freeze();
    let mut headers = HeaderMap::with_capacity(found.len());
    for (name, place) in found {
        let value = HeaderValue::from_maybe_shared(bytes.slice(place)).map_err(|_| httparse::Error::HeaderValue)?;
        headers.append(name, value);
    }
    Ok(Some(Head { status, version, headers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Head>, Broken> {
        Heads::default().take(&mut BytesMut::from(text))
    }

    #[test]
    fn a_head_is_the_same_in_any_two_pieces() {
        let text = "\r\n\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\nA: 1\r\n\
                    empty:\r\na:  2  \r\n\r\nbody";
        for cut in 0..text.len() {
            let mut read = BytesMut::from(&text[..cut]);
            let mut heads = Heads::default();
            let first = heads.take(&mut read).unwrap();
            let whole = first.is_some();
            read.extend_from_slice(&text.as_bytes()[cut..]);
            let head = first.or_else(|| heads.take(&mut read).unwrap()).unwrap();
            assert_eq!(whole, cut >= text.len() - 4);
            assert_eq!((head.status, head.version, &read[..]), (StatusCode::OK, Version::HTTP_11, &b"body"[..]));
            let headers: Vec<_> = head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
            assert_eq!(headers, [("a", &b"1"[..]), ("a", b"2"), ("empty", b"")]);
        }
    }

    #[test]
    fn malformed_heads_are_errors() {
        for text in
            ["HTTP/2.0 200 OK\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "SSH-2.0-x\r\n", "\0\n"]
        {
            assert!(matches!(read(text), Err(Broken::Head(_))), "{text:?}");
        }
        for line in ["a b: c", "a: \0", ": a", "a"] {
            let text = format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n");
            assert!(matches!(read(&text), Err(Broken::Head(_))), "{line:?}");
        }
        assert!(matches!(read("HTTP/1.1 000 OK\r\n\r\n"), Err(Broken::Head(httparse::Error::Status))));
        assert!(matches!(read("HTTP/1.1 101 Switching Protocols\r\n\r\n"), Err(Broken::Switched)));
    }

    #[test]
    fn heads_are_bounded() {
        let many = |number: usize| format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(number));
        assert_eq!(read(&many(MOST_HEADERS)).unwrap().unwrap().headers.len(), MOST_HEADERS);
        assert!(matches!(read(&many(MOST_HEADERS + 1)), Err(Broken::Head(httparse::Error::TooManyHeaders))));
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(MOST_BYTES));
        assert!(matches!(read(&long), Err(Broken::LongHead)));
        assert!(matches!(read(&format!("{long}\r\n\r\n")), Err(Broken::LongHead)));
    }

    #[test]
    fn connections_are_kept_as_the_head_permits() {
        let keeps = |version: &str, lines: &str| {
            read(&format!("HTTP/1.{version} 200 OK\r\n{lines}\r\n")).unwrap().unwrap().keeps_alive()
        };
        assert!(keeps("1", "") && keeps("1", "connection: x\r\n") && keeps("0", "connection: Keep-Alive\r\n"));
        assert!(!keeps("0", "") && !keeps("1", "connection: x, Close\r\n"));
        assert!(!keeps("1", "connection: close\r\nconnection: keep-alive\r\n"));
    }
}
