//! What the requests under way hold of limits on what may be held at once: it is renewed from here.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use dashmap::DashMap;

use super::transaction::{Place, Transaction};

/// Members that are renewed in one step.
const BATCH: usize = 256;

/// What is held by requests of this gateway, whichever server they have asked.
#[derive(Debug)]
pub(crate) struct Leases {
    /// What the names of its members begin with: another process's are not ours, even if it is of the same gateway.
    process: u64,
    next: AtomicU64,
    held: DashMap<u64, (Arc<Place>, u64)>,
}

/// What one request holds; dropped, it is not renewed any more.
#[derive(Debug)]
pub(super) struct Entry {
    roll: Arc<Leases>,
    number: u64,
    place: Arc<Place>,
    amount: u64,
}

impl Default for Leases {
    fn default() -> Self {
        Self { process: fastrand::u64(..), next: AtomicU64::new(0), held: DashMap::new() }
    }
}

impl Leases {
    /// What the server is about to be asked for.
    pub(super) fn enter(self: &Arc<Self>, place: &Arc<Place>, amount: u64) -> Entry {
        let number = self.next.fetch_add(1, Relaxed);
        Entry { roll: self.clone(), number, place: place.clone(), amount }
    }

    /// What keeps all of it, in steps that do not keep the server from its other work.
    pub(super) fn renewals(&self) -> Vec<Transaction> {
        let mut places: HashMap<*const Place, (Arc<Place>, Vec<String>)> = HashMap::new();
        for held in &self.held {
            let (place, amount) = held.value();
            let (_, members) = places.entry(Arc::as_ptr(place)).or_insert_with(|| (place.clone(), Vec::new()));
            members.push(self.member(*held.key(), *amount));
        }
        let renewal = |place: &Place, members: &[String]| {
            let mut deal = Transaction::default();
            deal.renew(place, members.to_vec());
            deal
        };
        let places = places.values();
        places.flat_map(|(place, members)| members.chunks(BATCH).map(|members| renewal(place, members))).collect()
    }

    fn member(&self, number: u64, amount: u64) -> String {
        format!("{:016x}:{number}:{amount}", self.process)
    }
}

impl Entry {
    /// Its name there.
    pub(super) fn member(&self) -> String {
        self.roll.member(self.number, self.amount)
    }

    /// It holds no more than this.
    pub(super) fn shrink(&mut self, amount: u64) {
        self.amount = self.amount.min(amount);
    }

    /// It is renewed from now on: the server was asked for it and has not refused, or has not been heard. Before, a renewal would take
    /// what it is just refusing.
    pub(super) fn keep(&self) {
        self.roll.held.insert(self.number, (self.place.clone(), self.amount));
    }

    /// It is over: `deal` tells the server, later than any renewal that still has it.
    pub(super) fn release(self, deal: &mut Transaction) {
        deal.release(&self.place, self.member());
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.roll.held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_renewed_until_it_is_over() {
        let (roll, one, other) = (Arc::new(Leases::default()), Arc::new(Place::new("a")), Arc::new(Place::new("b")));
        let first = roll.enter(&one, 1);
        let second = roll.enter(&one, 1);
        let third = roll.enter(&other, 700);
        let refused = roll.enter(&other, 1);
        assert!(roll.renewals().is_empty(), "nothing is taken by a renewal that may still be refused");
        [&first, &second, &third].into_iter().for_each(Entry::keep);
        assert_ne!(first.member(), second.member());
        assert!(third.member().ends_with(":700"), "the server reads the amount from the name");
        assert_eq!(roll.renewals().len(), 2, "a step for each place");
        drop(refused);
        let mut end = Transaction::default();
        first.release(&mut end);
        drop(second);
        assert!(!end.is_empty() && roll.renewals().len() == 1, "what is over is told, and not renewed");
        let many: Vec<_> = (0..BATCH).map(|_| roll.enter(&other, 1)).collect();
        many.iter().for_each(Entry::keep);
        assert_eq!(roll.renewals().len(), 2);
        drop((many, third));
        assert!(roll.renewals().is_empty());
    }
}
