//! The integration tests: one binary, so that the support code is built once.

#[path = "../support/mod.rs"]
mod support;

mod testbed;
