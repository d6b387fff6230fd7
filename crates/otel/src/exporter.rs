//! Export through OpenTelemetry's own SDK: spans in batches, histograms at intervals, each from a thread with a bounded
//! queue.

use std::{str::FromStr as _, sync::Arc, time::Duration};

use opentelemetry::{
    InstrumentationScope, KeyValue, StringValue,
    metrics::{Histogram, MeterProvider as _},
    trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_otlp::{
    MetricExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{SpanData, SpanEvents, SpanLinks},
};

use super::{
    ExportState, Kind, Measured, SetUpError, Span, Tokens, Value, http::Sender, sampler::Sampler, settings::Settings,
    span_queue::SpanQueue,
};
use signalbox_policy::{CaptureContent, Otel};
use signalbox_protocol::Propagator;

/// Time for which spans are sent again, and metrics: their next export contains all of them.
const SPANS_PATIENCE: Duration = Duration::from_mins(2);
const METRICS_PATIENCE: Duration = Duration::from_secs(5);

/// Buckets of times to first token, in seconds, as OpenTelemetry's conventions for generative AI recommend.
const FIRST_TOKEN: [f64; 16] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// Buckets of times per token, in seconds, as they recommend.
const PER_TOKEN: [f64; 13] = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5];
/// Buckets of durations, in seconds, as they recommend.
const DURATION: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// Buckets of tokens, as they recommend.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Sends spans and measurements to a collector.
#[derive(Debug)]
pub struct Exporter {
    sampler: Sampler,
    propagators: Vec<Propagator>,
    content: Option<CaptureContent>,
    /// `None` where the environment turns it off, as for the metrics.
    spans: Option<SpanQueue>,
    scope: InstrumentationScope,
    metrics: Option<Metrics>,
}

#[derive(Debug)]
struct Metrics {
    provider: SdkMeterProvider,
    sender: Arc<Sender>,
    histograms: Histograms,
}

/// Histograms of the conventions (`gen_ai.server.*`, `gen_ai.client.*`).
#[derive(Debug)]
struct Histograms {
    first_token: Histogram<f64>,
    per_token: Histogram<f64>,
    duration: Histogram<f64>,
    tokens: Histogram<u64>,
}

