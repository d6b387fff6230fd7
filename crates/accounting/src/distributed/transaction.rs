//! A transaction on the limit server: parts that one script applies all together or not at all.

use std::sync::Arc;

use ::redis::{Cmd, cmd};
use serde::Serialize;

use signalbox_quota::Statement;

/// The script that applies a transaction.
pub(super) const SCRIPT: &str = include_str!("script.lua");

/// Seconds of a day. Spending stays on the server this long after its period, so that gateways with different clocks do not recreate it.
const DAY: i64 = 86_400;

/// Parts, and the server's keys that they refer to.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    keys: Vec<Arc<str>>,
    parts: Vec<Part>,
}

/// A part, as the script reads it. `key`, `sum` and `spent` are indexes into the list of keys, from one.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Part {
    /// Takes from a rate, if enough is left.
    Take { key: usize, limit: u64, count: u64 },
    /// Corrects an earlier `take`: a positive count takes more, a negative count gives back.
    Correct { key: usize, limit: u64, count: i64 },
    /// Holds an amount under a lease, or the rest if that is less, but not less than the minimum.
    Hold {
        key: usize,
        sum: usize,
        #[serde(flatten)]
        size: Hold,
        member: String,
        #[serde(flatten)]
        spending: Option<Spending>,
    },
    /// Releases a hold.
    Release { key: usize, sum: usize, member: String },
    /// Renews the leases of holds.
    Renew { key: usize, sum: usize, members: Vec<String> },
    /// Reports the total spending of this gateway.
    Spend(Spending),
}

#[derive(Debug, Serialize)]
struct Spending {
    spent: usize,
    gateway: Arc<str>,
    own: u64,
    until: i64,
}

/// The size of a hold: `amount` or what is left of `most`, and at least `least`.
#[derive(Copy, Clone, Debug, Serialize)]
pub(super) struct Hold {
    pub(super) most: u64,
    pub(super) least: u64,
    pub(super) amount: u64,
}

/// The server's keys of the leases on one limit: the set of members, and the sum of their amounts.
#[derive(Debug)]
pub(super) struct LeaseKeys {
    members: Arc<str>,
    sum: Arc<str>,
}

/// The answer: the refused part, counted from one, or zero; and the figures of each part.
pub(super) type Answer = (usize, Vec<Vec<u64>>);

impl LeaseKeys {
    pub(super) fn new(name: &str) -> Self {
        Self { members: name.into(), sum: format!("{name}:sum").into() }
    }
}

impl Transaction {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds a `take`. Its figures: the used parts of the rate (see [`Bucket::used`](signalbox_quota::Bucket::used)). Returns its index.
    pub(super) fn take(&mut self, rate: &Arc<str>, limit: u64, count: u64) -> usize {
        let key = self.key(rate);
        self.add(Part::Take { key, limit, count })
    }

    pub(super) fn correct(&mut self, rate: &Arc<str>, limit: u64, count: i64) {
        let key = self.key(rate);
        self.add(Part::Correct { key, limit, count });
    }

    /// Adds a hold. Its figures: the sum held and spent, the spending of all gateways, and that of this gateway. `spending`: the key that counts
    /// the spending, this gateway's statement and its id. Returns its index.
    pub(super) fn hold(
        &mut self,
        keys: &LeaseKeys,
        size: Hold,
        member: String,
        spending: Option<(&Arc<str>, &Statement, &Arc<str>)>,
    ) -> usize {
        let (key, sum) = self.lease_keys(keys);
        let spending = spending.map(|(at, statement, gateway)| self.spending(at, statement, gateway));
        self.add(Part::Hold { key, sum, size, member, spending })
    }

    pub(super) fn release(&mut self, keys: &LeaseKeys, member: String) {
        let (key, sum) = self.lease_keys(keys);
        self.add(Part::Release { key, sum, member });
    }

    pub(super) fn renew(&mut self, keys: &LeaseKeys, members: Vec<String>) {
        let (key, sum) = self.lease_keys(keys);
        self.add(Part::Renew { key, sum, members });
    }

    /// Adds a report of spending. Its figures: the spending of all gateways, and that of this gateway. Returns its index.
    pub(super) fn spend(&mut self, at: &Arc<str>, statement: &Statement, gateway: &Arc<str>) -> usize {
        let spending = self.spending(at, statement, gateway);
        self.add(Part::Spend(spending))
    }

    /// The command: with the script's hash, or with its text.
    pub(super) fn command(&self, hash: Option<&str>) -> Cmd {
        let mut command = match hash {
            Some(hash) => cmd("EVALSHA").arg(hash).take(),
            None => cmd("EVAL").arg(SCRIPT).take(),
        };
        // Serialising numbers and strings cannot fail.
        let parts = serde_json::to_string(&self.parts).unwrap_or_default();
        command.arg(self.keys.len()).arg(self.keys.iter().map(|key| &**key).collect::<Vec<_>>()).arg(parts);
        command
    }

    fn spending(&mut self, at: &Arc<str>, statement: &Statement, gateway: &Arc<str>) -> Spending {
        Spending { spent: self.key(at), gateway: gateway.clone(), own: statement.spent, until: statement.until + DAY }
    }

    fn key(&mut self, key: &Arc<str>) -> usize {
        self.keys.push(key.clone());
        self.keys.len()
    }

    fn lease_keys(&mut self, keys: &LeaseKeys) -> (usize, usize) {
        (self.key(&keys.members), self.key(&keys.sum))
    }

    fn add(&mut self, part: Part) -> usize {
        self.parts.push(part);
        self.parts.len() - 1
    }
}
