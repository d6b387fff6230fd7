//! A complete answer in both of its forms, whole and as the events of a stream, each convertible into the other.

mod builder;
mod parts;
mod replay;
mod whole;

pub use self::{
    builder::TranscriptBuilder,
    parts::Parts,
    whole::{Transcript, Uncacheable},
};

#[cfg(test)]
mod tests;
