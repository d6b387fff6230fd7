//! What callers use, counted by several gateways together, through one server: requests and tokens a minute, requests at once, and what
//! teams spend. A request asks there beside counting here, and while the server is away the count here alone decides.
//!
//! Nothing there is needed for ever, and nothing told twice counts twice. Rates flow off by themselves. What a request holds has a name, and a
//! lease that its gateway renews: what a gateway held that died comes back. Of what was spent each gateway tells its own sum, whole: one
//! that was away, or a server that has lost it, is told again.

mod deal;
mod follow;
mod names;
mod revocations;
mod roll;
mod server;
mod session;
mod share;

pub use self::follow::share_limits;
pub(super) use self::{
    names::Names,
    revocations::{Changes, Words},
    roll::Roll,
    server::Joint,
    share::{Full, Share},
};
