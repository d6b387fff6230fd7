//! The second part of the compressed weights of `signalbox-minilm`.

#![forbid(unsafe_code)]

/// Bytes of a deflate stream, between the other parts.
pub static PART: &[u8] = include_bytes!("../weights-2.bin");
