//! Admission to a pool: the wait queue, the room on its engines, and shedding.
//!
//! A request waits here rather than in an engine's queue, because the order can still change here: urgent requests
//! overtake, callers take turns, and abandoned ones are removed. It waits while no candidate [has room](Occupancy::has_room), and while its
//! engine [has enough work](holds). A request that cannot be served in time is [shed](shed()) on arrival, while the
//! client can still go elsewhere.

mod hold;
mod queue;
mod room;
mod shed;
mod turns;
mod waiting;

pub use self::{
    hold::{WaitLimit, due, holds, late, wait_limit},
    queue::{Queue, Queued, Refused, Waiting},
    room::Occupancy,
    shed::{Backlog, retry_after, shed},
    turns::Key,
    waiting::{RECHECK_INTERVAL, TryAdmit, Wait, admit_waiting},
};
