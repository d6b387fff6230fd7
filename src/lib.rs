//! Signalbox: a latency-aware model router and gateway that speaks the OpenAI API.
//!
//! One binary in front of many inference engines. [`gateway::walk`] shows the steps of a request in order: authentication, parsing, estimation,
//! routing, cache lookup, limits, admission, dispatch to a backend, and the relay of the answer with the guard that settles it.
//!
//! Modules by floor; each imports only from lower floors (enforced by `tests/architecture.rs`):
//!
//! | floor | module | purpose |
//! |---|---|---|
//! | 11 | [`cli`] | commands |
//! | 10 | [`server`] | listeners, reload, drain, admin API |
//! | 9 | [`gateway`] | the steps of a request |
//! | 8 | [`answers`], [`loadgen`], [`notify`] | kept answers with their I/O; a load generator that measures latencies as callers see them; webhooks |
//! | 7 | [`accounting`], [`learning`], [`upstream`], [`coordination`] | limits, usage and objectives; what routes learn; HTTP to engines and their metrics; what gateways of a group exchange |
//! | 7 | [`journal_replay`], [`lab`] | replay of a journal under another policy; offline evaluation |
//! | 6 | [`sim`], [`embed`], [`store`], [`otel`], [`journal`] | simulated engines and clusters; embeddings; records on disk; traces to a collector; decisions |
//! | 5 | [`fleet`], [`cache`], [`migration`] | live state of engines and backends; cached answers; other gateways' configurations as policies |
//! | 4 | [`schedule`], [`policy`] | selection of a backend; the compiled policy |
//! | 3 | [`config`], [`telemetry`], [`redis`] | policy files as text; metrics and the journal; a Redis client |
//! | 2 | [`protocol`], [`translation`], [`prompt`], [`quota`] | requests, answers and event streams over bytes; between APIs; prompt features; limits and budgets |
//! | 1 | [`measure`] | windows, averages, rates |
//! | 0 | [`types`] | the vocabulary |
//!
//! `measure`, `translation`, `prompt`, `quota`, `policy`, `schedule`, `fleet`, `cache` and `migration` do no I/O, spawn no tasks and never read a clock: `now` is an argument, so
//! that the same code runs in tests, in benches and on a simulation's clock.

#![forbid(unsafe_code)]

pub mod accounting;
pub mod answers;
pub mod cache;
pub mod cli;
pub mod config;
pub mod coordination;
pub mod embed;
pub mod fleet;
pub mod gateway;
pub mod journal;
pub mod journal_replay;
pub mod lab;
pub mod learning;
pub mod loadgen;
pub mod measure;
pub mod migration;
pub mod notify;
pub mod otel;
pub mod policy;
pub mod prompt;
pub mod protocol;
pub mod quota;
pub mod redis;
#[cfg(test)]
mod reference;
pub mod schedule;
pub mod server;
pub mod sim;
pub mod store;
pub mod telemetry;
pub mod translation;
pub mod types;
pub mod upstream;
