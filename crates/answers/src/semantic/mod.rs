//! Answers to prompts of the same meaning: the entries, the embedders, and the evidence from labels. `cache::semantic` decides whether an entry
//! is near enough, by vectors, guards and evidence.

mod cost;
mod embedders;
mod evidence;
mod policy_embedder;
mod recent;
mod state;

pub(super) use self::{embedders::Embedders, recent::ScopedHit};
pub use self::{evidence::HitLabel, state::SemanticAnswers};
