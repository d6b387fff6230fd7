//! Decompresses request bodies. The steps after it and the engine see the plain body.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use tokio::sync::Semaphore;

use super::{
    body_fault::{BAD_ENCODING, too_large},
    body_memory::{BodyMemory, Share},
};
use signalbox_protocol::encoding::{DecodeError, Encodings};
use signalbox_types::Fault;

/// Bounds the threads that decompress bodies.
static PLACES: Semaphore = Semaphore::const_new(8);

/// Memory that a body may take, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// The most of this body.
    pub(super) one: usize,
    /// The most of all bodies.
    pub(super) all: usize,
}

/// Reads the encodings of a body. Called before the body is read, so that one that cannot be decoded is not awaited.
///
/// # Errors
/// Fails with 415 if one of them is unknown.
pub(super) fn encodings(headers: &HeaderMap) -> Result<Encodings, Fault> {
    Encodings::of(headers).map_err(|error| {
        let message = format!("{error}: send the body plain, or in one of these");
        Fault::client(StatusCode::UNSUPPORTED_MEDIA_TYPE, BAD_ENCODING, message).with_code("unsupported_encoding")
    })
}

/// Decompresses a body, and removes the headers that speak of its compressed form. A few bytes can take long: that runs
/// on a blocking thread.
///
/// # Errors
/// Fails with 413 if the body is larger than `room` when decoded, with 400 if it is damaged, and with 503 if all bodies
/// together take too much memory.
pub(super) async fn unpack(
    encodings: Encodings,
    headers: &mut HeaderMap,
    body: Bytes,
    room: Room,
    held: &Arc<BodyMemory>,
) -> Result<Bytes, Fault> {
    headers.remove(header::CONTENT_ENCODING);
    if encodings.is_plain() {
        return Ok(body);
    }
    headers.remove(header::CONTENT_LENGTH);
    let failed = || Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "decompressing the body failed");
    let share = Share::new(held.clone());
    let _place = PLACES.acquire().await.map_err(|_| failed())?;
    tokio::task::spawn_blocking(move || decoded(&encodings, &body, room, share)).await.map_err(|_| failed())?
}

fn decoded(encodings: &Encodings, body: &[u8], room: Room, mut share: Share) -> Result<Bytes, Fault> {
    let mut decoder = encodings.decoder(room.one as u64);
    let (mut out, mut full) = (Vec::new(), None);
    let mut take = |piece: &[u8]| {
        share.grow(piece.len(), room.all).map_err(|fault| {
            full = Some(fault);
            DecodeError::Stopped
        })?;
        out.extend_from_slice(piece);
        Ok(())
    };
    let all = decoder.decode(body, &mut take).and_then(|()| decoder.finish(&mut take));
    match (all, full) {
        (Ok(()), _) => Ok(share.of(out.into())),
        (Err(_), Some(fault)) => Err(fault),
        (Err(DecodeError::TooLarge), None) => Err(too_large(room.one)),
        (Err(error), None) => {
            let message = format!("{error}: compress it anew, or send it without 'Content-Encoding'");
            Err(Fault::client(StatusCode::BAD_REQUEST, "bad_compression", message).with_code("invalid_encoding"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a":1}` in gzip.
    const PACKED: &[u8] =
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xabVJT\xb22\xac\x05\x00\xaf\xac\x1bV\x07\x00\x00\x00";

    async fn unpacked(encoding: &'static str, body: &'static [u8], one: usize, all: usize) -> Result<Bytes, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        let held = Arc::default();
        let encodings = encodings(&headers)?;
        let found = unpack(encodings, &mut headers, Bytes::from_static(body), Room { one, all }, &held).await;
        assert!(!headers.contains_key(header::CONTENT_ENCODING));
        found
    }

    #[tokio::test]
    async fn a_body_is_decoded_within_its_room() {
        assert_eq!(unpacked("gzip", PACKED, 7, 64).await.unwrap(), &b"{\"a\":1}"[..]);
        assert_eq!(unpacked("Identity", b"x", 1, 1).await.unwrap(), &b"x"[..]);
        for (encoding, body, one, all, status) in [
            ("gzip", PACKED, 6, 64, 413),
            ("gzip", PACKED, 7, 6, 503),
            ("gzip", &PACKED[..PACKED.len() - 1], 7, 64, 400),
            ("zstd", PACKED, 7, 64, 400),
            ("compress", PACKED, 7, 64, 415),
        ] {
            assert_eq!(unpacked(encoding, body, one, all).await.unwrap_err().status, status, "{encoding}");
        }
    }
}
