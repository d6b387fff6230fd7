//! The state that a provider wants back with a call or its reasoning, at its place in a request to that provider.

use bytes::Bytes;
use http::StatusCode;

use super::answer_form::off_worker;
use crate::stages::Call;
use signalbox_fleet::Pool;
use signalbox_translation::unpacked;
use signalbox_types::{Endpoint, Fault};

/// The `body` of a request with the state that the translation of `call` marked in it, if it came from this pool.
///
/// # Errors
/// If a long body could not be read.
pub(super) async fn in_place(call: &Call, endpoint: Endpoint, pool: &Pool, body: Bytes) -> Result<Bytes, Fault> {
    if !call.carries_state || endpoint != Endpoint::Chat {
        return Ok(body);
    }
    let (length, pool) = (body.len(), pool.spec.name.clone());
    let unpack = move || unpacked(&body, &pool).map_or(body, Bytes::from);
    let failed = || Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "reading the body failed");
    off_worker(length, unpack).await.ok_or_else(failed)
}
