//! The answer: an attempt at the backend that was chosen, and on to the next one while another try may help.

mod attempt;
mod cascade;
mod deadline;
mod provider_key;
mod tries;
mod upstream_fault;

use self::{cascade::Escalation, tries::commit};
use super::{Reply, Step, relay, stages::Admitted};
use crate::{telemetry::Stage, types::Fault, upstream::Client};

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
        let mut committed = commit(&self.client, &call, &mut asked, first).await?;
        if let Some(cascade) = &asked.route.cascade {
            let escalation = Escalation { client: &self.client, call: &call, asked: &asked, cascade };
            // In a box, so that requests without a cascade have no room for one.
            committed = Box::pin(escalation.judge(committed)).await;
        }
        Ok(relay::reply(committed, &call, &asked.route, place))
    }
}
