//! Trace of a request in flight: its ids, and the times of its steps. [`spans`](super::spans) builds the spans when the request is over.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue};

use crate::{
    otel::Exporter,
    protocol::TraceContext,
    types::{Moment, wall_clock::since_1970},
};

pub(super) struct Traced {
    pub(super) exporter: Arc<Exporter>,
    /// Span of the request itself.
    pub(super) context: TraceContext,
    /// Span of the caller, if it sent one.
    pub(super) parent: Option<u64>,
    /// Time of arrival by the wall clock.
    pub(super) began: Duration,
}

/// A step that is over, with its time.
#[derive(Copy, Clone)]
pub(super) struct Timed {
    pub(super) name: &'static str,
    pub(super) began: Moment,
    pub(super) ended: Moment,
}

impl Traced {
    /// Starts the trace of a request with these `headers`, within its caller's trace or a new one.
    pub(super) fn begin(exporter: Arc<Exporter>, headers: &HeaderMap) -> Self {
        let given = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(TraceContext::parse);
        let trace = given.map_or_else(|| fastrand::u128(1..), |given| given.trace);
        let sampled = given.map_or_else(|| fastrand::f64() < exporter.sample(), |given| given.sampled);
        let context = TraceContext { trace, span: fastrand::u64(1..), sampled };
        Self { exporter, context, parent: given.map(|given| given.span), began: since_1970() }
    }

    /// Context of an attempt's span, by its number.
    pub(super) fn attempt(&self, number: usize) -> TraceContext {
        let span = self.context.span.wrapping_add(1 + number as u64).max(1);
        TraceContext { span, ..self.context }
    }

    /// Adds the trace context to the headers of an attempt.
    pub(super) fn put(&self, number: usize, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::try_from(self.attempt(number).to_string()) {
            headers.insert("traceparent", value);
        }
    }
}
