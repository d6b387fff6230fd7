//! Permit of a request on an engine. Its return, and the first token, may make room for a request that waits.

use std::sync::Arc;

use super::state::PlacementState;
use signalbox_fleet::Ticket;
use signalbox_quota::TokenReservation;
use signalbox_types::{Moment, Usage};

/// A request's load on an engine and its charge to the provider account that pays. Dropping it returns both and scans
/// the queues.
pub(crate) struct EnginePermit {
    ticket: Option<Ticket>,
    /// Returned in full if the usage is unknown.
    charge: Option<TokenReservation>,
    state: Arc<PlacementState>,
}

impl EnginePermit {
    pub(crate) fn new(ticket: Ticket, charge: Option<TokenReservation>, state: Arc<PlacementState>) -> Self {
        Self { ticket: Some(ticket), charge, state }
    }

    pub(crate) fn first_token(&mut self, now: Moment) {
        self.ticket.iter_mut().for_each(|ticket| ticket.first_token(now));
        self.state.queues.scan(now);
    }

    pub(crate) fn streamed(&mut self, tokens: u64) {
        self.ticket.iter_mut().for_each(|ticket| ticket.streamed(tokens));
    }

    /// Settles the charge with the tokens that the provider counts for its account.
    pub(crate) fn used(&mut self, tokens: u64) {
        if let Some(charge) = self.charge.take() {
            charge.settle(tokens);
        }
    }

    pub(crate) fn finish(mut self, usage: Option<&Usage>, tpot: Option<f64>, now: Moment) {
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(usage, tpot, now);
        }
    }
}

impl Drop for EnginePermit {
    fn drop(&mut self) {
        // Releases the ticket first, so that a waiting request finds the room.
        let now = self.state.clock.now();
        if let Some(ticket) = self.ticket.take() {
            ticket.give_up(now);
        }
        self.state.queues.scan(now);
    }
}
