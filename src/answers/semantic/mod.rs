//! Answers to prompts of the same meaning: the entries, what embeds them, and what labels say of hits. What is near enough is decided by
//! vectors, guards and evidence (`cache::semantic`).

mod cost;
mod deciding;
mod embedders;
mod evidence;
mod recent;
mod state;

pub(crate) use self::evidence::Said;
pub use self::state::SemanticAnswers;
pub(super) use self::{embedders::Embedders, recent::Judged};
