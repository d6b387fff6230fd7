//! Limits and budgets shared by several gateways through one Redis-compatible server: requests and tokens per minute, concurrent requests,
//! and spending of teams and keys. A request must pass the local count and the shared count; while the server is unreachable, the local count decides
//! alone.
//!
//! The server needs no persistence, and all reports are idempotent. Rates decay by themselves. Each request's hold has a name and a lease that
//! its gateway renews, so the holds of a gateway that crashed expire. Each gateway reports its total spending, so a gateway that was offline,
//! or a server that lost its data, catches up with the next report.

mod leases;
mod revocations;
mod server;
mod server_keys;
mod session;
mod shared_reservation;
mod transaction;

pub(super) use self::{
    leases::Leases,
    revocations::{PendingRevocations, Revocations},
    server::LimitServer,
    server_keys::ServerKeys,
    session::{LocalCounts, Session},
    shared_reservation::{SharedLimitExceeded, SharedReservation},
};
