//! Trace of a request in flight: its ids, and the times of its steps. [`spans`](super::spans) builds the spans when the request is over.

use std::{
    mem,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::HeaderMap;
use parking_lot::Mutex;

use super::span_facts::{AnswerFacts, RequestFacts};
use signalbox_otel::Exporter;
use signalbox_protocol::{CallerTrace, RequestBody, TraceContext};
use signalbox_types::{Endpoint, Moment, wall_clock::since_1970};

pub(super) struct Traced {
    pub(super) exporter: Arc<Exporter>,
    /// Span of the request itself.
    pub(super) context: TraceContext,
    /// Span of the caller, if it sent one.
    pub(super) parent: Option<u64>,
    /// `tracestate` of the caller.
    pub(super) state: Option<Arc<str>>,
    /// Time of arrival by the wall clock.
    pub(super) began: Duration,
    /// Facts from the request's body, once it was read.
    pub(super) request: OnceLock<RequestFacts>,
    answer: Mutex<AnswerState>,
}

/// The spans are sent when the request is settled and its answer was read to the end, whichever comes last.
#[derive(Default)]
struct AnswerState {
    /// True while the answer passes to the caller.
    passing: bool,
    facts: AnswerFacts,
    /// Sends the spans of the settled request.
    send: Option<SendSpans>,
}

/// Sends the spans of a settled request, with what its answer said.
pub(super) type SendSpans = Box<dyn FnOnce(&Traced, &AnswerFacts) + Send>;

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
        let caller = exporter.propagators().iter().find_map(|propagator| propagator.extract(headers));
        let CallerTrace { ids, sampled } = caller.unwrap_or_default();
        let (trace, parent) = ids.unzip();
        let trace = trace.unwrap_or_else(|| fastrand::u128(1..));
        let sampled = exporter.samples(trace, sampled);
        let context = TraceContext { trace, span: fastrand::u64(1..), sampled };
        let state = headers.get("tracestate").filter(|_| parent.is_some()).and_then(|state| state.to_str().ok());
        Self {
            exporter,
            context,
            parent,
            state: state.map(Into::into),
            began: since_1970(),
            request: OnceLock::new(),
            answer: Mutex::default(),
        }
    }

    /// Id of the trace, if it is recorded.
    pub(super) fn recorded(&self) -> Option<u128> {
        self.context.sampled.then_some(self.context.trace)
    }

    /// Notes what spans say of a request's body.
    pub(super) fn asked(&self, endpoint: Endpoint, body: &RequestBody) {
        if self.context.sampled {
            let _ = self.request.set(RequestFacts::of(endpoint, body, self.exporter.content()));
        }
    }

    /// Keeps the spans back until [`answered`](Self::answered).
    pub(super) fn await_answer(&self) {
        self.answer.lock().passing = true;
    }

    /// The answer is over.
    pub(super) fn answered(&self, facts: AnswerFacts) {
        let mut state = self.answer.lock();
        state.passing = false;
        match state.send.take() {
            None => state.facts = facts,
            Some(send) => {
                drop(state);
                send(self, &facts);
            }
        }
    }

    /// The request is settled.
    pub(super) fn settled(&self, send: impl FnOnce(&Self, &AnswerFacts) + Send + 'static) {
        let mut state = self.answer.lock();
        if state.passing {
            state.send = Some(Box::new(send));
            return;
        }
        let facts = mem::take(&mut state.facts);
        drop(state);
        send(self, &facts);
    }

    /// Context of an attempt's span, by its number.
    pub(super) fn attempt(&self, number: usize) -> TraceContext {
        let span = self.context.span.wrapping_add(1 + number as u64).max(1);
        TraceContext { span, ..self.context }
    }

    /// Adds the trace context to the headers of an attempt.
    pub(super) fn put(&self, number: usize, headers: &mut HeaderMap) {
        for propagator in self.exporter.propagators() {
            propagator.clear(headers, self.parent.is_some());
        }
        for propagator in self.exporter.propagators() {
            propagator.inject(self.attempt(number), headers);
        }
    }
}
