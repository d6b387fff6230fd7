//! What decides by which route each simulated request goes.

use std::sync::Arc;

use super::traffic::Request;
use crate::{fleet::Snapshot, policy::Route, telemetry::PoolMetrics, types::Moment};

/// What a simulated gateway is like when a request comes.
#[derive(Copy, Clone)]
pub struct Scene<'a> {
    /// The present.
    pub now: Moment,
    /// The policy, alive.
    pub snapshot: &'a Snapshot,
    /// How each of its pools fared lately.
    pub meters: &'a [Arc<PoolMetrics>],
    /// How many requests wait for room in each.
    pub waiting: &'a [usize],
    /// The prompt, as the scheduler sees it.
    pub prompt: crate::types::Prompt<'a>,
}

/// Where a request goes, and what else its policy says of it.
#[derive(Clone, Debug)]
pub struct Directed {
    /// The route: only pools that can take it.
    pub route: Arc<Route>,
    /// How urgent it is where it has to wait, from 0 to 9.
    pub priority: u8,
    /// The client's limit on its answer, in tokens.
    pub max_tokens: Option<u64>,
}

/// Gives requests their routes.
pub trait Router {
    /// Where request number `number` goes; `None` where the policy has no way for it.
    fn direct(&mut self, number: u32, request: &Request, scene: &Scene<'_>) -> Option<Directed>;
}

/// The same route for all.
pub struct Fixed(pub Arc<Route>);

impl Router for Fixed {
    fn direct(&mut self, _: u32, _: &Request, _: &Scene<'_>) -> Option<Directed> {
        Some(Directed { route: self.0.clone(), priority: crate::policy::PRIORITY, max_tokens: None })
    }
}
