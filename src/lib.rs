//! Signalbox: a latency-aware model router and gateway that speaks the OpenAI API.

pub mod sim;
pub mod types;
