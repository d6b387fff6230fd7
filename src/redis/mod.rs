//! A connection to Redis or Valkey that may be down: commands wait a few milliseconds at most, and fail at once without
//! a connection.

mod link;
mod session;

pub use self::{
    link::{Link, LinkError, Unavailable},
    session::{ANSWER, Session, SessionError, maintain, query_within},
};
