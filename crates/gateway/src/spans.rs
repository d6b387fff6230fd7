//! Spans and measurements of a settled request, by OpenTelemetry's conventions for generative AI. Names that the
//! conventions lack start with `signalbox.`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{
    span_facts::AnswerFacts,
    traced::{Timed, Traced},
};
use signalbox_journal::{AttemptEntry, JournalEntry};
use signalbox_otel::{Kind, Measured, Span, Tokens, Value};
use signalbox_protocol::TraceContext;
use signalbox_types::{Blame, Endpoint, Moment, Outcome};

/// A finished request with its trace.
pub(super) struct RequestSpans {
    pub(super) endpoint: Endpoint,
    pub(super) arrived: Moment,
    /// Steps in the order in which they ended.
    pub(super) steps: Vec<Timed>,
    pub(super) line: JournalEntry,
}

/// The spans of a request in its trace.
struct InTrace<'a> {
    traced: &'a Traced,
    answer: &'a AnswerFacts,
    of: &'a RequestSpans,
}

impl RequestSpans {
    /// Sends the measurements to the exporter, and, if the trace is recorded, the spans once the answer is over.
    pub(super) fn send(self, traced: &Traced) {
        traced.exporter.measure(&self.measured());
        if traced.context.sampled {
            traced.settled(move |traced, answer| {
                traced.exporter.spans(InTrace { traced, answer, of: &self }.spans());
            });
        }
    }

    fn measured(&self) -> Measured {
        let JournalEntry { model, route, outcome, ttft_ms, tpot_ms, e2e_ms, .. } = &self.line;
        let usage = self.line.reported_usage();
        let answered = self.line.last();
        Measured {
            operation: operation(self.endpoint),
            // Callers may send any number of made-up names. Only a request with a route names a model of the policy.
            request_model: model.as_deref().filter(|_| route.is_some()).map(Into::into),
            response_model: answered.and_then(|it| it.upstream_model.clone()),
            provider: answered.map(|it| it.provider),
            error: error(Some(outcome)),
            duration: millis(*e2e_ms),
            first_token: ttft_ms.map(millis),
            per_token: tpot_ms.map(millis),
            tokens: usage.map(|usage| Tokens { input: usage.prompt_tokens, output: usage.completion_tokens }),
        }
    }
}

