//! A complete answer in both of its forms: whole, and as the events of a stream. Either can be made of the other.

mod gather;
mod replay;
mod whole;

pub use self::{
    gather::Gathering,
    whole::{Transcript, Unkept},
};

#[cfg(test)]
mod tests;
