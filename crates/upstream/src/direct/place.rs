//! Requests to an engine in the form in which they are sent.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header, uri::PathAndQuery};

use super::super::outgoing::SendError;

/// An engine's place and what is asked of it, if a plain connection can carry that.
#[derive(Debug)]
pub(in super::super) struct Place<'a> {
    pub(in super::super) authority: &'a str,
    pub(super) target: PathAndQuery,
}

/// A request, ready to be sent. It has no `Debug`: its head holds keys.
pub(in super::super) struct Request {
    pub(super) head: Bytes,
    pub(super) body: Bytes,
    /// True if an answer to it has no body, whatever its head announces.
    pub(super) head_only: bool,
}

impl<'a> Place<'a> {
    /// Reads `url`. `None` for URLs that need TLS or credentials, or that a URL library would write in another way.
    pub(in super::super) fn of(url: &'a str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let (authority, target) = rest.split_at(rest.find('/')?);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&()*+,;=:@/%?".contains(&byte);
        let host = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:[]".contains(&byte);
        if authority.is_empty() || !authority.bytes().all(host) || !target.bytes().all(plain) {
            return None;
        }
        Some(Self { authority, target: target.parse().ok()? })
    }
}

/// The request with these parts for an engine at `place`.
pub(in super::super) fn request(
    place: &Place<'_>,
    method: &Method,
    mut headers: HeaderMap,
    body: Bytes,
) -> Result<Request, SendError> {
    let Place { authority, target } = place;
    let host = HeaderValue::from_str(authority.strip_suffix(":80").unwrap_or(authority));
    let host = host.map_err(|error| SendError::Connect(error.to_string()))?;
    headers.entry(header::HOST).or_insert(host);
    headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    // The body is sent as it is: its length alone delimits it.
    headers.remove(header::TRANSFER_ENCODING);
    headers.remove(header::CONTENT_LENGTH);
    if !body.is_empty() || [Method::POST, Method::PUT, Method::PATCH].contains(method) {
        headers.insert(header::CONTENT_LENGTH, body.len().into());
    }
    let head = write(method.as_str(), target.as_str(), &headers);
    Ok(Request { head, body, head_only: method == Method::HEAD })
}

fn write(method: &str, target: &str, headers: &HeaderMap) -> Bytes {
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    let frame = method.len() + target.len() + "  HTTP/1.1\r\n\r\n".len();
    let mut head = BytesMut::with_capacity(frame + lines.sum::<usize>());
    for part in [method, " ", target, " HTTP/1.1\r\n"] {
        head.put_slice(part.as_bytes());
    }
    for (name, value) in headers {
        head.put_slice(name.as_str().as_bytes());
        head.put_slice(b": ");
        head.put_slice(value.as_bytes());
        head.put_slice(b"\r\n");
    }
    head.put_slice(b"\r\n");
    head.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_urls_alone_are_carried() {
        let place = |url| Place::of(url).map(|place| (place.authority, place.target.to_string()));
        assert_eq!(place("http://a:1/b?c=d"), Some(("a:1", "/b?c=d".to_owned())));
        assert_eq!(place("http://[::1]:1/"), Some(("[::1]:1", "/".to_owned())));
        for other in
            ["https://a/b", "http://a", "http://u:p@a/b", "http://A/b", "http://a/ä", "http://a/'", "http:///b"]
        {
            assert_eq!(place(other), None, "{other}");
        }
    }

    fn head(method: &Method, headers: &[(&'static str, &'static str)], body: &'static str) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let place = Place::of("http://a:80/b?c").unwrap();
        let request = request(&place, method, map, Bytes::from_static(body.as_bytes())).unwrap();
        assert_eq!(request.head_only, method == Method::HEAD);
        String::from_utf8(request.head.to_vec()).unwrap()
    }

    #[test]
    fn heads_have_the_length_of_their_body_alone() {
        let get = "GET /b?c HTTP/1.1\r\nhost: a\r\naccept: */*\r\n\r\n";
        assert_eq!(head(&Method::GET, &[], ""), get);
        assert_eq!(head(&Method::HEAD, &[], ""), get.replacen("GET", "HEAD", 1));
        let post = "POST /b?c HTTP/1.1\r\nx: 1\r\nx: 2\r\naccept: a/b\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(head(&Method::POST, &[("x", "1"), ("x", "2"), ("accept", "a/b")], ""), post);
        let framed = head(&Method::DELETE, &[("transfer-encoding", "chunked"), ("content-length", "9")], "ab");
        let lengths: Vec<_> = framed.lines().filter(|line| line.contains("length") || line.contains("ing")).collect();
        assert_eq!(lengths, ["content-length: 2"]);
    }
}
