//! What each caller uses of what it may use, alive: it outlives policies, keyed by the key's id and the team's name.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use dashmap::DashMap;

use super::{
    KeepError,
    distributed::{Changes, Joint, Leases, LocalCounts, Names, Session, Words},
    key_state::Known,
    usage_store::{Standing, UsageStore},
};
use crate::{
    measure::lock,
    policy::{self, Policy},
    quota::{Allowance, BudgetAccount, Owners, Tally, UsageLedger},
    redis::{LinkError, maintain},
    telemetry::{KeyMetrics, Metrics},
    types::{Moment, Name, wall_clock},
};

/// Seconds of a day.
const DAY: i64 = 86_400;

/// Every caller with a key in the policy in force, every team with a budget, and what all of them used.
#[derive(Default)]
pub struct Callers {
    pub(super) known: DashMap<Name, Arc<Known>>,
    pub(super) funds: DashMap<Name, Arc<BudgetAccount>>,
    /// Ids of the keys that are revoked, by their hashes: another secret under the same id is another key.
    pub(super) revoked: Mutex<BTreeMap<[u8; 32], Name>>,
    /// Ids of the policy's keys, by their hashes.
    ids: Mutex<BTreeMap<[u8; 32], Name>>,
    /// With whom all this is counted together, if with anybody.
    joint: ArcSwapOption<Joint>,
    /// What requests under way hold of what is counted together.
    roll: Arc<Leases>,
    /// What they call this gateway's own account of what was spent: it goes with what is kept.
    ledger: OnceLock<Name>,
    /// What they are to be told of keys.
    changes: Changes,
    /// What was used, day by day.
    pub book: UsageLedger,
    /// Which key each object at a provider belongs to.
    pub(crate) objects: Owners,
    /// What teams had spent when the process began.
    before: Mutex<BTreeMap<Name, Tally>>,
    /// Where all that is kept, if anywhere.
    kept: Mutex<Option<UsageStore>>,
    /// Whether use is noted at all: where nobody is asked for a key and nothing is kept, it is not.
    pub(super) notes: AtomicBool,
}

/// Who calls with one key, as one policy has it.
pub(crate) struct Caller {
    /// The key's id.
    pub(crate) id: Name,
    /// Its team, where it has one.
    pub(crate) team: Option<Name>,
    /// What its team may spend, where that is limited.
    pub(super) fund: Option<Arc<BudgetAccount>>,
    pub(super) known: Arc<Known>,
    /// Where its use is counted for metrics.
    pub(crate) metrics: Arc<KeyMetrics>,
    /// With whom its use is counted together, and where.
    pub(super) joint: Option<(Arc<Joint>, Arc<Names>)>,
}

impl Caller {
    /// Whether its key was revoked.
    pub(crate) fn is_revoked(&self) -> bool {
        self.known.revoked.load(Relaxed)
    }
}

impl Callers {
    /// Keeps to another policy; gives its callers, in the order of its keys.
    pub(crate) fn follow(&self, policy: &Policy, metrics: &Metrics, now: Moment) -> Vec<Arc<Caller>> {
        self.notes.store(!policy.keys.is_empty() || policy.usage.is_some(), Relaxed);
        self.known.retain(|id, _| policy.keys.iter().any(|key| key.id == *id));
        self.fund(policy);
        // Held, so that no revocation comes in between.
        let revoked = lock(&self.revoked);
        *lock(&self.ids) = policy.keys.iter().map(|key| (key.hash, key.id.clone())).collect();
        let joint = self.joint.load_full();
        let caller = |key: &policy::Key| {
            let known = self.known(key, now);
            known.revoked.store(revoked.contains_key(&key.hash), Relaxed);
            let fund = key.team.as_ref().and_then(|team| self.funds.get(team)).map(|fund| fund.clone());
            let budget = policy.teams.iter().find(|team| key.team.as_ref() == Some(&team.name));
            let names = || Arc::new(Names::new(key, budget.map(|team| team.budget.amount)));
            let joint = joint.clone().map(|joint| (joint, names()));
            let metrics = metrics.key(&key.id);
            Arc::new(Caller { id: key.id.clone(), team: key.team.clone(), fund, known, metrics, joint })
        };
        policy.keys.iter().map(caller).collect()
    }

    fn known(&self, key: &policy::Key, now: Moment) -> Arc<Known> {
        let known = self.known.get(&key.id).map(|known| known.clone());
        if let Some(known) = known {
            known.allowance.set_limits(key.limits, now);
            return known;
        }
        let new = Arc::new(Known::new(Allowance::new(key.limits, now)));
        self.known.insert(key.id.clone(), new.clone());
        new
    }

    fn fund(&self, policy: &Policy) {
        let unix = wall_clock::seconds();
        self.funds.retain(|name, fund| {
            let stays = policy.teams.iter().any(|team| team.name == *name);
            if !stays {
                // It may come back within its period.
                lock(&self.before).insert(name.clone(), fund.tally());
            }
            stays
        });
        for team in &policy.teams {
            let fund = self.funds.get(&team.name).map(|fund| fund.clone());
            if let Some(fund) = fund {
                fund.set_budget(team.budget, unix);
            } else {
                let before = lock(&self.before).get(&team.name).copied();
                self.funds.insert(team.name.clone(), Arc::new(BudgetAccount::new(team.budget, before, unix)));
            }
        }
    }

    /// Revokes the key called `id`, until that is undone; whether there is one. Requests of it that are under way are finished.
    pub fn revoke(&self, policy: &Policy, id: &str) -> bool {
        let Some(key) = policy.keys.iter().find(|key| *key.id == *id) else { return false };
        let mut revoked = lock(&self.revoked);
        revoked.insert(key.hash, key.id.clone());
        if let Some(known) = self.known.get(&key.id) {
            known.revoked.store(true, Relaxed);
        }
        self.spread(key.hash, &key.id, true);
        true
    }

