//! A complete answer in both of its forms, whole and as the events of a stream, each convertible into the other.

mod builder;
mod convert;
mod native;
mod parts;
mod replay;
mod whole;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::convert::fuzz_convert;
pub use self::{
    builder::TranscriptBuilder,
    convert::{events_of_whole, whole_of_events},
    parts::Parts,
    whole::{Transcript, Uncacheable},
};

#[cfg(test)]
mod tests;
