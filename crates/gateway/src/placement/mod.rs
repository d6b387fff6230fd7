//! Placement of a request on an engine: the choice of a backend with room, the permit there, and the wait for one.

mod eligible;
mod enter;
mod permit;
mod request;
mod state;

pub(super) use self::{
    enter::{come_back, enter},
    permit::EnginePermit,
    request::{PlacementRequest, Reservation, Tries},
    state::PlacementState,
};
