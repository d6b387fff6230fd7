//! Signalbox: a latency-aware model router and gateway that speaks the OpenAI API.

pub mod protocol;
pub mod schedule;
pub mod types;
