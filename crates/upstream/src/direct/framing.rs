//! Ends of answers: the bytes of a body, taken out of what was read.

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, StatusCode, Version, header};
use http_body::SizeHint;

#[cfg(any(test, feature = "fuzzing"))]
use super::head::Heads;
use super::{broken::Broken, head::Head};

/// Most bytes of the line before a chunk, and of all lines after the last one.
const MOST_LINES: usize = 8 << 10;

/// The rest of an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// That many bytes.
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    /// Nothing.
    Ended,
}

/// Next part of a body in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunked {
    /// The line with a chunk's size.
    Size,
    /// That many bytes of a chunk.
    Data(u64),
    /// The end of line after a chunk.
    Gap,
    /// Lines after the last chunk, of which that many bytes were read.
    Trailers(usize),
}

/// Result of a look at what was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Data(Bytes),
    /// More has to be read.
    More,
    End,
}

impl Framing {
    /// The body after `head`. `head_only` if the request was for the head alone.
    pub(super) fn of(head: &Head, head_only: bool) -> Result<Self, Broken> {
        if head_only || matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Ok(Self::Ended);
        }
        if is_chunked(head)? {
            return Ok(Self::Chunked(Chunked::Size));
        }
        match length(&head.headers)? {
            Some(0) => Ok(Self::Ended),
            Some(length) => Ok(Self::Length(length)),
            None => Ok(Self::UntilClose),
        }
    }

    /// Takes the next bytes of the body off the front of `read`.
    pub(super) fn step(&mut self, read: &mut BytesMut) -> Result<Step, Broken> {
        match self {
            Self::Ended => Ok(Step::End),
            _ if read.is_empty() => Ok(Step::More),
            Self::UntilClose => Ok(Step::Data(read.split().freeze())),
            Self::Length(left) => {
                let data = part(left, read);
                if *left == 0 {
                    *self = Self::Ended;
                }
                Ok(Step::Data(data))
            }
            Self::Chunked(chunked) => {
                let step = chunked.step(read)?;
                if step == Step::End {
                    *self = Self::Ended;
                }
                Ok(step)
            }
        }
    }

    /// Ends the body with its connection.
    pub(super) fn close(&mut self) -> Result<(), Broken> {
        match self {
            Self::UntilClose | Self::Ended => *self = Self::Ended,
            Self::Length(_) | Self::Chunked(_) => return Err(Broken::Incomplete),
        }
        Ok(())
    }

    pub(super) fn size_hint(self) -> SizeHint {
        match self {
            Self::Length(left) => SizeHint::with_exact(left),
            Self::Ended => SizeHint::with_exact(0),
            Self::Chunked(_) | Self::UntilClose => SizeHint::default(),
        }
    }
}

impl Chunked {
    fn step(&mut self, read: &mut BytesMut) -> Result<Step, Broken> {
        while !read.is_empty() {
            match self {
                Self::Size => match size(read)? {
                    Some(0) => *self = Self::Trailers(0),
                    Some(size) => *self = Self::Data(size),
                    None => return Ok(Step::More),
                },
                Self::Data(left) => {
                    let data = part(left, read);
                    if *left == 0 {
                        *self = Self::Gap;
                    }
                    return Ok(Step::Data(data));
                }
                Self::Gap if read.starts_with(b"\r\n") => {
                    read.advance(2);
                    *self = Self::Size;
                }
                Self::Gap if **read == *b"\r" => return Ok(Step::More),
                Self::Gap => return Err(Broken::Chunk),
                Self::Trailers(seen) => {
                    let Some(length) = line(read, *seen)? else { return Ok(Step::More) };
                    *seen += length;
                    read.advance(length);
                    if length == 2 {
                        return Ok(Step::End);
                    }
                }
            }
        }
        Ok(Step::More)
    }
}

/// Takes at most `left` bytes off the front of `read`, without a copy.
fn part(left: &mut u64, read: &mut BytesMut) -> Bytes {
    let length = usize::try_from(*left).map_or(read.len(), |left| left.min(read.len()));
    *left -= length as u64;
    read.split_to(length).freeze()
}

/// Takes the line with a chunk's size. `None` if it is not complete.
fn size(read: &mut BytesMut) -> Result<Option<u64>, Broken> {
    // The parser takes a line without digits for the last chunk.
    if !read.first().is_some_and(u8::is_ascii_hexdigit) {
        return Err(Broken::Chunk);
    }
    let Some(length) = line(read, 0)? else { return Ok(None) };
    match httparse::parse_chunk_size(&read[..length]) {
        Ok(httparse::Status::Complete((_, size))) => {
            read.advance(length);
            Ok(Some(size))
        }
        _ => Err(Broken::Chunk),
    }
}

/// Length of the line at the front of `read`, after `seen` bytes of other lines. `None` if it is not complete.
fn line(read: &[u8], seen: usize) -> Result<Option<usize>, Broken> {
    let length = memchr::memchr(b'\n', read).map(|at| at + 1);
    if seen + length.unwrap_or(read.len()) > MOST_LINES {
        return Err(Broken::Chunk);
    }
    match length {
        Some(length) if !read[..length].ends_with(b"\r\n") => Err(Broken::Chunk),
        length => Ok(length),
    }
}

