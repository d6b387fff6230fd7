//! Metrics pages of engines: the text format, the form of a profile's names, and the signals that a page carries.

pub(crate) mod page;
mod parse;
mod read;

pub(crate) use self::read::read_signals;
pub use self::{
    page::{Fold, MetricsPage, Pick, Signal, Take},
    parse::{Labels, Sample, samples},
};
