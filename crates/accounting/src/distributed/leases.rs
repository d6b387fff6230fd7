//! Leases of this gateway's running requests on shared limits of concurrency and of reserved budget. The session renews them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use dashmap::DashMap;

use super::transaction::{LeaseKeys, Transaction};

/// Members renewed in one transaction.
const BATCH: usize = 256;

/// The active leases of this gateway's requests, on any server.
#[derive(Debug)]
pub(crate) struct Leases {
    /// Prefix of member names, which distinguishes the processes of one gateway.
    process: u64,
    next: AtomicU64,
    active: DashMap<u64, (Arc<LeaseKeys>, u64)>,
}

/// The lease of one request. Dropping it ends its renewal.
#[derive(Debug)]
pub(super) struct Lease {
    leases: Arc<Leases>,
    number: u64,
    keys: Arc<LeaseKeys>,
    amount: u64,
}

impl Default for Leases {
    fn default() -> Self {
        Self { process: fastrand::u64(..), next: AtomicU64::new(0), active: DashMap::new() }
    }
}

impl Leases {
    /// Creates a lease that the server is about to be asked for. It is not renewed before [`Lease::activate`].
    pub(super) fn create(self: &Arc<Self>, keys: &Arc<LeaseKeys>, amount: u64) -> Lease {
        let number = self.next.fetch_add(1, Relaxed);
        Lease { leases: self.clone(), number, keys: keys.clone(), amount }
    }

    /// Transactions that renew all active leases, each small enough not to block the server.
    pub(super) fn renewals(&self) -> Vec<Transaction> {
        let mut by_keys: HashMap<*const LeaseKeys, (Arc<LeaseKeys>, Vec<String>)> = HashMap::new();
        for lease in &self.active {
            let (keys, amount) = lease.value();
            let (_, members) = by_keys.entry(Arc::as_ptr(keys)).or_insert_with(|| (keys.clone(), Vec::new()));
            members.push(self.member(*lease.key(), *amount));
        }
        let renewal = |keys: &LeaseKeys, members: &[String]| {
            let mut transaction = Transaction::default();
            transaction.renew(keys, members.to_vec());
            transaction
        };
        let all = by_keys.values();
        all.flat_map(|(keys, members)| members.chunks(BATCH).map(|members| renewal(keys, members))).collect()
    }

    fn member(&self, number: u64, amount: u64) -> String {
        format!("{:016x}:{number}:{amount}", self.process)
    }
}

impl Lease {
    /// Its member name on the server, which ends with the amount.
    pub(super) fn member(&self) -> String {
        self.leases.member(self.number, self.amount)
    }

    /// Reduces the amount to what the server granted.
    pub(super) fn shrink(&mut self, amount: u64) {
        self.amount = self.amount.min(amount);
    }

    /// Renews it from now on. Call it once the server granted it or did not answer in time: an earlier renewal could take what the server
    /// is refusing.
    pub(super) fn activate(&self) {
        self.leases.active.insert(self.number, (self.keys.clone(), self.amount));
    }

    /// Ends it and adds the release to `transaction`, which reaches the server after any renewal that still contains it.
    pub(super) fn release(self, transaction: &mut Transaction) {
        transaction.release(&self.keys, self.member());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.active.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_renewed_from_activation_to_release() {
        let (leases, one, other) =
            (Arc::new(Leases::default()), Arc::new(LeaseKeys::new("a")), Arc::new(LeaseKeys::new("b")));
        let first = leases.create(&one, 1);
        let second = leases.create(&one, 1);
        let third = leases.create(&other, 700);
        let refused = leases.create(&other, 1);
        assert!(leases.renewals().is_empty(), "a lease that may still be refused is not renewed");
        [&first, &second, &third].into_iter().for_each(Lease::activate);
        assert_ne!(first.member(), second.member());
        assert!(third.member().ends_with(":700"), "the server reads the amount from the name");
        assert_eq!(leases.renewals().len(), 2, "one transaction for each limit");
        drop(refused);
        let mut end = Transaction::default();
        first.release(&mut end);
        drop(second);
        assert!(!end.is_empty() && leases.renewals().len() == 1, "released leases are reported and not renewed");
        let many: Vec<_> = (0..BATCH).map(|_| leases.create(&other, 1)).collect();
        many.iter().for_each(Lease::activate);
        assert_eq!(leases.renewals().len(), 2);
        drop((many, third));
        assert!(leases.renewals().is_empty());
    }
}
