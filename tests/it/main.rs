//! The one integration binary: the gateway as its users meet it, so that the support code is built once.

#[path = "../support/mod.rs"]
mod support;

mod check;
mod engines;
mod errors;
mod page;
mod prometheus;
mod requests;
mod sdk;
mod streams;
mod testbed;
mod trace;
