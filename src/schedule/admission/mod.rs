//! Whether a request may go now, is to wait, or is better told at once to come back: the queue before a pool, the room in it,
//! and shedding.
//!
//! A request waits here rather than in an engine's own queue, because here the order can still change: the urgent may pass, and
//! who left makes way. It waits while no candidate [has room](Occupancy::has_room), and while the one that it should go to
//! [has enough to do](holds); what cannot be served in time is [shed](shed()) on arrival, while the client can still go elsewhere.

mod hold;
mod looks;
mod patience;
mod queue;
mod room;
mod seating;
mod shed;

pub use self::{
    hold::{due, holds},
    patience::{Patience, patience},
    queue::{Key, Queue, Queued, Refused, Waiting},
    room::{Occupancy, has_room},
    seating::{LOOK, Usher, Wait, seat},
    shed::{Backlog, retry_after, shed},
};
