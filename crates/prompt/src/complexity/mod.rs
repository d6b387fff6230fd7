//! Estimates a prompt's complexity before any model has answered it: the expected quality gain of a larger model, from
//! the prompt's bytes.
//!
//! The score is a sum in which features can only make a prompt harder; no single feature decides. Features that are
//! cheap to add (cues and form) move the score by no more than `MAX_QUALITY_LOSS` and do not count as length too. Weights fitted
//! freely on one kind of traffic can fall below chance on another; weights that keep their sign and stay near a prior
//! did not ("The Routing Plateau", `LLMRouterBench`; `docs/benchmarks/complexity.md`). The target is the gap between a large and a
//! small model, not the small model's failure: a prompt that both fail at does not justify the large one.

pub mod curve;
mod features;
pub mod fit;
mod follow_up;
pub mod learn;
mod lexicon;
mod pasted;
mod question;
mod routing;
mod scan;
mod score;
mod solve;
mod task;
mod terms;
mod weights;
mod work;

pub use features::{FEATURES, Family, Feature, Features, TABLE};
pub use score::{ranking, score};
pub use terms::{PLACES, Terms};
pub use weights::{DataSet, Learned, Line, Linear, PerFeature, Provenance, Support, Weights};

/// Builds the tables that scores are computed with, which the first score would build otherwise.
pub fn warm_up() {
    follow_up::warm_up();
    lexicon::warm_up();
    routing::warm_up();
    work::warm_up();
    Weights::built_in();
}

/// True if the tables are built.
pub fn is_warm() -> bool {
    follow_up::is_warm() && lexicon::is_warm() && routing::is_warm() && work::is_warm() && weights::is_warm()
}