impl InTrace<'_> {
    fn spans(&self) -> Vec<Span> {
        let mut spans = vec![self.whole()];
        spans.extend(self.of.steps.iter().map(|step| {
            let (began, ended) = (step.began.since(self.of.arrived), step.ended.since(self.of.arrived));
            self.part(self.traced.context, step.name, (began, ended))
        }));
        for (number, attempt) in self.of.line.attempts.iter().enumerate() {
            self.attempt(number, attempt, &mut spans);
        }
        spans
    }

    /// Builds the span of the whole request, as the caller sees it.
    fn whole(&self) -> Span {
        let JournalEntry { id, model, key, route, status, cache: reused, usage: shown, cost_usd, ttft_ms, .. } =
            &self.of.line;
        let answered = self.of.line.last();
        // On this span alone, so that the sum over a trace, which is what cost reports add up, is what engines reported.
        let usage = self.of.line.reported_usage();
        let mut attributes = vec![
            ("gen_ai.operation.name", Value::Word(operation(self.of.endpoint))),
            ("signalbox.request.id", Value::Text(id.to_string())),
            ("http.response.status_code", Value::Count(u64::from(*status))),
        ];
        let mut add = |key, value: Option<Value>| attributes.extend(value.map(|value| (key, value)));
        add("gen_ai.provider.name", answered.map(|it| Value::Word(it.provider)));
        add("gen_ai.request.model", model.clone().map(Value::Text));
        add("gen_ai.response.model", answered.and_then(|it| it.upstream_model.clone()).map(Value::Name));
        add("gen_ai.usage.input_tokens", usage.map(|usage| Value::Count(usage.prompt_tokens)));
        add("gen_ai.usage.output_tokens", usage.map(|usage| Value::Count(usage.completion_tokens)));
        add("gen_ai.usage.cache_read.input_tokens", usage.and_then(|usage| usage.cached_tokens).map(Value::Count));
        add("gen_ai.usage.reasoning.output_tokens", usage.and_then(|usage| usage.reasoning_tokens).map(Value::Count));
        add("signalbox.usage.input_tokens", shown.map(|usage| Value::Count(usage.prompt_tokens)));
        add("signalbox.usage.output_tokens", shown.map(|usage| Value::Count(usage.completion_tokens)));
        add("gen_ai.response.time_to_first_chunk", ttft_ms.map(|ms| Value::Number(ms / 1e3)));
        add("signalbox.route", route.clone().map(Value::Name));
        add("signalbox.pool", answered.map(|it| Value::Name(it.pool.clone())));
        add("signalbox.backend", answered.map(|it| Value::Name(it.backend.clone())));
        add("signalbox.key", key.clone().map(Value::Name));
        add("signalbox.cache", reused.as_ref().map(|reused| Value::Word(reused.result)));
        add("signalbox.cost_usd", cost_usd.map(Value::Number));
        let error = error(Some(self.of.line.outcome));
        add("error.type", error.map(Value::Word));
        let error = error.filter(|_| is_server_failure(&self.of.line));
        attributes.extend(self.traced.request.get().into_iter().flat_map(|request| request.attributes.iter().cloned()));
        attributes.extend(self.answer.attributes());
        let name = name(self.of.endpoint, self.of.line.model.as_deref());
        let ended = millis(self.of.line.e2e_ms);
        let parent = self.traced.parent.map(|parent| (parent, true));
        Span {
            attributes,
            error,
            ..self.span(self.traced.context, parent, (Kind::Server, name), (Duration::ZERO, ended))
        }
    }

    /// Adds the span of an attempt, and within it those of prefill and decode.
    fn attempt(&self, number: usize, attempt: &AttemptEntry, spans: &mut Vec<Span>) {
        let context = self.traced.attempt(number);
        let began = millis(attempt.began_ms);
        let ended = millis(attempt.ended_ms.unwrap_or(self.of.line.e2e_ms)).max(began);
        let mut attributes = vec![
            ("gen_ai.operation.name", Value::Word(operation(self.of.endpoint))),
            ("gen_ai.provider.name", Value::Word(attempt.provider)),
            ("signalbox.pool", Value::Name(attempt.pool.clone())),
            ("signalbox.backend", Value::Name(attempt.backend.clone())),
            ("signalbox.attempt", Value::Count(number as u64 + 1)),
            ("signalbox.attempt.reason", Value::Word(attempt.reason)),
            ("signalbox.predicted.time_to_first_token", Value::Number(attempt.predicted.ttft_ms / 1e3)),
        ];
        let mut add = |key, value: Option<Value>| attributes.extend(value.map(|value| (key, value)));
        add("gen_ai.request.model", attempt.upstream_model.clone().map(Value::Name));
        add("signalbox.attempt.input_tokens", attempt.usage.map(|usage| Value::Count(usage.prompt_tokens)));
        add("signalbox.attempt.output_tokens", attempt.usage.map(|usage| Value::Count(usage.completion_tokens)));
        add("signalbox.attempt.cached_tokens", attempt.reported_cached_tokens.map(Value::Count));
        let (host, port) = attempt.address.clone().unzip();
        add("server.address", host.map(Value::Text));
        add("server.port", port.map(|port| Value::Count(port.into())));
        add("signalbox.outcome", attempt.outcome.map(Value::Word));
        let error = error(attempt.outcome);
        add("error.type", error.map(Value::Word));
        let error = error.filter(|_| attempt.outcome != Some(Outcome::ClientGone.label()));
        let name = name(self.of.endpoint, attempt.upstream_model.as_deref().or(self.of.line.model.as_deref()));
        let parent = Some((self.traced.context.span, false));
        spans.push(Span { attributes, error, ..self.span(context, parent, (Kind::Client, name), (began, ended)) });
        if let Some(first) = attempt.ttft_ms.map(|ms| (began + millis(ms)).min(ended)) {
            spans.push(self.part(context, "prefill", (began, first)));
            spans.push(self.part(context, "decode", (first, ended)));
        }
    }

    /// Builds a span within `whole` that has no children.
    fn part(&self, whole: TraceContext, name: &'static str, times: (Duration, Duration)) -> Span {
        let context = TraceContext { span: fastrand::u64(1..), ..whole };
        self.span(context, Some((whole.span, false)), (Kind::Internal, name.to_owned()), times)
    }

    fn span(
        &self,
        context: TraceContext,
        parent: Option<(u64, bool)>,
        (kind, name): (Kind, String),
        (began, ended): (Duration, Duration),
    ) -> Span {
        let at = |offset: Duration| -> SystemTime { UNIX_EPOCH + self.traced.began + offset };
        let (began, ended) = (at(began), at(ended));
        let state = self.traced.state.clone();
        Span { context, state, parent, kind, name, began, ended, attributes: Vec::new(), error: None }
    }
}

/// Operation name by the conventions.
fn operation(endpoint: Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Chat | Endpoint::Messages | Endpoint::Responses => "chat",
        Endpoint::Completions => "text_completion",
        other => other.name(),
    }
}

/// Span name by the conventions: `{operation} {model}`.
fn name(endpoint: Endpoint, model: Option<&str>) -> String {
    model.map_or_else(|| operation(endpoint).to_owned(), |model| format!("{} {model}", operation(endpoint)))
}

/// Returns the error of an outcome, if it is one. An attempt that lost to another, or whose answer a larger model's
/// replaced, did not fail.
fn error(outcome: Option<&'static str>) -> Option<&'static str> {
    let well = [Outcome::Complete, Outcome::Outrun, Outcome::Escalated].map(Outcome::label);
    outcome.filter(|outcome| !well.contains(outcome))
}

/// True if the conventions for HTTP servers count the request as an error of the server: neither what its caller did wrong
/// nor that the caller left.
fn is_server_failure(line: &JournalEntry) -> bool {
    match line.status {
        0 | 400..500 => false,
        500.. => true,
        // The answer failed after its head.
        _ => line.outcome != Outcome::ClientGone.label() && line.blame != Some(Blame::Client),
    }
}

fn millis(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default()
}
