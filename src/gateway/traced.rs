//! A request's trace while the request is under way: its ids, and when its steps began and ended. The spans are made when it is over
//! ([`spans`](super::spans)).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderMap, HeaderValue};

use crate::{
    measure::lock,
    otel::Exporter,
    protocol::TraceContext,
    types::{Moment, wall_clock::since_1970},
};

/// Most steps that are kept of one request: one that goes on and on is no reason to grow without end.
const MOST_STEPS: usize = 64;

/// The trace of a request.
pub(super) struct Traced {
    pub(super) exporter: Arc<Exporter>,
    /// The request's own span.
    pub(super) context: TraceContext,
    /// The caller's span.
    pub(super) parent: Option<u64>,
    /// When it came, by the wall clock.
    pub(super) began: Duration,
    steps: Mutex<Vec<Took>>,
}

/// A step that is over.
#[derive(Copy, Clone)]
pub(super) struct Took {
    pub(super) name: &'static str,
    pub(super) began: Moment,
    pub(super) ended: Moment,
}

impl Traced {
    /// Of a request with these `headers`, in its caller's trace or a new one.
    pub(super) fn begin(exporter: Arc<Exporter>, headers: &HeaderMap) -> Self {
        let given = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(TraceContext::parse);
        let trace = given.map_or_else(|| fastrand::u128(1..), |given| given.trace);
        let sampled = given.map_or_else(|| fastrand::f64() < exporter.sample(), |given| given.sampled);
        let context = TraceContext { trace, span: fastrand::u64(1..), sampled };
        Self { exporter, context, parent: given.map(|given| given.span), began: since_1970(), steps: Mutex::default() }
    }

    /// The span of an attempt, by its number.
    pub(super) fn attempt(&self, number: usize) -> TraceContext {
        let span = self.context.span.wrapping_add(1 + number as u64).max(1);
        TraceContext { span, ..self.context }
    }

    /// Makes an attempt's request part of the trace.
    pub(super) fn put(&self, number: usize, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::try_from(self.attempt(number).to_string()) {
            headers.insert("traceparent", value);
        }
    }

    /// Notes a step that is over.
    pub(super) fn took(&self, step: Took) {
        if self.context.sampled {
            let mut steps = lock(&self.steps);
            if steps.len() < MOST_STEPS {
                steps.push(step);
            }
        }
    }

    /// The steps so far, in the order in which they ended.
    pub(super) fn steps(&self) -> Vec<Took> {
        lock(&self.steps).clone()
    }
}
