//! Signalbox: a latency-aware model router and gateway that speaks the OpenAI API.

pub mod measure;
pub mod telemetry;
pub mod types;
pub mod upstream;
