//! What a semantic cache would have done with texts of which it is known which mean the same: streams made of labelled pairs, with
//! chosen shares of queries that have a partner in the store.
//!
//! For `signalbox cache eval`, for the bench and for the fit of the prior; nothing here serves traffic.

mod corpus;
mod rates;
mod stream;

pub use self::{
    corpus::{Corpus, Half, Pair, fingerprint},
    rates::{Counts, Interval, Rates, at_prevalence},
    stream::{Candidate, Query, Stream, Vectors},
};
