//! Detects failures that two backends share.
//!
//! Some engines answer a bad request with a status that blames themselves (llama.cpp: 501 for embeddings on a chat
//! model, 500 for a message without a role). If two backends fail the same way, the request is at fault.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::StatusCode;
use serde_json::Value;

use signalbox_types::{Blame, Fault};

/// A failure without the parts that differ between responses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Likeness {
    status: StatusCode,
    message: u64,
}

impl Likeness {
    /// True if breakers count such a failure.
    pub(super) fn is_counted(self) -> bool {
        self.status == StatusCode::INTERNAL_SERVER_ERROR
    }
}

/// Returns the likeness of a failure that the request may have caused: an internal error (500, 501) with a readable
/// message. Statuses that report load or a fault between the gateway and the engine (429, 502, 503, 504) say nothing
/// about the request.
pub(super) fn likeness(fault: &Fault) -> Option<Likeness> {
    let status = fault.status;
    if fault.blame != Blame::Upstream
        || !matches!(status, StatusCode::INTERNAL_SERVER_ERROR | StatusCode::NOT_IMPLEMENTED)
    {
        return None;
    }
    let body: Value = serde_json::from_slice(&fault.unmasked.as_ref()?.body).ok()?;
    let error = body.get("error").unwrap_or(&body);
    let message =
        [error.get("message"), error.get("detail"), Some(error)].into_iter().flatten().find_map(Value::as_str)?;
    let mut hasher = DefaultHasher::new();
    // Ids, times and counts differ between responses.
    message.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).for_each(|word| word.hash(&mut hasher));
    Some(Likeness { status, message: hasher.finish() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::fault::Unmasked;

    fn fault(status: u16, body: &'static str) -> Fault {
        let unmasked = Some(Unmasked { headers: http::HeaderMap::new(), body: body.into() }.into());
        let status = StatusCode::from_u16(status).unwrap();
        Fault { unmasked, ..Fault::upstream(status, "upstream_error", "") }
    }

    #[test]
    fn failures_are_alike_but_for_numbers() {
        let of = |status, body| likeness(&fault(status, body));
        let known = of(500, r#"{"error":{"message":"message 3 has no role (request 91)","code":500}}"#);
        assert!(known.is_some());
        assert_eq!(known, of(500, r#"{"error":{"message":"message 7 has no role (request 12)"}}"#));
        assert_eq!(known, of(500, r#"{"message":"message 7 has no role (request 12)"}"#));
        assert_ne!(known, of(501, r#"{"message":"message 7 has no role (request 12)"}"#));
        assert_ne!(known, of(500, r#"{"detail":"out of memory"}"#));
        for (status, body) in [(503, r#"{"detail":"x"}"#), (429, r#"{"detail":"x"}"#), (500, "<html>"), (500, "{}")] {
            assert_eq!(of(status, body), None, "{status} {body}");
        }
    }
}
