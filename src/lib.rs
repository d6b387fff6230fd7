//! Signalbox: a latency-aware model router and gateway that speaks the OpenAI API.
//!
//! One binary in front of many inference engines. This package is the command, [`cli`], and re-exports the crates it is made of, so that a
//! program can embed the gateway: a [policy](policy::compile) and [`server::run`]. [`gateway::walk`] shows the steps of a request in order:
//! authentication, parsing, estimation, routing, cache lookup, limits, admission, dispatch to a backend, and the relay of the answer with the
//! guard that settles it. What each crate owns, and which it uses, stands in `docs/dev/architecture.md`.
//!
//! [`types`], [`measure`], [`engines`], [`translation`], [`prompt`], [`quota`], [`policy`], [`schedule`], [`fleet`], [`cache`] and [`migration`] do no
//! I/O, spawn no tasks and never read a clock: `now` is an argument, so that the same code runs in tests, in benches and on a simulation's
//! clock.

#![forbid(unsafe_code)]

pub mod cli;

pub use signalbox_accounting as accounting;
pub use signalbox_answers as answers;
pub use signalbox_cache as cache;
pub use signalbox_config as config;
pub use signalbox_coordination as coordination;
pub use signalbox_embed as embed;
pub use signalbox_engines as engines;
pub use signalbox_fleet as fleet;
pub use signalbox_gateway as gateway;
pub use signalbox_journal as journal;
pub use signalbox_journal_replay as journal_replay;
pub use signalbox_lab as lab;
pub use signalbox_learning as learning;
pub use signalbox_loadgen as loadgen;
pub use signalbox_measure as measure;
pub use signalbox_migration as migration;
pub use signalbox_notify as notify;
pub use signalbox_otel as otel;
pub use signalbox_policy as policy;
pub use signalbox_prompt as prompt;
pub use signalbox_protocol as protocol;
pub use signalbox_quota as quota;
pub use signalbox_redis as redis;
pub use signalbox_schedule as schedule;
pub use signalbox_server as server;
pub use signalbox_sim as sim;
pub use signalbox_store as store;
pub use signalbox_telemetry as telemetry;
pub use signalbox_translation as translation;
pub use signalbox_types as types;
pub use signalbox_upstream as upstream;
