//! OpenTelemetry export over OTLP: completed requests become spans and measurements, sent from separate threads.
//!
//! Spans are built from the settled record, all at once, and never while a request is served: the request carries only
//! the ids of its trace, and an untraced request costs nothing.

#![forbid(unsafe_code)]

mod completed;
mod export_state;
#[cfg(feature = "otel")]
mod exporter;
#[cfg(feature = "otel")]
mod http;
#[cfg(feature = "otel")]
mod sampler;
#[cfg(feature = "otel")]
mod settings;
#[cfg(feature = "otel")]
mod span_queue;
#[cfg(not(feature = "otel"))]
mod without;

#[cfg(feature = "otel")]
pub use self::exporter::Exporter;
#[cfg(not(feature = "otel"))]
pub use self::without::Exporter;
pub use self::{
    completed::{Kind, Measured, Span, Tokens, Value},
    export_state::ExportState,
};

/// The exporter could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("OpenTelemetry cannot be exported: {0}")]
pub struct SetUpError(String);
