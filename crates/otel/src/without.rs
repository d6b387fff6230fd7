//! Stand-in for builds without OpenTelemetry. Policies that configure it are rejected, so that an instance never
//! exists.

use std::{convert::Infallible, sync::Arc, time::Duration};

use super::{ExportState, Measured, SetUpError, Span};
use signalbox_policy::{CaptureContent, Otel};
use signalbox_protocol::Propagator;

/// An uninhabited type.
#[derive(Debug)]
pub struct Exporter(Infallible);

impl Exporter {
    /// Always fails.
    pub fn open(_: &Otel, _: &Arc<ExportState>) -> Result<Option<Self>, SetUpError> {
        Err(SetUpError("this build has no OpenTelemetry: build it with the feature `otel`".to_owned()))
    }

    /// True if a trace is recorded.
    pub fn samples(&self, _: u128, _: Option<bool>) -> bool {
        match self.0 {}
    }

    /// Formats in which traces come and go.
    pub fn propagators(&self) -> &[Propagator] {
        match self.0 {}
    }

    /// Content of prompts and answers to capture.
    pub fn content(&self) -> Option<&CaptureContent> {
        match self.0 {}
    }

    /// Queues the spans of a request.
    pub fn spans(&self, _: Vec<Span>) {
        match self.0 {}
    }

    /// Records the measurements of a request.
    pub fn measure(&self, _: &Measured) {
        match self.0 {}
    }

    /// Sends the rest, within `limit`.
    pub fn close(&self, _: Duration) {
        match self.0 {}
    }
}
