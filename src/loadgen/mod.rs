//! A load client: asks a server for answers as a plan says, and measures what its callers would have seen.
//!
//! Latencies are counted from the moment at which a request was *meant* to be sent, so that a client (or a server) that falls behind
//! shows in them. A client that waits for an answer before it sends the next request leaves out the very requests that would have
//! waited: "coordinated omission" (Gil Tene, "How NOT to Measure Latency", 2015; wrk2). What was measured from the actual sending
//! is kept beside it, and how late that was.
//!
//! Memory is bounded: by [`MOST_REQUESTS`] of a plan, each some numbers, by the answers that are open at once, and by a histogram for
//! the gaps between tokens.

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
