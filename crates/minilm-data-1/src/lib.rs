//! The first part of the compressed weights of `signalbox-minilm`.

#![forbid(unsafe_code)]

/// Bytes of a deflate stream, to be followed by the other parts.
pub static PART: &[u8] = include_bytes!("../weights-1.bin");
