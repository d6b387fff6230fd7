//! The one integration binary: the gateway as its users meet it, so that the support code is built once.

#[path = "../support/mod.rs"]
mod support;

mod accounting;
mod check;
mod clients;
mod failover;
mod journal;
mod lifecycle;
mod reload;
mod testbed;
