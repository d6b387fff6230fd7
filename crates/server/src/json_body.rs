//! Bodies of requests to the admin API: JSON of a limited size, refused in the form of all its errors.

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    response::Response,
};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::keys::refuse;

/// Largest body, in bytes.
pub(super) const LARGEST: usize = 64 << 10;

/// A body read as JSON.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let body = Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
            status @ StatusCode::PAYLOAD_TOO_LARGE => refuse(
                status,
                &format!(
                    "the body is larger than {} KiB (1 MiB for /admin/explain and /admin/playground)",
                    LARGEST >> 10
                ),
            ),
            status => refuse(status, &rejection.body_text()),
        })?;
        serde_json::from_slice(&body).map(Self).map_err(|error| {
            refuse(StatusCode::BAD_REQUEST, &format!("the body is not the JSON that is expected: {error}"))
        })
    }
}
