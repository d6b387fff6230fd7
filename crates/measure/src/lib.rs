//! Running estimates of measurements: quantiles over recent windows, decayed means, rates and ratios. Pure: `now` is an
//! argument, and nothing here reads a clock, waits or does I/O.
//!
//! Every estimate is shared by reference between threads and holds its lock, if it has one, for well under a
//! microsecond. A sample that is not a finite number of the expected sign is dropped, so that one broken measurement
//! cannot poison a mean.

#![forbid(unsafe_code)]

pub mod beta;
mod burn;
mod bytes_per_token;
mod peak_ewma;
mod rate;
mod rls;
mod sketch;
mod smallest;
mod window;

pub use self::{
    burn::{BudgetStanding, BudgetState, BurnRule, BurnRules, ErrorBudget, window_name},
    bytes_per_token::BytesPerToken,
    peak_ewma::PeakEwma,
    rate::{Rate, RateSpan},
    rls::Rls,
    sketch::{Sketch, Summary},
    smallest::Smallest,
    window::{Span, Window, merged},
};