/// True if the body is in chunks. Frameworks that copy the headers of another server name the coding again, or add the
/// obsolete `identity`; there is still one layer of chunks. Beside a length such a head is ambiguous.
fn is_chunked(head: &Head) -> Result<bool, Broken> {
    let (mut names, mut chunked) = (0, false);
    for value in head.headers.get_all(header::TRANSFER_ENCODING) {
        for name in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            names += 1;
            chunked |= name.eq_ignore_ascii_case(b"chunked");
            if !name.eq_ignore_ascii_case(b"chunked") && !name.eq_ignore_ascii_case(b"identity") {
                return Err(Broken::Coding);
            }
        }
    }
    let ambiguous = names > 1 && head.headers.contains_key(header::CONTENT_LENGTH);
    if ambiguous || names > 0 && head.version != Version::HTTP_11 { Err(Broken::Coding) } else { Ok(chunked) }
}

/// The length that all headers agree on.
fn length(headers: &HeaderMap) -> Result<Option<u64>, Broken> {
    let mut agreed = None;
    for value in headers.get_all(header::CONTENT_LENGTH) {
        for text in value.to_str().map_err(|_| Broken::Length)?.split(',').map(str::trim) {
            // A number of this type is also read with a sign.
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let length = text.parse::<u64>().ok().filter(|_| digits).ok_or(Broken::Length)?;
            if agreed.is_some_and(|agreed| agreed != length) {
                return Err(Broken::Length);
            }
            agreed = Some(length);
        }
    }
    Ok(agreed)
}

/// Reads arbitrary bytes as an engine's answer, whole and in pieces. An entry point for fuzzers, which must never panic.
///
/// # Panics
///
/// If it depends on the pieces what is read.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_http_answer(bytes: &[u8]) {
    let uneven = bytes.iter().map(|byte| 1 + usize::from(byte % 16)).collect::<Vec<_>>();
    for head_only in [false, true] {
        let whole = read_in_pieces(bytes, &[bytes.len()], head_only);
        for sizes in [&[1][..], &uneven] {
            assert_eq!(read_in_pieces(bytes, sizes, head_only), whole, "{head_only}");
        }
    }
}

/// Everything that is read of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are compared, and nothing else")]
#[cfg(any(test, feature = "fuzzing"))]
struct Seen {
    head_only: bool,
    status: Option<StatusCode>,
    headers: HeaderMap,
    kept: bool,
    body: Vec<u8>,
    ended: bool,
    broken: bool,
}

#[cfg(any(test, feature = "fuzzing"))]
fn read_in_pieces(bytes: &[u8], sizes: &[usize], head_only: bool) -> Seen {
    let (mut seen, mut heads, mut framing) = (Seen { head_only, ..Seen::default() }, Heads::default(), None);
    let (mut read, mut rest) = (BytesMut::new(), bytes);
    for size in sizes.iter().cycle() {
        let (piece, others) = rest.split_at((*size).min(rest.len()));
        read.extend_from_slice(piece);
        match advance(&mut seen, &mut heads, &mut framing, &mut read) {
            Ok(()) if !others.is_empty() && !seen.ended => rest = others,
            Ok(()) => break,
            Err(_) => {
                seen.broken = true;
                break;
            }
        }
    }
    seen
}

