//! Answers to prompts that mean the same: the second half of the cache. What is near enough is decided by vectors, guards and evidence
//! (`cache::semantic`); here is what embeds, what labels come in, and how often hits were false.

mod cost;
mod deciding;
mod embedders;
mod evidence;
mod keep;
mod look;
mod recent;
mod remake;
mod state;

pub(super) use self::{
    evidence::Said,
    keep::{Answered, keep, learn, verify},
    look::{Hit, Looked, Pending, Sought, look},
    state::Meanings,
};
