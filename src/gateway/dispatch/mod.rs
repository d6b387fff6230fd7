//! Which backend, and the answer: place, attempt, and on to the next one while another try may help.

mod attempt;
mod deadline;
mod place;
mod upstream_fault;

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use self::{attempt::Attempt, place::place};
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
        admitted.call.record.note(|line| line.stage = Stage::Prefill.label());
        let committed = self.commit(&admitted).await?;
        Ok(relay::reply(committed, admitted))
    }
}

impl Dispatch {
    /// Tries backends in the order of the route's pools until one has begun to answer.
    async fn commit(&self, admitted: &Admitted) -> Result<Committed, Fault> {
        let Admitted { call, route, .. } = admitted;
        let headers: HeaderMap = address::forwarded(&call.headers);
        let mut last: Option<Fault> = None;
        let mut attempts = 0;
        for target in &route.targets {
            let mut tried = Vec::new();
            while attempts < MOST_ATTEMPTS
                && let Some(placed) = place(call, target, &tried, self.desk.clock.now())
            {
                attempts += 1;
                tried.push(placed.backend);
                let attempt = Attempt { desk: &self.desk, client: &self.client, call, route, headers: &headers };
                match attempt.run(placed).await {
                    Ok(committed) => return Ok(committed),
                    Err(fault) if fault.retry == Retry::Never => return Err(fault),
                    Err(fault) => last = Some(fault),
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
