//! Redis or Valkey, as something that is there or not: whoever asks waits a few milliseconds at most, and nothing at all while it is away.

mod attend;
mod link;

pub use self::{
    attend::{ANSWER, Broken, Session, answered, attend},
    link::{Absent, Link, LinkError},
};
