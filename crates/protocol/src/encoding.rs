//! Content encodings of bodies: which ones are read, and a decoder that is fed piece by piece.
//!
//! A few bytes can decode to gigabytes. The decoder keeps nothing of its output but hands it on in small pieces, and
//! stops at a limit, which holds for every encoding of a chain.

use compression_codecs::{
    BrotliDecoder, DecodeV2, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
    core::util::{PartialBuffer, WriteBuffer},
    zstd::params::DParameter,
};
use http::{HeaderMap, header::CONTENT_ENCODING};

/// The encodings that are read, as `Accept-Encoding` names them.
pub const READABLE: &str = "gzip, deflate, br, zstd";

/// The most encodings of one body. Each multiplies the work.
const MOST: usize = 4;
/// Bytes of output that are handed on at a time.
const PIECE: usize = 16 << 10;
/// The largest window of zstd, as a power of two: its memory is taken before the first byte is decoded.
const ZSTD_WINDOW: u32 = 25;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The encodings of a body, in the order in which they were applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encodings(Vec<Encoding>);

/// A body has an encoding that is not read, or too many.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the content encoding '{0}' is not read here, only {READABLE}, and at most {MOST} of them")]
pub struct Unreadable(String);

/// The reason why a body was not decoded.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not what its encoding says, or was cut.
    #[error("the compressed body is damaged or cut")]
    Damaged,
    /// It decodes to more bytes than the limit.
    #[error("the compressed body is too large when decoded")]
    TooLarge,
    /// The receiver of the decoded bytes wants no more.
    #[error("the decoded body is not wanted")]
    Stopped,
}

impl Encodings {
    /// Reads the `Content-Encoding` headers.
    ///
    /// # Errors
    /// Fails if one of them is unknown, or if there are more than four.
    pub fn of(headers: &HeaderMap) -> Result<Self, Unreadable> {
        let mut found = Vec::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            for name in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                let encoding = match &*name.to_ascii_lowercase() {
                    b"" | b"identity" => continue,
                    b"gzip" | b"x-gzip" => Encoding::Gzip,
                    b"deflate" => Encoding::Deflate,
                    b"br" => Encoding::Brotli,
                    b"zstd" => Encoding::Zstd,
                    other => return Err(Unreadable(String::from_utf8_lossy(other).chars().take(80).collect())),
                };
                if found.len() == MOST {
                    return Err(Unreadable(String::from_utf8_lossy(value.as_bytes()).chars().take(80).collect()));
                }
                found.push(encoding);
            }
        }
        Ok(Self(found))
    }

    /// True if the body is not encoded.
    pub fn is_plain(&self) -> bool {
        self.0.is_empty()
    }

    /// A decoder of at most `most` bytes. It is built from the last encoding to the first.
    pub fn decoder(&self, most: u64) -> Decoder {
        Decoder(self.0.iter().rev().map(|encoding| Stage::new(*encoding, most)).collect())
    }
}

/// Decoder of one body.
pub struct Decoder(Vec<Stage>);

/// Decoder of one encoding.
struct Stage {
    encoding: Encoding,
    /// `None` until the first byte, which shows which of its two forms a body in `deflate` has.
    codec: Option<Codec>,
    /// The body, or a member of it, has ended.
    ended: bool,
    /// Bytes of output that are left.
    left: u64,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|stage| stage.encoding)).finish()
    }
}

type Codec = Box<dyn DecodeV2 + Send + Sync>;
type Take<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), DecodeError>;

impl Decoder {
    /// Decodes the next bytes of the body and passes them to `take`.
    ///
    /// # Errors
    /// Fails if they are damaged or too many, or with the error of `take`. The decoder must not be used after that.
    pub fn decode(&mut self, input: &[u8], take: Take<'_>) -> Result<(), DecodeError> {
        decode(&mut self.0, input, take)
    }

    /// Ends the body.
    ///
    /// # Errors
    /// Fails if it was cut, and as [`Self::decode`] does.
    pub fn finish(&mut self, take: Take<'_>) -> Result<(), DecodeError> {
        let mut stages = &mut self.0[..];
        while let Some((stage, rest)) = stages.split_first_mut() {
            stage.finish(&mut |piece| decode(rest, piece, take))?;
            stages = rest;
        }
        Ok(())
    }
}

fn decode(stages: &mut [Stage], input: &[u8], take: Take<'_>) -> Result<(), DecodeError> {
    match stages.split_first_mut() {
        None => take(input),
        Some((stage, rest)) => stage.decode(input, &mut |piece| decode(rest, piece, take)),
    }
}

impl Stage {
    fn new(encoding: Encoding, left: u64) -> Self {
        Self { encoding, codec: None, ended: false, left }
    }

