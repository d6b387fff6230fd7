//! Faults of request bodies that several steps report.

use http::StatusCode;

use signalbox_types::Fault;

/// Kind of a fault caused by an encoding that is not read.
pub(super) const BAD_ENCODING: &str = "bad_encoding";

/// The fault of a body that is larger than `limit` bytes.
pub(super) fn too_large(limit: usize) -> Fault {
    let message = format!("the body is larger than the {limit} bytes that are taken here (limits.body, or less)");
    Fault::client(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message).with_code("body_too_large")
}
