//! Decompresses answers that an engine compressed without being asked, so that all of the gateway reads plain bytes.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, header};
use http_body::{Body, Frame};

use super::received_body::{BodyError, ReceivedBody};
use signalbox_protocol::encoding::{DecodeError, Decoder, Encodings};

/// Bytes that are decoded at a time. They bound what a step can come to.
const STEP: usize = 1 << 10;
/// Bytes of output after which a frame is handed on.
const FRAME: usize = 16 << 10;
/// The most output of one step. Only data made to exhaust memory has more.
const MOST: usize = 4 << 20;

/// Reads a body in another encoding.
#[derive(Debug)]
pub(super) struct Decoded {
    inner: ReceivedBody,
    decoder: Option<Decoder>,
    /// Encoded bytes that were received.
    input: Bytes,
    output: BytesMut,
}

/// True if the answer to this request may be decoded: its sender did not ask for an encoding.
pub(super) fn is_unasked(method: &Method, headers: &HeaderMap) -> bool {
    *method != Method::HEAD && !headers.contains_key(header::ACCEPT_ENCODING)
}

impl Decoded {
    /// Decodes `inner`.
    pub(super) fn new(inner: ReceivedBody, encodings: &Encodings) -> Self {
        Self { inner, decoder: Some(encodings.decoder(u64::MAX)), input: Bytes::new(), output: BytesMut::new() }
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            while !self.input.is_empty() && self.output.len() < FRAME {
                let step = self.input.split_to(self.input.len().min(STEP));
                self.decode(|decoder, take| decoder.decode(&step, take))?;
            }
            if !self.output.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(self.output.split().freeze()))));
            }
            if self.decoder.is_none() {
                return Poll::Ready(None);
            }
            if let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
                // Trailers speak of the encoded body.
                self.input = frame?.into_data().unwrap_or_default();
            } else {
                self.decode(Decoder::finish)?;
                self.decoder = None;
            }
        }
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.decoder.is_none() && self.output.is_empty()
    }

    fn decode(
        &mut self,
        read: impl FnOnce(&mut Decoder, &mut dyn FnMut(&[u8]) -> Result<(), DecodeError>) -> Result<(), DecodeError>,
    ) -> Result<(), BodyError> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let most = self.output.len() + MOST;
        let output = &mut self.output;
        let done = read(decoder, &mut |piece| {
            if output.len() + piece.len() > most {
                return Err(DecodeError::TooLarge);
            }
            output.extend_from_slice(piece);
            Ok(())
        });
        done.map_err(|error| {
            self.decoder = None;
            self.input.clear();
            BodyError::Encoded(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Response};
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::answer_body::{AnswerBody, plain};

    /// `data: a` and an empty line, then `data: b` and one, in gzip, each flushed.
    const EVENTS: [&[u8]; 2] = [FIRST, SECOND];
    const FIRST: &[u8] =
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4a\x49\x2c\x49\xb4\x52\x48\xe4\xe2\x02\x00\x00\x00\xff\xff";
    const SECOND: &[u8] = b"\x4b\x01\x33\x92\xb8\xb8\x00\xba\x59\xc7\xdf\x12\x00\x00\x00";

    fn answer(encoding: &str, pieces: &[&'static [u8]]) -> Response<AnswerBody> {
        let pieces = pieces.iter().map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece))).collect::<Vec<_>>();
        let body = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
        let mut answer = Response::new(AnswerBody::from(body));
        answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_str(encoding).unwrap());
        answer.headers_mut().insert(header::CONTENT_LENGTH, 5.into());
        plain(answer)
    }

    #[tokio::test]
    async fn events_are_handed_on_as_they_arrive() {
        let mut answer = answer("gzip", &EVENTS);
        assert!(answer.headers().is_empty());
        for want in ["data: a\n\n", "data: b\n\n"] {
            let frame = answer.body_mut().frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), want);
        }
        assert!(answer.body_mut().frame().await.is_none() && answer.body().is_end_stream());
    }

    #[tokio::test]
    async fn cut_bodies_are_errors_and_unknown_encodings_pass() {
        let cut = answer("gzip", &EVENTS[..1]).into_body().collect().await;
        assert!(matches!(cut, Err(BodyError::Encoded(DecodeError::Damaged))), "{cut:?}");
        let other = answer("x-odd", &[b"as it is"]);
        assert_eq!(other.headers().len(), 2);
        assert_eq!(other.into_body().collect().await.unwrap().to_bytes(), "as it is");
        let none = answer("identity", &[b"as it is"]);
        assert_eq!(none.headers().keys().map(http::HeaderName::as_str).collect::<Vec<_>>(), ["content-length"]);
        assert!(answer("br", &[]).into_body().collect().await.unwrap().to_bytes().is_empty());
    }

    #[test]
    fn answers_to_callers_who_ask_for_an_encoding_stay() {
        let mut headers = HeaderMap::new();
        assert!(is_unasked(&Method::POST, &headers) && !is_unasked(&Method::HEAD, &headers));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(!is_unasked(&Method::GET, &headers));
    }
}
