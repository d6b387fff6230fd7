//! How hard a prompt seems before any model has answered it: what a larger model would add, told from the prompt's bytes.
//!
//! Additive, and in the direction of harder only: every feature is a reason, no single one decides, and what is cheap to add, cues and
//! marks of form, moves the score by no more than [`MOST`] and does not count for length as well. Weights that are fitted freely on one
//! kind of traffic can fall below chance on another; weights that keep their sign and stay near a prior did not ("The Routing
//! Plateau", `LLMRouterBench`; `docs/benchmarks/complexity.md`). What is predicted is the gap between a large and a small model, not the small
//! one's failure: what both fail at is not worth a large one.

pub mod curve;
mod features;
pub mod fit;
mod latex;
pub mod learn;
mod lexicon;
mod scan;
mod score;
mod solve;
mod terms;
mod weights;

pub use features::{FEATURES, Family, Feature, Features, TABLE};
pub use score::{MOST, ranking, score};
pub use terms::{PLACES, Terms};
pub use weights::{DataSet, Learned, Line, Linear, PerFeature, Provenance, Support, Weights};
