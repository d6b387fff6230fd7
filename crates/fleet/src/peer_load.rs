//! Requests of other gateways on an engine, as these report them. A report holds for a moment only: load that is late is
//! worse than none.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::View;
use signalbox_types::Moment;

/// Time for which a report counts.
const FRESH: Duration = Duration::from_millis(500);
/// Most gateways whose reports are kept.
const MOST_PEERS: usize = 64;

/// Requests of one gateway on an engine.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineLoad {
    /// Requests under way.
    pub in_flight: u32,
    /// Of these, the requests that decode.
    pub decoding: u32,
    /// Prompt tokens that are still to be computed.
    pub queued_tokens: u64,
    /// Of these, the tokens of streamed requests.
    pub streamed_tokens: u64,
    /// Prompt tokens of the decoding requests.
    pub context_tokens: u64,
    /// Tokens of prompts and expected answers of all requests.
    pub promised_tokens: u64,
    /// Uncached prompt tokens dispatched since its start.
    pub sent_tokens: u64,
    /// Share of the engine's time that its recent prompts take.
    pub utilisation: f64,
}

impl EngineLoad {
    /// A gateway's own load, with the tokens it has sent.
    pub(super) const fn new(view: &View, sent_tokens: u64) -> Self {
        Self {
            in_flight: view.in_flight,
            decoding: view.decoding,
            queued_tokens: view.queued_tokens,
            streamed_tokens: view.streamed_tokens,
            context_tokens: view.context_tokens,
            promised_tokens: view.promised_tokens,
            sent_tokens,
            utilisation: view.utilisation,
        }
    }
}

/// The last reports of all other gateways about an engine.
#[derive(Debug, Default)]
pub(super) struct PeerLoads {
    /// Nanoseconds of the [`Moment`] until which a report counts; 0 before the first. Decisions read it for every
    /// engine.
    fresh_until: AtomicU64,
    reports: Mutex<Vec<(u64, Moment, EngineLoad)>>,
}

impl PeerLoads {
    /// Records the report of a gateway.
    pub(super) fn record(&self, gateway: u64, load: EngineLoad, now: Moment) {
        let mut reports = self.reports.lock();
        if let Some(known) = reports.iter_mut().find(|(known, ..)| *known == gateway) {
            *known = (gateway, now, load);
        } else if reports.len() < MOST_PEERS {
            reports.push((gateway, now, load));
        } else if let Some(oldest) = reports.iter_mut().min_by_key(|(_, at, _)| *at) {
            *oldest = (gateway, now, load);
        }
        drop(reports);
        self.fresh_until.fetch_max(now.plus(FRESH).nanos(), Relaxed);
    }

    /// The load of all other gateways together. The tokens they have sent also count where a report is old.
    pub(super) fn sum(&self, now: Moment) -> EngineLoad {
        let mut sum = EngineLoad::default();
        if self.fresh_until.load(Relaxed) == 0 {
            return sum;
        }
        for (_, at, load) in self.reports.lock().iter() {
            sum.sent_tokens = sum.sent_tokens.saturating_add(load.sent_tokens);
            if now.since(*at) <= FRESH {
                sum.in_flight = sum.in_flight.saturating_add(load.in_flight);
                sum.decoding = sum.decoding.saturating_add(load.decoding);
                sum.queued_tokens = sum.queued_tokens.saturating_add(load.queued_tokens);
                sum.streamed_tokens = sum.streamed_tokens.saturating_add(load.streamed_tokens);
                sum.context_tokens = sum.context_tokens.saturating_add(load.context_tokens);
                sum.promised_tokens = sum.promised_tokens.saturating_add(load.promised_tokens);
                sum.utilisation += load.utilisation.clamp(0.0, 1.0);
            }
        }
        sum
    }

    /// Adds the load of the other gateways to `view`, the load of this one.
    pub(super) fn add_to(&self, view: View, now: Moment) -> View {
        if self.fresh_until.load(Relaxed) < now.nanos() {
            return view;
        }
        let peers = self.sum(now);
        View {
            in_flight: view.in_flight.saturating_add(peers.in_flight),
            queued_tokens: view.queued_tokens.saturating_add(peers.queued_tokens),
            streamed_tokens: view.streamed_tokens.saturating_add(peers.streamed_tokens),
            decoding: view.decoding.saturating_add(peers.decoding),
            context_tokens: view.context_tokens.saturating_add(peers.context_tokens),
            promised_tokens: view.promised_tokens.saturating_add(peers.promised_tokens),
            utilisation: view.utilisation + peers.utilisation,
            ..view
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_add_up_and_expire() {
        let peers = PeerLoads::default();
        let at = |millis| Moment::default().plus(Duration::from_millis(millis));
        let load = |in_flight| EngineLoad { in_flight, queued_tokens: 100, sent_tokens: 1000, ..EngineLoad::default() };
        let own = View { in_flight: 1, queued_tokens: 7, ..View::default() };
        let seen = |now| {
            let view = peers.add_to(own, at(now));
            (view.in_flight, view.queued_tokens, peers.sum(at(now)).sent_tokens)
        };
        assert_eq!(seen(0), (1, 7, 0));
        peers.record(1, load(2), at(0));
        peers.record(2, load(3), at(400));
        peers.record(1, load(4), at(401));
        assert_eq!(seen(402), (8, 207, 2000));
        assert_eq!(seen(901), (5, 107, 2000), "the second gateway is silent; what it sent stays sent");
        assert_eq!(seen(902), (1, 7, 2000));
        (0..1000).for_each(|gateway| peers.record(gateway, load(u32::MAX), at(1000)));
        assert_eq!(peers.reports.lock().len(), MOST_PEERS);
        assert_eq!(seen(1000).0, u32::MAX);
    }
}
