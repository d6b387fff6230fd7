//! What the server is asked or told in one step: parts that are all done, or none of them.

use std::sync::Arc;

use ::redis::{Cmd, cmd};
use serde::Serialize;

use crate::quota::Statement;

/// What the server does with it.
pub(super) const SCRIPT: &str = include_str!("script.lua");

/// Seconds of a day: for so long what was spent stays there after its period, lest clocks that differ bring it back and forth.
const DAY: i64 = 86_400;

/// What is asked or told.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    keys: Vec<Arc<str>>,
    parts: Vec<Part>,
}

/// A part, as the script reads it. `key`, `sum` and `spent` are places in the list of keys.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum Part {
    /// Takes of a rate, where there is so much.
    Take { key: usize, limit: u64, count: u64 },
    /// Gives back to it, or takes what is missing.
    Correct { key: usize, limit: u64, count: i64 },
    /// Holds an amount, or what is left where that is less but not below the least.
    Hold {
        key: usize,
        sum: usize,
        #[serde(flatten)]
        room: Room,
        member: String,
        #[serde(flatten)]
        spending: Option<Spending>,
    },
    /// Holds it no longer.
    Release { key: usize, sum: usize, member: String },
    /// Goes on holding.
    Renew { key: usize, sum: usize, members: Vec<String> },
    /// Tells what was spent.
    Spend(Spending),
}

#[derive(Debug, Serialize)]
struct Spending {
    spent: usize,
    gateway: Arc<str>,
    own: u64,
    until: i64,
}

/// How much is to be held: of `most` in all, `amount` or what is left, and no less than `least`.
#[derive(Copy, Clone, Debug, Serialize)]
pub(super) struct Room {
    pub(super) most: u64,
    pub(super) least: u64,
    pub(super) amount: u64,
}

/// Where the server has what is held.
#[derive(Debug)]
pub(super) struct Place {
    members: Arc<str>,
    sum: Arc<str>,
}

/// What came of it: the part that there is no room for, counted from one, or zero; and what each part has to tell.
pub(super) type Answer = (usize, Vec<Vec<u64>>);

impl Place {
    pub(super) fn new(name: &str) -> Self {
        Self { members: name.into(), sum: format!("{name}:sum").into() }
    }
}

impl Transaction {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Tells the parts that are used of the rate (see [`Bucket::used`](crate::quota::Bucket::used)).
    pub(super) fn take(&mut self, rate: &Arc<str>, limit: u64, count: u64) -> usize {
        let key = self.key(rate);
        self.add(Part::Take { key, limit, count })
    }

    pub(super) fn correct(&mut self, rate: &Arc<str>, limit: u64, count: i64) {
        let key = self.key(rate);
        self.add(Part::Correct { key, limit, count });
    }

    /// Tells what is held and spent already, what was spent by all, and what by this gateway. `spent`: where that is
    /// counted, what this gateway tells of it, and what it is called there.
    pub(super) fn hold(
        &mut self,
        place: &Place,
        room: Room,
        member: String,
        spent: Option<(&Arc<str>, &Statement, &Arc<str>)>,
    ) -> usize {
        let (key, sum) = self.place(place);
        let spending = spent.map(|(at, statement, gateway)| self.spending(at, statement, gateway));
        self.add(Part::Hold { key, sum, room, member, spending })
    }

    pub(super) fn release(&mut self, place: &Place, member: String) {
        let (key, sum) = self.place(place);
        self.add(Part::Release { key, sum, member });
    }

    pub(super) fn renew(&mut self, place: &Place, members: Vec<String>) {
        let (key, sum) = self.place(place);
        self.add(Part::Renew { key, sum, members });
    }

    /// Tells what was spent by all, and what by this gateway.
    pub(super) fn spend(&mut self, at: &Arc<str>, statement: &Statement, gateway: &Arc<str>) -> usize {
        let spending = self.spending(at, statement, gateway);
        self.add(Part::Spend(spending))
    }

    /// As the server takes it: by the script's name there, or with its text.
    pub(super) fn command(&self, name: Option<&str>) -> Cmd {
        let mut command = match name {
            Some(name) => cmd("EVALSHA").arg(name).take(),
            None => cmd("EVAL").arg(SCRIPT).take(),
        };
        // Numbers and strings: that cannot fail.
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

    fn place(&mut self, place: &Place) -> (usize, usize) {
        (self.key(&place.members), self.key(&place.sum))
    }

    fn add(&mut self, part: Part) -> usize {
        self.parts.push(part);
        self.parts.len() - 1
    }
}
