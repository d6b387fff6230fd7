//! The answer: an attempt at the backend that was chosen, and on to the next one while another try may help.

mod attempt;
mod deadline;
mod upstream_fault;

use http::HeaderMap;

use self::attempt::{Attempt, LOST};
use super::{
    Reply, Step,
    admit::enter,
    asked::{Asked, Placed},
    relay::{self, Committed},
    stages::{Admitted, Call},
};
use crate::{
    telemetry::Stage,
    types::{Fault, Retry},
    upstream::{Client, address},
};

/// Most engines that may break off on one request: it might be the request that brings them down, one after the other.
const MOST_LOST: usize = 2;

pub(super) struct Dispatch {
    client: Client,
}

impl Dispatch {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl Step<Admitted> for Dispatch {
    async fn call(&self, admitted: Admitted) -> Result<Reply, Fault> {
        let Admitted { call, mut asked, first, place } = admitted;
        call.record.note(|line| line.stage = Stage::Prefill);
        let committed = self.commit(&call, &mut asked, first).await?;
        Ok(relay::reply(committed, &call, &asked.route, place))
    }
}

impl Dispatch {
    /// Tries backends, from the first one placed on, until one has begun to answer.
    async fn commit(&self, call: &Call, asked: &mut Asked, first: Placed) -> Result<Committed, Fault> {
        let headers: HeaderMap = address::forwarded(&call.headers);
        let mut placed = first;
        let mut broken_off = 0;
        loop {
            asked.tries(&placed);
            let fault = match (Attempt { client: &self.client, call, asked, headers: &headers }).run(placed).await {
                Ok(committed) => return Ok(committed),
                Err(fault) => fault,
            };
            broken_off += usize::from(fault.kind == LOST);
            if fault.retry == Retry::Never || broken_off == MOST_LOST {
                return Err(fault);
            }
            // What went wrong upstream says more than that there is no other place.
            placed = enter(asked, &call.record).await.map_err(|_| fault)?;
        }
    }
}
