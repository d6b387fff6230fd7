//! Dispatch: sends a request to the chosen backend, retries while another attempt may help, and makes another attempt
//! beside one that is silent for too long. The first attempt that begins an answer wins.

mod answer_form;
mod attempt;
mod call_ids;
mod carried_state;
mod cascade;
mod defaults;
mod deferred_head;
mod engine_control;
mod hedge;
mod hold_back;
mod left_out;
mod openai;
mod provider;
mod race;
mod resume;
mod retry;
mod same_fault;
#[cfg(test)]
mod tests;
mod upstream_api;
mod upstream_fault;

use std::sync::Arc;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::upstream_fault::fuzz_head;
use self::{attempt::Job, cascade::Escalation, race::commit, resume::StreamResumer};
use super::{
    Reply, Step,
    placement::{PlacementRequest, Reservation},
    relay,
    stages::Admitted,
};
use signalbox_journal::Explained;
use signalbox_types::Fault;
use signalbox_upstream::Client;

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
        let Admitted { call, asked, explained, first } = admitted;
        call.record.progress().dispatched();
        let job = Job::new(self.client.clone(), call);
        if job.streams() {
            let call = &job.call;
            let (record, endpoint) = (call.record.clone(), call.endpoint);
            let simulated = call.serving.snapshot.policy.simulated;
            let answer = Box::pin(answer(job, asked, explained, first));
            deferred_head::in_time(&record, endpoint, simulated, answer).await
        } else {
            Box::pin(answer(job, asked, explained, first)).await
        }
    }
}

/// Returns the reply of the first backend that begins to answer.
async fn answer(
    job: Arc<Job>,
    mut asked: PlacementRequest,
    explained: Option<Arc<Explained>>,
    first: Reservation,
) -> Result<Reply, Fault> {
    let mut committed = Box::pin(commit(&job, &mut asked, first)).await?;
    if let Some(cascade) = &asked.route.cascade {
        let escalation = Escalation { job: &job, asked: &asked, cascade };
        // Boxed, so that the futures of requests without a cascade stay small.
        committed = Box::pin(escalation.judge(committed)).await;
    }
    let route = asked.route.clone();
    let resumer = StreamResumer::of(&job, asked, &committed);
    Ok(relay::reply(committed, &job.call, (&route, explained.as_deref()), resumer))
}
