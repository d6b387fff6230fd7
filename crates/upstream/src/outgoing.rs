//! A request to an engine, and the reasons why it has no answer.

use bytes::Bytes;
use http::{HeaderMap, Method};

/// A request to be sent upstream.
#[derive(Clone, Debug)]
pub struct Outgoing<B = Bytes> {
    /// Its method.
    pub method: Method,
    /// Its full URL.
    pub url: String,
    /// Its headers, without framing.
    pub headers: HeaderMap,
    /// Its body.
    pub body: B,
}

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No connection could be established.
    #[error("no connection: {0}")]
    Connect(String),
    /// This process may open no more descriptors.
    #[error("this process may open no more files")]
    NoDescriptor,
    /// The connection ended before the first byte of an answer.
    #[error("the connection ended before an answer: {0}")]
    Lost(String),
}

impl SendError {
    /// The connection failed because of `error`.
    pub(super) fn connect(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut innermost = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        match innermost.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error) {
            Some(code) if NO_DESCRIPTOR.contains(&code) => Self::NoDescriptor,
            _ => Self::Connect(causes(error)),
        }
    }
}

/// `ENFILE` and `EMFILE` (Linux, macOS and the BSDs).
const NO_DESCRIPTOR: [i32; 2] = [23, 24];

/// The innermost cause, without the address: callers see names of backends, never their addresses.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let cause = innermost.to_string();
    // For a certificate of another name the message contains both names; callers see only the first part.
    match cause.split_once(" for name ") {
        Some((what, _)) => {
            tracing::debug!(%error, cause, "upstream: the certificate is for another name: check the engine's URL");
            what.to_owned()
        }
        None => cause,
    }
}
