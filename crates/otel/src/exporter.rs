//! Export through OpenTelemetry's own SDK: spans in batches, histograms at intervals, each from a thread with a bounded
//! queue.

use std::{sync::Arc, time::Duration};

use opentelemetry::{
    InstrumentationScope, KeyValue, StringValue,
    metrics::{Histogram, MeterProvider as _},
    trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor as _},
};

use super::{Kind, Measured, SetUpError, Span, Tokens, Value, http::Sender};
use signalbox_policy::{CaptureContent, Otel};

/// Most spans that wait to be sent. More are dropped, which the SDK logs.
const QUEUE: usize = 32_768;
/// Most spans per export.
const BATCH: usize = 2_048;
/// Longest wait of spans for a batch.
const DELAY: Duration = Duration::from_secs(1);

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
    sample: f64,
    content: Option<CaptureContent>,
    spans: BatchSpanProcessor,
    sender: Arc<Sender>,
    scope: InstrumentationScope,
    metrics: SdkMeterProvider,
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
    /// Starts to export. Must be called within the runtime. Without a reachable collector only the exported data is
    /// lost.
    ///
    /// # Errors
    ///
    /// If the SDK or the HTTP client rejects its configuration.
    pub fn open(spec: &Otel) -> Result<Self, SetUpError> {
        let refused = |error: ExporterBuildError| SetUpError(error.to_string());
        let sender: Arc<_> = Sender::new().map_err(|error| SetUpError(error.to_string()))?.into();
        let headers =
            || spec.headers.iter().map(|(name, value)| (name.to_string(), value.expose().to_owned())).collect();
        let resource = Resource::builder()
            .with_service_name(spec.service.to_string())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_shared_http_client(sender.clone())
            .with_endpoint(format!("{}/v1/traces", spec.endpoint))
            .with_headers(headers())
            .build()
            .map_err(refused)?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(DELAY)
            .build();
        let mut spans = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        spans.set_resource(&resource);
        let exporter = MetricExporter::builder()
            .with_http()
            .with_shared_http_client(sender.clone())
            .with_endpoint(format!("{}/v1/metrics", spec.endpoint))
            .with_headers(headers())
            .build()
            .map_err(refused)?;
        let reader = PeriodicReader::builder(exporter).with_interval(spec.interval).build();
        let metrics = SdkMeterProvider::builder().with_resource(resource).with_reader(reader).build();
        let scope = InstrumentationScope::builder("signalbox").with_version(env!("CARGO_PKG_VERSION")).build();
        let histograms = Histograms::new(&metrics, &scope);
        Ok(Self { sample: spec.sample, content: spec.content.clone(), spans, sender, scope, metrics, histograms })
    }

    /// Share of new traces that are recorded.
    pub fn sample(&self) -> f64 {
        self.sample
    }

    /// Content of prompts and answers to capture; `None` if none is.
    pub fn content(&self) -> Option<&CaptureContent> {
        self.content.as_ref()
    }

    /// Queues the spans of a request. Never blocks.
    pub fn spans(&self, spans: Vec<Span>) {
        for span in spans {
            self.spans.on_end(self.data(span));
        }
    }

    /// Records the measurements of a request. Never blocks.
    pub fn measure(&self, measured: &Measured) {
        let Histograms { first_token, per_token, duration, tokens } = &self.histograms;
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
        self.sender.end_after(limit);
        // The SDK has logged what cannot be sent.
        let _ = self.spans.shutdown_with_timeout(limit);
        let _ = self.metrics.shutdown_with_timeout(limit);
    }

    fn data(&self, span: Span) -> SpanData {
        let flags = if span.context.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
        let id = SpanId::from(span.context.span);
        SpanData {
            span_context: SpanContext::new(TraceId::from(span.context.trace), id, flags, false, TraceState::NONE),
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
