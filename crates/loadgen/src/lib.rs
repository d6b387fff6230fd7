//! Load generator: sends requests as planned and measures latencies as callers see them.
//!
//! Latencies count from the time at which a request was *meant* to be sent, so that a client or server that falls behind shows in them. A
//! client that waits for an answer before it sends the next request omits the requests that would have waited: "coordinated omission" (Gil
//! Tene, "How NOT to Measure Latency", 2015; wrk2). Latencies from the actual sending are reported too, with the delay.
//!
//! Memory is bounded: by [`MOST_REQUESTS`] of a plan, each some numbers; by the open answers; and by a histogram for the gaps between tokens.

#![forbid(unsafe_code)]

mod compare;
mod figures;
mod http;
mod outcome;
mod plan;
mod prompt;
mod run;
mod tally;
mod trial;

pub use self::{
    compare::{Counted, Gateway, Seen},
    figures::{Figures, Row, Slo},
    http::{Http, SetUp},
    outcome::{Answer, Failure},
    plan::{Arrivals, Ask, Lengths, Limits, MOST_REQUESTS, Plan, Shape},
    run::{Load, Progress, Target, run},
    tally::{Kind, Tally},
    trial::{Refused, first_model, trial},
};
