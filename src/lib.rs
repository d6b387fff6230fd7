//! Signalbox: a latency-aware model router and gateway that speaks the OpenAI API.

pub mod cli;
pub mod config;
pub mod fleet;
pub mod gateway;
pub mod measure;
pub mod policy;
pub mod protocol;
pub mod schedule;
pub mod server;
pub mod sim;
pub mod telemetry;
pub mod types;
pub mod upstream;
