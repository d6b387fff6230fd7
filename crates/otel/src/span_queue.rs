//! The queue of spans before the SDK's: bounded by their number and their bytes, and all that is lost is counted. The SDK
//! drops spans without saying how many.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use opentelemetry::Value;
use opentelemetry_otlp::SpanExporter as Otlp;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor as _},
};

use super::{
    export_state::{ExportState, Loss},
    http::Sender,
    settings::Settings,
};

/// Most bytes of the spans that wait: with content they are large.
const MOST_BYTES: usize = 64 << 20;
/// Bytes of a span beside its texts.
const SPAN_BYTES: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct SpanQueue {
    processor: BatchSpanProcessor,
    waiting: Arc<Waiting>,
    most: usize,
    pub(super) sender: Arc<Sender>,
    state: Arc<ExportState>,
}

/// Spans that are neither exported nor lost.
#[derive(Debug, Default)]
struct Waiting {
    spans: AtomicUsize,
    bytes: AtomicUsize,
}

/// Counts what the collector does not get.
#[derive(Debug)]
struct Counted {
    inner: Otlp,
    waiting: Arc<Waiting>,
    sender: Arc<Sender>,
    state: Arc<ExportState>,
}

impl SpanQueue {
    pub(super) fn new(
        inner: Otlp,
        sender: Arc<Sender>,
        settings: &Settings,
        resource: &Resource,
        state: Arc<ExportState>,
    ) -> Self {
        let waiting = Arc::<Waiting>::default();
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(settings.queue)
            .with_max_export_batch_size(settings.batch)
            .with_scheduled_delay(settings.delay)
            .build();
        let counted = Counted { inner, waiting: waiting.clone(), sender: sender.clone(), state: state.clone() };
        let mut processor = BatchSpanProcessor::builder(counted).with_batch_config(batches).build();
        processor.set_resource(resource);
        Self { processor, waiting, most: settings.queue, sender, state }
    }

    /// Queues a span, if there is room. Never blocks.
    pub(super) fn push(&self, span: SpanData) {
        let Waiting { spans, bytes } = &*self.waiting;
        let weight = weight(&span);
        let fits = spans.fetch_add(1, Relaxed) < self.most;
        if bytes.fetch_add(weight, Relaxed) + weight > MOST_BYTES || !fits {
            self.waiting.left(1, weight);
            self.state.drop_spans(Loss::Queue, 1);
            return;
        }
        self.processor.on_end(span);
    }

    /// Sends the rest within `limit`. Blocks.
    pub(super) fn close(&self, limit: Duration) {
        let before = self.state.all_dropped();
        // What it cannot send is counted.
        let _ = self.processor.shutdown_with_timeout(limit);
        let lost = self.state.all_dropped() - before + self.waiting.spans.load(Relaxed) as u64;
        if lost > 0 {
            tracing::warn!(spans = lost, "otel: ended before the collector accepted all spans");
        }
    }
}

impl Waiting {
    fn left(&self, spans: usize, bytes: usize) {
        self.spans.fetch_sub(spans, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

impl SpanExporter for Counted {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (spans, bytes) = (batch.len(), batch.iter().map(weight).sum());
        let result = self.inner.export(batch).await;
        self.waiting.left(spans, bytes);
        if result.is_err() {
            let cause = if self.sender.was_rejected() { Loss::Rejected } else { Loss::Unreachable };
            self.state.drop_spans(cause, spans as u64);
        }
        result
    }

    fn shutdown_with_timeout(&self, limit: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(limit)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Approximate bytes of a span in memory.
fn weight(span: &SpanData) -> usize {
    let texts = span.attributes.iter().map(|attribute| match &attribute.value {
        Value::String(text) => text.as_str().len(),
        _ => 0,
    });
    SPAN_BYTES + texts.sum::<usize>()
}
