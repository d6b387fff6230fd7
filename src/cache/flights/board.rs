//! Joining: identical requests share one.

use std::sync::Arc;

use super::{
    flight::{Flight, FlightKey, Flights, Seat},
    passenger::Passenger,
    pilot::Pilot,
};
use crate::measure::lock;

impl<H> Flights<H> {
    /// Joins the followers of an identical request, or leads with a writer for the caller to run.
    pub fn board(self: &Arc<Self>, key: FlightKey) -> (Passenger<H>, Option<Pilot<H>>) {
        let mut flight = self.table.entry(key).or_insert_with(|| Flight::new(Some(key), self.most));
        if let Some(seat) = flight.join() {
            return (self.passenger(&flight, seat), None);
        }
        *flight = Flight::new(Some(key), self.most);
        self.lead(&flight)
    }

    /// Leads a request that no other may join.
    pub fn alone(self: &Arc<Self>) -> (Passenger<H>, Option<Pilot<H>>) {
        self.lead(&Flight::new(None, self.most))
    }

    fn lead(self: &Arc<Self>, flight: &Arc<Flight<H>>) -> (Passenger<H>, Option<Pilot<H>>) {
        let mut state = lock(&flight.state);
        state.seats.push(Some(Seat { sent: true, ..Seat::default() }));
        state.flying = Some(0);
        drop(state);
        let pilot = Pilot { flight: flight.clone(), flights: Arc::downgrade(self), over: false };
        (self.passenger(flight, 0), Some(pilot))
    }

    fn passenger(self: &Arc<Self>, flight: &Arc<Flight<H>>, seat: usize) -> Passenger<H> {
        Passenger { flight: flight.clone(), flights: Arc::downgrade(self), seat }
    }
}
