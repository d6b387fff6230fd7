//! Interface of the steps of the request path.

use std::future::Future;

use crate::types::Fault;

/// An answer to the client.
pub type Reply = http::Response<axum::body::Body>;

/// One step of the request path. It rejects the request, answers it, or passes a refined type to the next step.
pub trait Step<In>: Send + Sync + 'static {
    /// Processes the request.
    fn call(&self, request: In) -> impl Future<Output = Result<Reply, Fault>> + Send;
}