#[cfg(any(test, feature = "fuzzing"))]
fn advance(
    seen: &mut Seen,
    heads: &mut Heads,
    framing: &mut Option<Framing>,
    read: &mut BytesMut,
) -> Result<(), Broken> {
    let framing = if let Some(framing) = framing {
        framing
    } else {
        let Some(head) = heads.take(read)? else { return Ok(()) };
        seen.status = Some(head.status);
        seen.kept = head.keeps_alive();
        let found = Framing::of(&head, seen.head_only);
        seen.headers = head.headers;
        framing.insert(found?)
    };
    loop {
        match framing.step(read)? {
            Step::Data(data) => seen.body.extend_from_slice(&data),
            Step::More => return Ok(()),
            Step::End => {
                seen.ended = true;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n";

    /// The body, with `true` if it ended.
    fn body(answer: &str) -> Result<(String, bool), String> {
        let seen = read_in_pieces(answer.as_bytes(), &[answer.len()], false);
        let body = String::from_utf8(seen.body).unwrap();
        if seen.broken { Err(body) } else { Ok((body, seen.ended)) }
    }

    fn framing(version: &str, status: u16, headers: &str) -> Result<Framing, Broken> {
        let text = format!("HTTP/1.{version} {status} x\r\n{headers}\r\n");
        Framing::of(&Heads::default().take(&mut BytesMut::from(&*text)).unwrap().unwrap(), false)
    }

    #[test]
    fn answers_are_the_same_in_any_pieces() {
        let chunks = format!("{CHUNKED}4;a=b\r\nabcd\r\n0A \r\n0123456789\r\n0\r\na: b\r\nc: d\r\n\r\nmore");
        for answer in ["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcdefgh", "HTTP/1.0 200 OK\r\n\r\nabc", &chunks] {
            let whole = read_in_pieces(answer.as_bytes(), &[answer.len()], false);
            for cut in 1..answer.len() {
                let pieces = read_in_pieces(answer.as_bytes(), &[cut, answer.len()], false);
                assert_eq!(pieces, whole, "{answer} at {cut}");
            }
            fuzz_http_answer(answer.as_bytes());
        }
        assert_eq!(body(&chunks).unwrap(), ("abcd0123456789".to_owned(), true));
    }

    #[test]
    fn surplus_bytes_stay() {
        let mut read = BytesMut::from("abcdef");
        let mut framing = Framing::Length(4);
        assert_eq!(framing.step(&mut read).unwrap(), Step::Data(Bytes::from_static(b"abcd")));
        assert_eq!((framing.step(&mut read).unwrap(), &read[..]), (Step::End, &b"ef"[..]));
    }

    #[test]
    fn the_head_decides_where_the_body_ends() {
        let chunked = Framing::Chunked(Chunked::Size);
        for (version, status, headers, expected) in [
            ("1", 200, "content-length: 5\r\n", Framing::Length(5)),
            ("1", 200, "content-length: 5, 5\r\ncontent-length: 5\r\n", Framing::Length(5)),
            ("1", 200, "content-length: 0\r\n", Framing::Ended),
            ("1", 204, "content-length: 5\r\n", Framing::Ended),
            ("1", 304, "transfer-encoding: chunked\r\n", Framing::Ended),
            ("1", 200, "transfer-encoding: chunked\r\ncontent-length: 5\r\n", chunked),
            ("1", 200, "transfer-encoding: chunked\r\nTransfer-Encoding: Chunked\r\n", chunked),
            ("1", 200, "transfer-encoding: chunked, identity, chunked\r\n", chunked),
            ("1", 200, "transfer-encoding: identity\r\n", Framing::UntilClose),
            ("1", 200, "transfer-encoding: identity\r\ncontent-length: 5\r\n", Framing::Length(5)),
            ("1", 200, "", Framing::UntilClose),
            ("0", 200, "", Framing::UntilClose),
        ] {
            assert_eq!(framing(version, status, headers).unwrap(), expected, "{headers}");
        }
        let mut read = BytesMut::from("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
        let head = Heads::default().take(&mut read).unwrap().unwrap();
        assert_eq!(Framing::of(&head, true).unwrap(), Framing::Ended);
    }

    #[test]
    fn ambiguous_heads_are_errors() {
        for value in ["5, 6", "", "+5", "-1", "5 5", "5,", "99999999999999999999", "5\r\ncontent-length: 6"] {
            let headers = format!("content-length: {value}\r\n");
            assert!(matches!(framing("1", 200, &headers), Err(Broken::Length)), "{value}");
        }
        for value in [
            "gzip",
            "gzip, chunked",
            "chunked, gzip",
            "chunked;a=b",
            "chunked,",
            "chunked, chunked\r\ncontent-length: 5",
            "chunked\r\ntransfer-encoding: chunked\r\ncontent-length: 5",
            "identity, chunked\r\ncontent-length: 5",
            "",
        ] {
            let headers = format!("transfer-encoding: {value}\r\n");
            assert!(matches!(framing("1", 200, &headers), Err(Broken::Coding)), "{value}");
        }
        assert!(matches!(framing("0", 200, "transfer-encoding: chunked\r\n"), Err(Broken::Coding)));
    }

    #[test]
    fn malformed_chunks_are_errors() {
        for (chunks, before) in [
            ("\r\n\r\n", ""),
            ("g", ""),
            ("1g\r\n", ""),
            ("1;\ra\r\n", ""),
            (" 1\r\na", ""),
            (";a\r\n", ""),
            ("1;a\nb\r\na", ""),
            ("1\na\r\n", ""),
            ("10000000000000000\r\n", ""),
            ("1\r\nab\r\n", "a"),
            ("1\r\na\n0\r\n\r\n", "a"),
            ("0\r\na: b\n\r\n", ""),
        ] {
            assert_eq!(body(&format!("{CHUNKED}{chunks}")), Err(before.to_owned()), "{chunks:?}");
        }
        for long in [format!("1;{}", "a".repeat(MOST_LINES)), format!("0\r\n{}", "a: b\r\n".repeat(MOST_LINES / 6 + 1))]
        {
            assert_eq!(body(&format!("{CHUNKED}{long}")), Err(String::new()));
        }
    }

    #[test]
    fn cut_bodies_are_errors() {
        for mut framing in [Framing::Length(1), Framing::Chunked(Chunked::Trailers(0))] {
            assert!(matches!(framing.close(), Err(Broken::Incomplete)));
        }
        let mut framing = Framing::UntilClose;
        framing.close().unwrap();
        assert_eq!(framing, Framing::Ended);
    }
}
