//! What callers may use: rates, requests at once, tokens. It is reserved before a request goes on, and settled when it is over; what is
//! reserved and never settled comes back by itself, wherever the request was dropped. Pure: `now` is an argument.

mod allowance;
mod bucket;

pub use self::{
    allowance::{Allowance, Exceeded, Figures, Kind, RateLimits, Reserved, Standing, Stay},
    bucket::Bucket,
};
