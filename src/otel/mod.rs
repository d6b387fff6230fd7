//! OpenTelemetry: what is known of a request when it is over goes out as spans and measurements, over OTLP, from threads of their own.
//!
//! Spans are made of the settled record, all at once, and never while a request is being served: so that nothing of a trace is carried
//! through the walk but its ids, and a request that is not traced pays nothing.

#[cfg(feature = "otel")]
mod exporter;
#[cfg(feature = "otel")]
mod http;
mod measured;
mod span;
#[cfg(not(feature = "otel"))]
mod without;

#[cfg(feature = "otel")]
pub use self::exporter::Exporter;
#[cfg(not(feature = "otel"))]
pub use self::without::Exporter;
pub use self::{
    measured::{Measured, Tokens},
    span::{Kind, Span, Value},
};

/// The exporter could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("OpenTelemetry cannot be exported: {0}")]
pub struct SetUpError(String);
