//! Simulated inference engines: a pure model on a virtual clock, the same model behind HTTP, and simulated clusters that the gateway's own
//! scheduling runs on.

#![forbid(unsafe_code)]

mod answer;
mod api_request;
mod attempt;
pub mod cluster;
mod embed;
pub mod engine;
mod engine_task;
pub mod engines_file;
pub mod estimate;
pub mod experiment;
pub mod figures;
pub mod gateway;
pub mod gzip;
pub mod http_server;
pub mod job;
mod kv;
mod open_request;
pub mod outcome;
pub mod parallel;
mod problem;
pub mod profile;
mod prom;
mod queues;
pub mod recording;
pub mod replay;
mod reply;
pub mod router;
pub mod rule_router;
mod sample;
mod substitute;
mod text;
pub mod timed;
pub mod trace;
pub mod traffic;

pub use engine::Engine;
pub use http_server::{Group, Running, fleet, start};
pub use job::{Event, Gauges, Job, JobId, Refusal};
pub use profile::Profile;
pub use substitute::{Substitutes, demo_key};

#[cfg(test)]
mod tests;
