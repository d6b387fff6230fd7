//! A complete answer in both of its forms, whole and as the events of a stream, each convertible into the other.

mod gather;
mod parts;
mod replay;
mod whole;

pub use self::{
    gather::Gathering,
    parts::Parts,
    whole::{Transcript, Unkept},
};

#[cfg(test)]
mod tests;
