//! What callers may use: rates, requests at once, tokens, budgets. It is reserved before a request goes on, and settled when it is over; what
//! is reserved and never settled comes back by itself, wherever the request was dropped. Pure: `now` is an argument.

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
