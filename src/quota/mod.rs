//! Limits on callers: rates, concurrency, tokens, budgets. Amounts are reserved before a request proceeds and settled
//! when it ends; a reservation that is never settled is returned when it is dropped. Pure: `now` is an argument.

mod allowance;
mod book;
mod bucket;
mod budget;
pub mod calendar;
mod key_ring;
mod owners;

pub use self::{
    allowance::{Allowance, Exceeded, Figures, Kind, RateLimits, Reserved, Standing, Stay, within},
    book::{Book, Entry, Row, Used},
    bucket::Bucket,
    budget::{Amount, Budget, Fund, Grant, Overspent, Spent, Statement, Tally},
    calendar::Period,
    key_ring::KeyRing,
    owners::{MOST_OBJECTS, Owned, Owners},
};