    fn decode(&mut self, input: &[u8], take: Take<'_>) -> Result<(), DecodeError> {
        let Some(first) = input.first() else { return Ok(()) };
        let codec = self.codec.get_or_insert_with(|| codec(self.encoding, *first));
        let mut buffer = [0; PIECE];
        let mut input = PartialBuffer::new(input);
        while !input.unwritten().is_empty() {
            if self.ended {
                // A body may be several compressed ones in a row.
                if !matches!(self.encoding, Encoding::Gzip | Encoding::Zstd) {
                    return Err(DecodeError::Damaged);
                }
                codec.reinit().map_err(|_| DecodeError::Damaged)?;
                self.ended = false;
            }
            let mut output = WriteBuffer::new_initialized(&mut buffer);
            let before = input.written_len();
            self.ended = codec.decode(&mut input, &mut output).map_err(|_| DecodeError::Damaged)?;
            if output.written_len() == 0 && input.written_len() == before && !self.ended {
                return Err(DecodeError::Damaged);
            }
            let mut full = output.has_no_spare_space();
            pass(&mut self.left, output.written(), take)?;
            // A full piece may have left bytes in the decoder, although it took all of its input.
            while full && !self.ended && input.unwritten().is_empty() {
                let mut output = WriteBuffer::new_initialized(&mut buffer);
                codec.flush(&mut output).map_err(|_| DecodeError::Damaged)?;
                full = output.has_no_spare_space();
                pass(&mut self.left, output.written(), take)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, take: Take<'_>) -> Result<(), DecodeError> {
        let Some(codec) = &mut self.codec else { return Ok(()) };
        let mut buffer = [0; PIECE];
        while !self.ended {
            let mut output = WriteBuffer::new_initialized(&mut buffer);
            self.ended = codec.finish(&mut output).map_err(|_| DecodeError::Damaged)?;
            if output.written_len() == 0 && !self.ended {
                return Err(DecodeError::Damaged);
            }
            pass(&mut self.left, output.written(), take)?;
        }
        Ok(())
    }
}

/// The decoder of a body that begins with the byte `first`.
fn codec(encoding: Encoding, first: u8) -> Codec {
    match encoding {
        Encoding::Gzip => Box::new(GzipDecoder::new()),
        Encoding::Brotli => Box::new(BrotliDecoder::new()),
        Encoding::Zstd => Box::new(ZstdDecoder::new_with_params(&[DParameter::window_log_max(ZSTD_WINDOW)])),
        // Clients disagree whether `deflate` has the header of zlib. Its first byte names the method 8 and a window of
        // at most 7; a raw body that begins so would be a stored block with odd padding.
        Encoding::Deflate if first & 0x0f == 8 && first >> 4 <= 7 => Box::new(ZlibDecoder::new()),
        Encoding::Deflate => Box::new(DeflateDecoder::new()),
    }
}

fn pass(left: &mut u64, piece: &[u8], take: Take<'_>) -> Result<(), DecodeError> {
    *left = left.checked_sub(piece.len() as u64).ok_or(DecodeError::TooLarge)?;
    if piece.is_empty() { Ok(()) } else { take(piece) }
}

/// Fuzz target: reads arbitrary bytes as a body in every encoding, whole and byte by byte.
///
/// # Panics
/// If it depends on the pieces what is decoded, or if the limit is passed.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_encoding(input: &[u8]) {
    const LIMIT: usize = 1 << 18;
    for encoding in [Encoding::Gzip, Encoding::Deflate, Encoding::Brotli, Encoding::Zstd] {
        let read = |size: usize| {
            let (mut decoder, mut out) = (Encodings(vec![encoding]).decoder(LIMIT as u64), Vec::new());
            let mut take = |piece: &[u8]| {
                out.extend_from_slice(piece);
                Ok(())
            };
            let all = input.chunks(size.max(1)).try_for_each(|piece| decoder.decode(piece, &mut take));
            let ended = all.and_then(|()| decoder.finish(&mut take));
            assert!(out.len() <= LIMIT);
            ended.map(|()| out)
        };
        assert_eq!(read(input.len()).ok(), read(1).ok(), "{encoding:?}");
    }
}

#[cfg(test)]
mod tests {
    use compression_codecs::{
        BrotliEncoder, DeflateEncoder, EncodeV2, GzipEncoder, ZlibEncoder, ZstdEncoder, brotli::params::EncoderParams,
        core::Level, flate::params::FlateEncoderParams,
    };

    use super::*;

