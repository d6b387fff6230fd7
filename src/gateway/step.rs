//! What every step of the walk is.

use std::future::Future;

use crate::types::Fault;

/// An answer on its way to the client.
pub type Reply = http::Response<axum::body::Body>;

/// One step of the walk: it refuses, answers, or hands a richer request to the next one.
pub trait Step<In>: Send + Sync + 'static {
    /// Takes the request one step further.
    fn call(&self, request: In) -> impl Future<Output = Result<Reply, Fault>> + Send;
}