impl Exporter {
    /// Starts to export; `None` if the environment turns that off. Must be called within the runtime. Without a reachable
    /// collector only the exported data is lost.
    ///
    /// # Errors
    ///
    /// If the SDK or the HTTP client rejects its configuration.
    pub fn open(spec: &Otel, state: &Arc<ExportState>) -> Result<Option<Self>, SetUpError> {
        let variable = |name: &str| std::env::var(name).ok();
        let Some(settings) = Settings::of(spec, &state.instance, variable) else {
            tracing::info!("otel: off, as OTEL_SDK_DISABLED says");
            return Ok(None);
        };
        for remark in &settings.remarks {
            tracing::warn!("otel: {remark}");
        }
        let attributes = settings.resource.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
        let resource = Resource::builder().with_attributes(attributes).build();
        let scope = InstrumentationScope::builder("signalbox").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Some(Self {
            sampler: settings.sampler,
            content: spec.content.clone(),
            spans: spans(&settings, &resource, state)?,
            metrics: metrics(&settings, resource, &scope)?,
            propagators: settings.propagators,
            scope,
        }))
    }

    /// True if a trace is recorded; `parent` is the decision of the caller, if it made one.
    pub fn samples(&self, trace: u128, parent: Option<bool>) -> bool {
        self.sampler.samples(trace, parent)
    }

    /// Formats in which traces come and go; the first that a request has counts.
    pub fn propagators(&self) -> &[Propagator] {
        &self.propagators
    }

    /// Content of prompts and answers to capture; `None` if none is.
    pub fn content(&self) -> Option<&CaptureContent> {
        self.content.as_ref()
    }

    /// Queues the spans of a request. Never blocks.
    pub fn spans(&self, spans: Vec<Span>) {
        let Some(queue) = &self.spans else { return };
        for span in spans {
            queue.push(self.data(span));
        }
    }

    /// Records the measurements of a request. Never blocks.
    pub fn measure(&self, measured: &Measured) {
        let Some(metrics) = &self.metrics else { return };
        let Histograms { first_token, per_token, duration, tokens } = &metrics.histograms;
        let mut attributes = vec![KeyValue::new("gen_ai.operation.name", measured.operation)];
        let mut add = |key, value: Option<StringValue>| {
            attributes.extend(value.map(|value| KeyValue::new(key, value)));
        };
        add("gen_ai.provider.name", measured.provider.map(Into::into));
        add("gen_ai.request.model", measured.request_model.as_ref().map(|model| model.to_string().into()));
        add("gen_ai.response.model", measured.response_model.as_ref().map(|model| model.to_string().into()));
        if let Some(time) = measured.first_token {
            first_token.record(time.as_secs_f64(), &attributes);
        }
        if let Some(time) = measured.per_token {
            per_token.record(time.as_secs_f64(), &attributes);
        }
        if let Some(Tokens { input, output }) = measured.tokens {
            for (kind, count) in [("input", input), ("output", output)] {
                attributes.push(KeyValue::new("gen_ai.token.type", kind));
                tokens.record(count, &attributes);
                attributes.pop();
            }
        }
        attributes.extend(measured.error.map(|error| KeyValue::new("error.type", error)));
        duration.record(measured.duration.as_secs_f64(), &attributes);
    }

    /// Sends the rest within `limit`; what the collector has not accepted by then is lost. Blocks.
    pub fn close(&self, limit: Duration) {
        let senders = self.spans.iter().map(|queue| &queue.sender);
        for sender in senders.chain(self.metrics.iter().map(|metrics| &metrics.sender)) {
            sender.end_after(limit);
        }
        if let Some(queue) = &self.spans {
            queue.close(limit);
        }
        if let Some(metrics) = &self.metrics {
            // The SDK has logged what cannot be sent.
            let _ = metrics.provider.shutdown_with_timeout(limit);
        }
    }

    fn data(&self, span: Span) -> SpanData {
        let flags = if span.context.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
        let id = SpanId::from(span.context.span);
        let state = span.state.as_deref().and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
        SpanData {
            span_context: SpanContext::new(TraceId::from(span.context.trace), id, flags, false, state),
            parent_span_id: span.parent.map_or(SpanId::INVALID, |(parent, _)| SpanId::from(parent)),
            parent_span_is_remote: span.parent.is_some_and(|(_, remote)| remote),
            span_kind: match span.kind {
                Kind::Server => SpanKind::Server,
                Kind::Client => SpanKind::Client,
                Kind::Internal => SpanKind::Internal,
            },
            name: span.name.into(),
            start_time: span.began,
            end_time: span.ended,
            attributes: span.attributes.into_iter().map(|(key, value)| KeyValue::new(key, spoken(value))).collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: span.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// The queue of spans, if they are exported.
fn spans(settings: &Settings, resource: &Resource, state: &Arc<ExportState>) -> Result<Option<SpanQueue>, SetUpError> {
    let Some(to) = &settings.traces else { return Ok(None) };
    let sender: Arc<_> = Sender::new("spans", to, SPANS_PATIENCE).map_err(refused)?.into();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_shared_http_client(sender.clone())
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&*to.url)
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(refused)?;
    Ok(Some(SpanQueue::new(exporter, sender, settings, resource, state.clone())))
}

/// The measurements, if they are exported.
fn metrics(
    settings: &Settings,
    resource: Resource,
    scope: &InstrumentationScope,
) -> Result<Option<Metrics>, SetUpError> {
    let Some(to) = &settings.metrics else { return Ok(None) };
    let sender: Arc<_> = Sender::new("metrics", to, METRICS_PATIENCE).map_err(refused)?.into();
    let exporter = MetricExporter::builder()
        .with_http()
        .with_shared_http_client(sender.clone())
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&*to.url)
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(refused)?;
    let reader = PeriodicReader::builder(exporter).with_interval(settings.interval).build();
    let provider = SdkMeterProvider::builder().with_resource(resource).with_reader(reader).build();
    let histograms = Histograms::new(&provider, scope);
    Ok(Some(Metrics { provider, sender, histograms }))
}

fn refused(error: impl std::fmt::Display) -> SetUpError {
    SetUpError(error.to_string())
}

impl Histograms {
    fn new(provider: &SdkMeterProvider, scope: &InstrumentationScope) -> Self {
        let meter = provider.meter_with_scope(scope.clone());
        let seconds = |name, what, buckets: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(what);
            histogram.with_boundaries(buckets.to_vec()).build()
        };
        Self {
            first_token: seconds(
                "gen_ai.server.time_to_first_token",
                "Time to generate the first token of a successful response.",
                &FIRST_TOKEN,
            ),
            per_token: seconds(
                "gen_ai.server.time_per_output_token",
                "Time per output token generated after the first token.",
                &PER_TOKEN,
            ),
            duration: seconds("gen_ai.server.request.duration", "Duration of a request, to its last byte.", &DURATION),
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Number of input and output tokens used.")
                .with_boundaries(TOKENS.to_vec())
                .build(),
        }
    }
}

fn spoken(value: Value) -> opentelemetry::Value {
    match value {
        Value::Word(word) => word.into(),
        Value::Name(name) => name.to_string().into(),
        Value::Text(text) => text.into(),
        Value::Count(count) => i64::try_from(count).unwrap_or(i64::MAX).into(),
        Value::Number(number) => number.into(),
        Value::Flag(flag) => flag.into(),
        Value::Texts(texts) => {
            opentelemetry::Value::Array(texts.into_iter().map(StringValue::from).collect::<Vec<_>>().into())
        }
    }
}