    fn encoded(mut encoder: impl EncodeV2, text: &[u8]) -> Vec<u8> {
        let mut buffer = vec![0; text.len() + 1024];
        let mut output = WriteBuffer::new_initialized(&mut buffer);
        let mut input = PartialBuffer::new(text);
        while !input.unwritten().is_empty() {
            encoder.encode(&mut input, &mut output).unwrap();
        }
        while !encoder.finish(&mut output).unwrap() {}
        output.written().to_vec()
    }

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (CONTENT_ENCODING, value.parse().unwrap())).collect()
    }

    fn decoded(encoding: &str, body: &[u8], most: u64) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = Encodings::of(&headers(&[encoding])).unwrap().decoder(most);
        let mut out = Vec::new();
        let mut take = |piece: &[u8]| {
            out.extend_from_slice(piece);
            Ok(())
        };
        body.chunks(7).try_for_each(|piece| decoder.decode(piece, &mut take))?;
        decoder.finish(&mut take)?;
        Ok(out)
    }

    fn flate() -> FlateEncoderParams {
        Level::Default.into()
    }

    /// The text in every encoding, with the encoding's name.
    fn all(text: &[u8]) -> [(&'static str, Vec<u8>); 5] {
        [
            ("gzip", encoded(GzipEncoder::new(flate()), text)),
            ("deflate", encoded(ZlibEncoder::new(flate()), text)),
            ("DEFLATE", encoded(DeflateEncoder::new(flate()), text)),
            ("br", encoded(BrotliEncoder::new(EncoderParams::default()), text)),
            ("zstd", encoded(ZstdEncoder::new(3), text)),
        ]
    }

    #[test]
    fn every_encoding_is_decoded_and_bounded() {
        let long: Vec<u8> = (0..20_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for text in [&b"{}"[..], b"", &long] {
            let size = text.len() as u64;
            for (encoding, body) in all(text) {
                assert!(decoded(encoding, &body, size).as_deref() == Ok(text), "{encoding} of {size}");
                fuzz_encoding(&body[..body.len().min(4096)]);
                if size > 0 {
                    assert_eq!(decoded(encoding, &body, size - 1), Err(DecodeError::TooLarge), "{encoding}");
                    assert_eq!(
                        decoded(encoding, &body[..body.len() - 1], size),
                        Err(DecodeError::Damaged),
                        "{encoding}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_body_of_zeros_ends_at_the_limit() {
        for (encoding, body) in all(&vec![0; 1 << 20]) {
            let mut taken = 0;
            let mut decoder = Encodings::of(&headers(&[encoding])).unwrap().decoder(1 << 17);
            let found = decoder.decode(&body, &mut |piece| {
                taken += piece.len();
                Ok(())
            });
            assert_eq!((found, taken), (Err(DecodeError::TooLarge), 1 << 17), "{encoding}");
            let mut decoder = Encodings::of(&headers(&[encoding])).unwrap().decoder(u64::MAX);
            assert_eq!(decoder.decode(&body, &mut |_| Err(DecodeError::Stopped)), Err(DecodeError::Stopped));
        }
    }

    #[test]
    fn encodings_follow_each_other() {
        let inner = encoded(GzipEncoder::new(flate()), b"{\"a\":1}");
        let both = encoded(ZstdEncoder::new(1), &inner);
        assert_eq!(decoded("gzip, identity ,ZSTD", &both, 1000).as_deref(), Ok(&b"{\"a\":1}"[..]));
        assert_eq!(decoded("zstd, gzip", &both, 1000), Err(DecodeError::Damaged));
        let twice = Encodings::of(&headers(&["gzip", "x-gzip"])).unwrap();
        assert_eq!(twice, Encodings::of(&headers(&["gzip,gzip"])).unwrap());
        assert_eq!(decoded("", b"as it is", 8).as_deref(), Ok(&b"as it is"[..]));
        assert!(Encodings::of(&headers(&["identity", "Identity, "])).unwrap().is_plain());
        for odd in ["compress", "gzip, x", "gzip,gzip,gzip,gzip,gzip", "gzip;q=1"] {
            let error = Encodings::of(&headers(&[odd])).unwrap_err().to_string();
            assert!(error.contains("gzip, deflate, br, zstd"), "{error}");
        }
    }

    #[test]
    fn members_follow_each_other_and_other_bytes_are_damage() {
        for (encoding, body) in all(b"ab") {
            let row = [&body[..], &body].concat();
            let may_repeat = matches!(encoding, "gzip" | "zstd");
            let want = if may_repeat { Ok(&b"abab"[..]) } else { Err(DecodeError::Damaged) };
            assert_eq!(decoded(encoding, &row, 4).as_deref().map_err(|error| *error), want, "{encoding}");
            assert_eq!(decoded(encoding, &[&body[..], b"x"].concat(), 4), Err(DecodeError::Damaged), "{encoding}");
            assert_eq!(decoded(encoding, b"{\"model\":1}", 400), Err(DecodeError::Damaged), "{encoding}");
        }
    }
}
