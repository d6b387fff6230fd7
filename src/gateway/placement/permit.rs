//! A request's place on an engine. Returning it, and its first token, may make room for a request that waits.

use std::sync::Arc;

use super::state::PlacementState;
use crate::{
    fleet::Ticket,
    quota::TokenReservation,
    types::{Moment, Usage},
};

/// A request's load on an engine and its charge to the provider account that pays. Dropping it returns both, and looks through the queues.
pub(in crate::gateway) struct EnginePermit {
    ticket: Option<Ticket>,
    /// Given back where nothing says what was used.
    charge: Option<TokenReservation>,
    state: Arc<PlacementState>,
}

impl EnginePermit {
    pub(in crate::gateway) fn new(
        ticket: Ticket,
        charge: Option<TokenReservation>,
        state: Arc<PlacementState>,
    ) -> Self {
        Self { ticket: Some(ticket), charge, state }
    }

    pub(in crate::gateway) fn first_token(&mut self, now: Moment) {
        self.ticket.iter_mut().for_each(|ticket| ticket.first_token(now));
        self.state.queues.stir(now);
    }

    pub(in crate::gateway) fn streamed(&mut self, tokens: u64) {
        self.ticket.iter_mut().for_each(|ticket| ticket.streamed(tokens));
    }

    /// What the provider will have counted for its account.
    pub(in crate::gateway) fn used(&mut self, tokens: u64) {
        if let Some(charge) = self.charge.take() {
            charge.settle(tokens);
        }
    }

    pub(in crate::gateway) fn finish(mut self, usage: Option<&Usage>, tpot: Option<f64>, now: Moment) {
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(usage, tpot, now);
        }
    }
}

impl Drop for EnginePermit {
    fn drop(&mut self) {
        // The ticket first: a request that is woken must find its room.
        let now = self.state.clock.now();
        if let Some(ticket) = self.ticket.take() {
            ticket.give_up(now);
        }
        self.state.queues.stir(now);
    }
}
