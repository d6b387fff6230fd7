//! Simulated inference engines: a pure model for virtual clocks, and the same model behind real HTTP when no engine is near.

mod answer;
mod ask;
pub mod cluster;
mod desk;
mod embed;
pub mod engine;
pub mod estimate;
pub mod face;
pub mod figures;
mod flight;
pub mod gateway;
pub mod gzip;
mod hall;
pub mod job;
mod kv;
pub mod machines;
mod open;
pub mod outcome;
mod problem;
pub mod profile;
mod prom;
pub mod recording;
pub mod replay;
mod reply;
pub mod router;
mod sample;
pub mod spread;
mod stand_in;
pub mod study;
mod text;
pub mod timed;
pub mod trace;
pub mod traffic;

pub use engine::Engine;
pub use face::{Group, Running, fleet, start};
pub use job::{Event, Gauges, Job, JobId, Refusal};
pub use profile::Profile;
pub use stand_in::StandIns;

#[cfg(test)]
mod tests;
