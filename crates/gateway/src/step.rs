//! Interface of the steps of the request path.

use std::future::Future;

use futures_util::future::BoxFuture;

use signalbox_types::Fault;

/// An answer to the client.
pub type Reply = http::Response<axum::body::Body>;

/// One step of the request path. It rejects the request, answers it, or passes a refined type to the next step.
pub trait Step<In>: Send + Sync + 'static {
    /// Processes the request.
    fn call(&self, request: In) -> impl Future<Output = Result<Reply, Fault>> + Send;

    /// Processes the request in a future of its own on the heap. A future contains those that it awaits, and is moved when
    /// it is made: unboxed, each step would move the futures of all later ones, half a megabyte for a request.
    fn boxed(&self, request: In) -> BoxFuture<'_, Result<Reply, Fault>>
    where
        In: 'static,
    {
        Box::pin(self.call(request))
    }
}