    /// Lets the key called `id` in again; whether it was revoked.
    pub fn restore(&self, policy: &Policy, id: &str) -> bool {
        let mut revoked = lock(&self.revoked);
        let before = revoked.len();
        revoked.retain(|hash, revoked| {
            let stays = **revoked != *id;
            if !stays {
                self.spread(*hash, revoked, false);
            }
            stays
        });
        if let (Some(key), Some(known)) = (policy.keys.iter().find(|key| *key.id == *id), self.known.get(id)) {
            known.revoked.store(revoked.contains_key(&key.hash), Relaxed);
        }
        revoked.len() < before
    }

    /// Tells the others, where there are any.
    fn spread(&self, hash: [u8; 32], id: &Name, revoked: bool) {
        if let Some(joint) = &*self.joint.load() {
            self.changes.note(hash, id.clone(), revoked);
            joint.hurry();
        }
    }

    /// What other gateways call this one's account of what was spent.
    fn ledger(&self) -> Name {
        self.ledger.get_or_init(|| format!("{:016x}", fastrand::u64(..)).into()).clone()
    }

    /// Whether the server that limits are shared through is there; `None` where the policy has none.
    pub fn shares(&self) -> Option<bool> {
        self.joint.load().as_ref().map(|joint| joint.is_up())
    }

    /// Counts together with other gateways as `policy` says, from now on. Within a runtime, and before the policy is served.
    ///
    /// # Errors
    /// [`LinkError`] where the server's address is invalid; nothing changes then.
    pub fn share_limits(self: &Arc<Self>, metrics: &Metrics, policy: &Policy) -> Result<(), LinkError> {
        // Answers of simulated engines cost nothing.
        let spec = policy.shared_limits.as_ref().filter(|_| !policy.simulated);
        let before = self.joint.load_full();
        if before.as_ref().map(|before| &before.spec) == spec {
            return Ok(());
        }
        let own = || (self.roll.clone(), self.ledger());
        let new = match spec {
            Some(spec) => Some(Joint::new(spec.clone(), own(), metrics.clone())?),
            None => None,
        };
        if let Some(before) = before {
            before.close();
        }
        let Some((new, outgoing)) = new else {
            self.joint.store(None);
            return Ok(());
        };
        let new = Arc::new(new);
        self.joint.store(Some(new.clone()));
        let attends = tokio::spawn(maintain(Session::new(self.clone(), new.clone(), outgoing)));
        *lock(&new.task) = Some(attends.abort_handle());
        Ok(())
    }

    /// Keeps all of it in a folder from now on, and takes up what is there. Waits for the disk.
    ///
    /// # Errors
    /// Where the folder cannot be had, or what is in it cannot be read.
    pub fn keep(&self, usage: &policy::Usage) -> Result<(), KeepError> {
        let (disk, found) = UsageStore::open(&usage.path, first_day(usage.retention))?;
        self.book.restore(found.rows);
        self.objects.restore(found.objects);
        let Standing { ledger, teams, revoked } = found.standing;
        (*lock(&self.revoked), *lock(&self.before)) = (revoked, teams);
        if let Some(ledger) = ledger {
            // It is the first to be asked for.
            let _ = self.ledger.set(ledger);
        }
        *lock(&self.kept) = Some(disk);
        Ok(())
    }

    /// Whether it is kept anywhere.
    pub fn is_kept(&self) -> bool {
        lock(&self.kept).is_some()
    }

    /// Writes what has changed, and forgets the days that are over `retention` ago. Waits for the disk.
    pub fn write(&self, retention: Duration) {
        self.book.forget_before(first_day(retention));
        let mut kept = lock(&self.kept);
        let Some(disk) = &mut *kept else {
            // Nobody asks for it.
            self.objects.take_new();
            return;
        };
        let revoked = lock(&self.revoked).clone();
        let mut teams = lock(&self.before).clone();
        teams.extend(self.funds.iter().map(|fund| (fund.key().clone(), fund.tally())));
        disk.write(&self.book, &Standing { ledger: Some(self.ledger()), teams, revoked }, &self.objects);
    }
}

impl LocalCounts for Callers {
    fn changes(&self) -> &Changes {
        &self.changes
    }

    fn apply_revocations(&self, words: &Words) -> Vec<([u8; 32], Name)> {
        let mut revoked = lock(&self.revoked);
        for (hash, word) in words {
            // What was said here meanwhile is later.
            if word.revoked == revoked.contains_key(hash) || self.changes.has(hash) {
                continue;
            }
            if word.revoked {
                revoked.insert(*hash, word.id.clone());
            } else {
                revoked.remove(hash);
            }
            tracing::warn!(key = %word.id, revoked = word.revoked, "a key was revoked, or let in again, on another gateway");
            if let Some(known) = lock(&self.ids).get(hash).and_then(|id| self.known.get(id)) {
                known.revoked.store(word.revoked, Relaxed);
            }
        }
        let untold = revoked.iter().filter(|(hash, _)| !words.contains_key(*hash));
        untold.map(|(hash, id)| (*hash, id.clone())).collect()
    }

    fn funds(&self) -> Vec<(Name, Arc<BudgetAccount>)> {
        self.funds.iter().map(|fund| (fund.key().clone(), fund.value().clone())).collect()
    }
}

/// A second of the first day that is still remembered.
fn first_day(retention: Duration) -> i64 {
    let retention = i64::try_from(retention.as_secs()).unwrap_or(i64::MAX);
    wall_clock::seconds().saturating_sub(retention.max(DAY)).max(0)
}
