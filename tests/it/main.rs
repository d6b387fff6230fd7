//! The one integration binary: the gateway as its users meet it, so that the support code is built once.

#[path = "../support/mod.rs"]
mod support;

mod accounting;
mod accounts;
mod admission;
mod background;
mod bench;
mod cache;
mod cache_eval;
mod cascade;
mod check;
mod clients;
mod deciders;
mod embeddings;
mod engines;
mod errors;
mod evaluate;
mod failover;
mod faults;
mod journal;
mod keys;
mod lifecycle;
mod meaning;
mod observability;
mod page;
mod persist;
mod placement;
mod policies;
mod prediction;
mod prometheus;
mod reload;
mod replay;
mod requests;
mod routes;
mod scheduling;
mod sdk;
mod shared;
mod shared_limits;
mod simulate;
mod streams;
mod teams;
mod testbed;
mod tls;
mod trace;
mod upstreams;
