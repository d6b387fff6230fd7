//! Whether a request comes from a page of our own: buttons for operators are not for other sites' pages.

use http::{HeaderMap, header};

/// Whether what a browser says of its page is this listener's own.
pub(super) fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match (text(header::ORIGIN), text(header::HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, origin)| origin == host),
        _ => false,
    }
}
