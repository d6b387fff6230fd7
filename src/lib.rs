//! Signalbox: a latency-aware model router and gateway that speaks the OpenAI API.

pub mod cli;
pub mod config;
pub mod policy;
pub mod types;
