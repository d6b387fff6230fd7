//! Offline evaluation of the semantic cache on labelled texts: streams built from labelled pairs, with a chosen share
//! of queries that have a partner in the store.
//!
//! Used by `signalbox cache eval`, by the bench and by the fit of the prior; nothing here serves traffic.

mod corpus;
mod rates;
mod stream;

pub use self::{
    corpus::{Corpus, Half, Pair, fingerprint},
    rates::{Counts, Interval, Rates, at_prevalence},
    stream::{Candidate, Query, Stream, Vectors},
};
