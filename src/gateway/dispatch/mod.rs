//! Which backend, and the answer: place, attempt, and on to the next one while another try may help.

mod attempt;
mod deadline;
mod place;
mod upstream_fault;

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use self::{
    attempt::{Attempt, LOST},
    place::place,
};
use super::{
    Desk, Reply, Step,
    relay::{self, Committed},
    stages::Admitted,
};
use crate::{
    telemetry::Stage,
    types::{Fault, Retry},
    upstream::{Client, address},
};

/// Most attempts at one request, over all backends and pools.
const MOST_ATTEMPTS: usize = 6;
/// Most engines that may break off on one request: it might be the request that brings them down, one after the other.
const MOST_LOST: usize = 2;

/// How many attempts there may have been when a pool is given up that came after `made` of them, with `pools` still to follow:
/// a large pool that is down leaves one for each of these, and every pool gets one while there are any.
fn most_until(made: usize, pools: usize) -> usize {
    MOST_ATTEMPTS.saturating_sub(pools).max(made + 1).min(MOST_ATTEMPTS)
}

pub(super) struct Dispatch {
    desk: Arc<Desk>,
    client: Client,
}

impl Dispatch {
    pub(super) fn new(desk: Arc<Desk>, client: Client) -> Self {
        Self { desk, client }
    }
}

impl Step<Admitted> for Dispatch {
    async fn call(&self, admitted: Admitted) -> Result<Reply, Fault> {
        admitted.call.record.note(|line| line.stage = Stage::Prefill);
        let committed = self.commit(&admitted).await?;
        Ok(relay::reply(committed, admitted))
    }
}

impl Dispatch {
    /// Tries backends in the order of the route's pools until one has begun to answer.
    async fn commit(&self, admitted: &Admitted) -> Result<Committed, Fault> {
        let Admitted { call, blocks, route, .. } = admitted;
        let headers: HeaderMap = address::forwarded(&call.headers);
        let mut last: Option<Fault> = None;
        let mut attempts = 0;
        let mut broken_off = 0;
        for (at, target) in route.targets.iter().enumerate() {
            let mut tried = Vec::new();
            let most = most_until(attempts, route.targets.len() - at - 1);
            while attempts < most
                && let Some(placed) = place(call, blocks, target, &tried, self.desk.clock.now())
            {
                attempts += 1;
                tried.push(placed.backend);
                let attempt =
                    Attempt { desk: &self.desk, client: &self.client, call, blocks, route, headers: &headers };
                match attempt.run(placed).await {
                    Ok(committed) => return Ok(committed),
                    Err(fault) if fault.retry == Retry::Never => return Err(fault),
                    Err(fault) => {
                        broken_off += usize::from(fault.kind == LOST);
                        if broken_off == MOST_LOST {
                            return Err(fault);
                        }
                        last = Some(fault);
                    }
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            let name = &route.name;
            let message = format!("no backend serves the route '{name}' at present: its pools have none that fits");
            Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "no_backend", message)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pool_uses_up_the_attempts_of_those_after_it() {
        // One pool alone, the first and the second of two, and more pools than attempts.
        assert_eq!([most_until(0, 0), most_until(0, 1), most_until(5, 0)], [6, 5, 6]);
        assert_eq!([most_until(0, 8), most_until(1, 7), most_until(5, 3), most_until(6, 2)], [1, 2, 6, 6]);
    }
}
