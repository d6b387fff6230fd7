//! A connection to Redis or Valkey that may be down: commands wait a few milliseconds at most, and fail at once without
//! a connection. The server may be a single one, the master that Sentinels name, or a cluster.
//!
//! The client library's `ConnectionManager` reconnects by itself, but commands wait for it, no work can be done before
//! others use the new connection, and it knows neither Sentinels nor clusters. So [`maintain`] does it for all three.

#![forbid(unsafe_code)]

mod connection;
mod link;
mod session;

pub use self::{
    connection::Connection,
    link::{Link, LinkError, Unavailable},
    session::{ANSWER, Session, SessionError, maintain, query_within},
};
