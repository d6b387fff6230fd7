//! Signalbox: a latency-aware model router and gateway that speaks the OpenAI API.
//!
//! One binary stands in front of many inference engines. A request goes through the house once, from door to door, and
//! [`gateway::walk`] shows the order: who is asking, what, how much work it is, where it may go, whether there is room, which
//! backend, and the answer's way back with the meter riding in its body.
//!
//! The rooms, from the roof down; each imports only from floors below its own (`tests/architecture.rs` sees to it):
//!
//! | floor | room | |
//! |---|---|---|
//! | 10 | [`cli`] | commands |
//! | 9 | [`server`] | listeners, reload, drain, what operators ask |
//! | 8 | [`gateway`], [`loadgen`] | the walk; a client that asks servers and measures what callers see |
//! | 7 | [`upstream`], [`journal_replay`], [`lab`] | HTTP to engines, and what they report of themselves; recorded traffic under another policy; offline evaluation |
//! | 6 | [`sim`], [`embed`], [`store`], [`otel`] | simulated engines: a pure model, the same behind HTTP, and policies compared on it; vectors of texts; records on disk; traces to a collector |
//! | 5 | [`fleet`], [`cache`] | engines and backends as they live: load, tickets, readings; answers that are given again |
//! | 4 | [`schedule`], [`policy`] | which backend; what the operator decided |
//! | 3 | [`config`], [`telemetry`], [`redis`] | policy files as text; metrics and the journal; a server for what gateways share |
//! | 2 | [`protocol`], [`prompt`], [`quota`] | requests, answers and event streams over bytes; what a prompt's bytes tell; what callers may use |
//! | 1 | [`measure`] | windows, averages, rates |
//! | 0 | [`types`] | the vocabulary |
//!
//! `measure`, `prompt`, `quota`, `policy`, `schedule`, `fleet` and `cache` do no I/O, spawn nothing and never read a clock: `now` is an argument, so that
//! the same code runs in tests, in benches and on a simulation's clock.

#![forbid(unsafe_code)]

pub mod cache;
pub mod cli;
pub mod config;
pub mod embed;
pub mod fleet;
pub mod gateway;
pub mod journal_replay;
pub mod lab;
pub mod loadgen;
pub mod measure;
pub mod otel;
pub mod policy;
pub mod prompt;
pub mod protocol;
pub mod quota;
pub mod redis;
pub mod schedule;
pub mod server;
pub mod sim;
pub mod store;
pub mod telemetry;
pub mod types;
pub mod upstream;
