//! Limits and budgets counted by several gateways together, through one Redis-compatible server: requests and tokens a minute, requests at
//! once, and what teams spend. A request asks there beside the count here; while the server is away, the count here alone decides.
//!
//! Nothing there has to last, and repeated reports count once. Rates decay by themselves. What a request holds has a name and a lease that
//! its gateway renews, so what a gateway held that died is released. Each gateway reports its own total of what was spent, so a gateway that
//! was away, or a server that lost its data, catches up with the next report.

mod leases;
mod names;
mod revocations;
mod server;
mod session;
mod share;
mod transaction;

pub(super) use self::{
    leases::Leases,
    names::Names,
    revocations::{Changes, Words},
    server::Joint,
    session::{LocalCounts, Session},
    share::{Full, Share},
};
