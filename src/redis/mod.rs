//! A connection to Redis or Valkey that may be down: commands wait a few milliseconds at most, and fail at once without
//! a connection.

mod attend;
mod link;

pub use self::{
    attend::{ANSWER, Broken, Session, answered, attend},
    link::{Absent, Link, LinkError},
};
