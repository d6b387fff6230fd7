//! What stands in where OpenTelemetry is not built in: policies that ask for it are refused, so that there is never one of these.

use std::{convert::Infallible, time::Duration};

use super::{Measured, SetUpError, Span};
use crate::policy::Otel;

/// Nothing.
#[derive(Debug)]
pub struct Exporter(Infallible);

impl Exporter {
    /// Always fails.
    pub fn open(_: &Otel) -> Result<Self, SetUpError> {
        Err(SetUpError("this build has no OpenTelemetry: build it with the feature `otel`".to_owned()))
    }

    /// The share of new traces that are recorded.
    pub fn sample(&self) -> f64 {
        match self.0 {}
    }

    /// Takes the spans of a request.
    pub fn spans(&self, _: Vec<Span>) {
        match self.0 {}
    }

    /// Takes what was measured of a request.
    pub fn measure(&self, _: &Measured) {
        match self.0 {}
    }

    /// Writes out what is left, within `limit`.
    pub fn close(&self, _: Duration) {
        match self.0 {}
    }
}
