//! Limits on callers: rates, concurrency, tokens, budgets. Amounts are reserved before a request proceeds and settled
//! when it ends; a reservation that is never settled is returned when it is dropped. Pure: `now` is an argument.

#![forbid(unsafe_code)]

mod allowance;
mod bucket;
mod budget;
pub mod calendar;
mod key_ring;
mod owners;
mod usage_ledger;

pub use self::{
    allowance::{
        Allowance, ConcurrencyPermit, Exceeded, Kind, LimitStatus, RateLimits, Standing, TokenReservation, within,
    },
    bucket::Bucket,
    budget::{Amount, Budget, BudgetAccount, BudgetExceeded, BudgetOwner, SpendReservation, Spent, Statement, Tally},
    calendar::Period,
    key_ring::KeyRing,
    owners::{MOST_OBJECTS, Owned, Owners},
    usage_ledger::{Entry, Row, UsageLedger, Used},
};
