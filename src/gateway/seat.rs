//! A request's place on an engine. Giving it back, and its first token, may make room for one that waits.

use std::sync::Arc;

use super::Desk;
use crate::{
    fleet::Ticket,
    quota::TokenReservation,
    types::{Moment, Usage},
};

/// A ticket, what it takes of the account that pays, and the hall that is told when it is over: the ticket itself knows no time, and nobody
/// who waits.
pub(super) struct Seat {
    ticket: Option<Ticket>,
    /// Given back where nothing says what was used.
    charge: Option<TokenReservation>,
    desk: Arc<Desk>,
}

impl Seat {
    pub(super) fn new(ticket: Ticket, charge: Option<TokenReservation>, desk: Arc<Desk>) -> Self {
        Self { ticket: Some(ticket), charge, desk }
    }

    pub(super) fn first_token(&mut self, now: Moment) {
        self.ticket.iter_mut().for_each(|ticket| ticket.first_token(now));
        self.desk.hall.stir(now);
    }

    pub(super) fn streamed(&mut self, tokens: u64) {
        self.ticket.iter_mut().for_each(|ticket| ticket.streamed(tokens));
    }

    /// What the provider will have counted for its account.
    pub(super) fn used(&mut self, tokens: u64) {
        if let Some(charge) = self.charge.take() {
            charge.settle(tokens);
        }
    }

    pub(super) fn finish(mut self, usage: Option<&Usage>, tpot: Option<f64>, now: Moment) {
        if let Some(ticket) = self.ticket.take() {
            ticket.finish(usage, tpot, now);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // First the ticket: whoever is woken is to find its room.
        let now = self.desk.clock.now();
        if let Some(ticket) = self.ticket.take() {
            ticket.give_up(now);
        }
        self.desk.hall.stir(now);
    }
}
