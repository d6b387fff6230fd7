//! Replay of the semantic cache on labelled pairs: streams of queries over a store, with chosen shares of queries that have a partner in it.
//!
//! Used by `signalbox cache eval`, by the cache bench and by the fit of the prior.

mod corpus;
mod embed;
mod rates;
mod stream;

pub use self::{
    corpus::{Corpus, Half, Pair, fingerprint},
    embed::{BuiltInVectors, built_in_vectors},
    rates::{Counts, Interval, Rates, at_prevalence},
    stream::{Candidate, Query, Stream, Vectors},
};
