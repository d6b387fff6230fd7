//! Reasons why an answer over a plain connection broke off.

use std::io;

/// An answer could not be read to its end.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The request could not be written, and no answer came.
    #[error("the request could not be sent: {0}")]
    Unsent(#[source] io::Error),
    /// The connection ended before the head was complete.
    #[error("connection closed before message completed")]
    Closed,
    /// The connection ended within the body.
    #[error("end of file before message length reached")]
    Incomplete,
    /// The head is not HTTP/1.
    #[error("invalid head: {0}")]
    Head(#[from] httparse::Error),
    /// The head has too many bytes.
    #[error("the head is too long")]
    LongHead,
    /// The connection was switched to another protocol, which nobody asked for.
    #[error("unexpected switch to another protocol")]
    Switched,
    /// The head has a length that is no number, or several lengths.
    #[error("invalid content-length")]
    Length,
    /// The body is encoded for transfer in another way than in chunks.
    #[error("unknown transfer-encoding")]
    Coding,
    /// Its chunks, or the lines after them, are malformed.
    #[error("invalid chunk")]
    Chunk,
}
