//! Live usage and limits of callers and teams, by key id and team name. They outlive policies.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;

use arc_swap::ArcSwapOption;
use dashmap::DashMap;

use super::{
    UsageStoreError,
    distributed::{Leases, LimitServer, LocalCounts, PendingRevocations, Revocations, ServerKeys, Session},
    key_state::KeyState,
    usage_store::{StoredState, UsageStore},
};
use signalbox_policy::{self as policy, Policy};
use signalbox_quota::{Allowance, BudgetAccount, BudgetOwner, Owners, Tally, UsageLedger};
use signalbox_redis::{LinkError, maintain};
use signalbox_telemetry::{KeyMetrics, Metrics, StoreWrites};
use signalbox_types::{Moment, Name, wall_clock};

/// Seconds of a day.
const DAY: i64 = 86_400;

/// All callers with a key in the active policy, and all budgets, with their usage.
#[derive(Default)]
pub struct Callers {
    /// State of the policy's keys, by id.
    pub(super) states: DashMap<Name, Arc<KeyState>>,
    /// Budgets of the policy's teams and keys.
    pub(super) budgets: DashMap<BudgetOwner, Arc<BudgetAccount>>,
    /// Ids of revoked keys, by the key's hash: another secret under the same id is another key.
    pub(super) revoked: Mutex<BTreeMap<[u8; 32], Name>>,
    /// Ids of the policy's keys, by the key's hash.
    ids: Mutex<BTreeMap<[u8; 32], Name>>,
    /// The server of limits shared with other gateways, if the policy shares them.
    limit_server: ArcSwapOption<LimitServer>,
    /// Leases of running requests on shared limits.
    leases: Arc<Leases>,
    /// Id under which this gateway reports its spending to the limit server. Stored with the usage.
    gateway_id: OnceLock<Name>,
    /// Revocations made here that the limit server does not know yet.
    pending_revocations: PendingRevocations,
    /// Usage by day.
    pub book: UsageLedger,
    /// Owners of objects at providers, such as files and batches.
    pub objects: Owners,
    /// Spending of owners that are not in `budgets`: as read at the start, or when a policy removed the owner.
    saved_tallies: Mutex<BTreeMap<BudgetOwner, Tally>>,
    /// The folder that usage is written to, if any.
    store: Mutex<Option<UsageStore>>,
}

/// A key of one policy, with its live state.
pub struct Caller {
    /// The key's id.
    pub id: Name,
    /// The key's team, if it has one.
    pub(crate) team: Option<Name>,
    /// The budgets that the key's requests are charged to: its own and its team's, as far as they exist.
    pub(super) budgets: Vec<(BudgetOwner, Arc<BudgetAccount>)>,
    /// The time from which the key is rejected, in seconds since 1970.
    pub(super) expires: Option<i64>,
    pub(super) state: Arc<KeyState>,
    /// The key's metrics.
    pub metrics: Arc<KeyMetrics>,
    /// The server of shared limits and the caller's keys there.
    pub(super) shared: Option<(Arc<LimitServer>, Arc<ServerKeys>)>,
}

impl Caller {
    /// True if the key's secret with this hash is revoked.
    pub fn is_revoked(&self, hash: &[u8; 32]) -> bool {
        self.state.is_revoked(hash)
    }

    /// The time since which the key is expired, in seconds since 1970; `None` if it is not expired.
    pub fn expired_at(&self) -> Option<i64> {
        self.expires.filter(|expires| *expires <= wall_clock::seconds())
    }
}

impl Callers {
    /// Applies another policy and returns its callers, in the order of its keys.
    pub fn apply_policy(&self, policy: &Policy, metrics: &Metrics, now: Moment) -> Vec<Arc<Caller>> {
        let ids: HashSet<&Name> = policy.keys.iter().map(|key| &key.id).collect();
        self.states.retain(|id, _| ids.contains(id));
        self.apply_budgets(policy);
        // Locked until the end, so that no revocation happens in between.
        let revoked = self.revoked.lock();
        *self.ids.lock() =
            policy.keys.iter().flat_map(|key| key.hashes().map(|hash| (*hash, key.id.clone()))).collect();
        let server = self.limit_server.load_full();
        let caller = |key: &policy::Key| {
            let state = self.state(key, now);
            state.set_revoked(key.hashes().filter(|hash| revoked.contains_key(*hash)).copied().collect());
            let owners = [Some(BudgetOwner::Key(key.id.clone())), key.team.clone().map(BudgetOwner::Team)];
            let budget = |owner| Some((self.budgets.get(&owner)?.clone(), owner));
            let budgets = owners.into_iter().flatten().filter_map(budget).map(|(account, owner)| (owner, account));
            let budgets: Vec<_> = budgets.collect();
            let shared = server.clone().map(|server| {
                let keys = ServerKeys::new(&server.spec.server, key, &budgets);
                (server, Arc::new(keys))
            });
            let (id, team, metrics) = (key.id.clone(), key.team.clone(), metrics.key(&key.id));
            Arc::new(Caller { id, team, budgets, expires: key.expires, state, metrics, shared })
        };
        policy.keys.iter().map(caller).collect()
    }

    /// Returns the state of a key with its new limits, or creates it.
    fn state(&self, key: &policy::Key, now: Moment) -> Arc<KeyState> {
        let state = self.states.get(&key.id).map(|state| state.clone());
        if let Some(state) = state {
            state.allowance.set_limits(key.limits, now);
            return state;
        }
        let new = Arc::new(KeyState::new(Allowance::new(key.limits, now)));
        self.states.insert(key.id.clone(), new.clone());
        new
    }

    /// Applies the policy's budgets.
    fn apply_budgets(&self, policy: &Policy) {
        let unix = wall_clock::seconds();
        let teams = policy.teams.iter().map(|team| (BudgetOwner::Team(team.name.clone()), team.budget));
        let keys = policy.keys.iter().filter_map(|key| Some((BudgetOwner::Key(key.id.clone()), key.budget?)));
        let all: HashMap<_, _> = teams.chain(keys).collect();
        self.budgets.retain(|owner, account| {
            let is_kept = all.contains_key(owner);
            if !is_kept {
                // The owner may come back within its period.
                self.saved_tallies.lock().insert(owner.clone(), account.tally());
            }
            is_kept
        });
        for (owner, budget) in all {
            let account = self.budgets.get(&owner).map(|account| account.clone());
            if let Some(account) = account {
                account.set_budget(budget, unix);
            } else {
                let saved = self.saved_tallies.lock().get(&owner).copied();
                self.budgets.insert(owner, Arc::new(BudgetAccount::new(budget, saved, unix)));
            }
        }
    }

    /// Revokes all secrets of the key `id` until it is [restored](Self::restore); returns whether the policy has it. Its running
    /// requests finish.
    pub fn revoke(&self, policy: &Policy, id: &str) -> bool {
        let Some(key) = policy.keys.iter().find(|key| *key.id == *id) else { return false };
        let mut revoked = self.revoked.lock();
        for hash in key.hashes() {
            revoked.insert(*hash, key.id.clone());
            self.publish_revocation(*hash, &key.id, true);
        }
        if let Some(state) = self.states.get(&key.id) {
            state.set_revoked(key.hashes().copied().collect());
        }
        true
    }

    /// Restores the key `id`; returns whether it was revoked.
    pub fn restore(&self, policy: &Policy, id: &str) -> bool {
        let mut revoked = self.revoked.lock();
        let before = revoked.len();
        revoked.retain(|hash, revoked| {
            let is_kept = **revoked != *id;
            if !is_kept {
                self.publish_revocation(*hash, revoked, false);
            }
            is_kept
        });
        if let (Some(key), Some(state)) = (policy.keys.iter().find(|key| *key.id == *id), self.states.get(id)) {
            state.set_revoked(key.hashes().filter(|hash| revoked.contains_key(*hash)).copied().collect());
        }
        revoked.len() < before
    }

    /// Publishes a change to the other gateways, if limits are shared.
    fn publish_revocation(&self, hash: [u8; 32], id: &Name, revoked: bool) {
        if let Some(server) = &*self.limit_server.load() {
            self.pending_revocations.record(hash, id.clone(), revoked);
            server.notify_change();
        }
    }

    /// The id under which this gateway reports its spending.
    fn gateway_id(&self) -> Name {
        self.gateway_id.get_or_init(|| format!("{:016x}", fastrand::u64(..)).into()).clone()
    }

    /// The reason why the server of shared limits is not used; `None` where it is, or limits are not shared.
    pub fn shared_limits_problem(&self) -> Option<String> {
        self.limit_server.load().as_ref()?.problem()
    }

    /// True if the server of shared limits is connected and takes writes; `None` where limits are not shared.
    pub fn shared_limits_up(&self) -> Option<bool> {
        self.limit_server.load().as_ref().map(|server| server.is_up())
    }

    /// Connects to, replaces or closes the server of shared limits, as `policy` says. Call it within a runtime and before the policy is
    /// served.
    ///
    /// # Errors
    /// [`LinkError`] where the server's address is invalid; nothing changes then.
    pub fn share_limits(self: &Arc<Self>, metrics: &Metrics, policy: &Policy) -> Result<(), LinkError> {
        // Simulated engines cost nothing, so their usage is not shared.
        let spec = policy.shared_limits.as_ref().filter(|_| !policy.simulated);
        let before = self.limit_server.load_full();
        if before.as_ref().map(|before| &before.spec) == spec {
            return Ok(());
        }
        let own = || (self.leases.clone(), self.gateway_id());
        let new = match spec {
            Some(spec) => Some(LimitServer::new(spec.clone(), own(), metrics.clone())?),
            None => None,
        };
        if let Some(before) = before {
            before.close();
        }
        let Some((new, outgoing)) = new else {
            self.limit_server.store(None);
            return Ok(());
        };
        let new = Arc::new(new);
        self.limit_server.store(Some(new.clone()));
        let session = tokio::spawn(maintain(Session::new(self.clone(), new.clone(), outgoing)));
        *new.task.lock() = Some(session.abort_handle());
        Ok(())
    }

    /// Opens the folder of `usage`, adopts its content and writes to it from now on. Waits for the disk.
    ///
    /// # Errors
    /// [`UsageStoreError`] where the folder is in use or cannot be opened, or its content cannot be read.
    pub fn open_store(&self, usage: &policy::Usage, writes: StoreWrites) -> Result<(), UsageStoreError> {
        let (store, stored) = UsageStore::open(&usage.path, first_day(usage.retention), writes)?;
        self.book.restore(stored.rows);
        self.objects.restore(stored.objects);
        let StoredState { gateway_id, teams, keys, revoked } = stored.state;
        let teams = teams.into_iter().map(|(name, tally)| (BudgetOwner::Team(name), tally));
        let keys = keys.into_iter().map(|(id, tally)| (BudgetOwner::Key(id), tally));
        (*self.revoked.lock(), *self.saved_tallies.lock()) = (revoked, teams.chain(keys).collect());
        if let Some(id) = gateway_id {
            // Set before anything reads it.
            let _ = self.gateway_id.set(id);
        }
        *self.store.lock() = Some(store);
        Ok(())
    }

    /// Writes all budgets and revocations to disk, changed or not. Returns false where usage is not kept on disk. Waits for
    /// the disk.
    ///
    /// # Errors
    /// [`io::Error`] where they could not be written.
    pub fn write_revocations(&self, retention: Duration) -> io::Result<bool> {
        if let Some(store) = &mut *self.store.lock() {
            store.doubt_state();
        }
        self.write(retention)
    }

    /// Writes changes to disk and drops days older than `retention`. Returns false where usage is not kept on disk. Waits for
    /// the disk.
    ///
    /// # Errors
    /// [`io::Error`] where not all changes were written. They are written with the next call.
    pub fn write(&self, retention: Duration) -> io::Result<bool> {
        self.book.forget_before(first_day(retention));
        let mut store = self.store.lock();
        let Some(store) = &mut *store else {
            // Without a store, the list of new objects would only grow.
            self.objects.take_new();
            return Ok(false);
        };
        let revoked = self.revoked.lock().clone();
        let mut tallies = self.saved_tallies.lock().clone();
        tallies.extend(self.budgets.iter().map(|account| (account.key().clone(), account.tally())));
        let mut state = StoredState { gateway_id: Some(self.gateway_id()), revoked, ..StoredState::default() };
        for (owner, tally) in tallies {
            match owner {
                BudgetOwner::Team(name) => state.teams.insert(name, tally),
                BudgetOwner::Key(id) => state.keys.insert(id, tally),
            };
        }
        store.write(&self.book, &state, &self.objects).map(|()| true)
    }
}

impl LocalCounts for Callers {
    fn pending_revocations(&self) -> &PendingRevocations {
        &self.pending_revocations
    }

    fn apply_revocations(&self, listed: &Revocations) -> Vec<([u8; 32], Name)> {
        let mut revoked = self.revoked.lock();
        for (hash, change) in listed {
            // A pending change of this gateway is newer.
            if change.revoked == revoked.contains_key(hash) || self.pending_revocations.contains(hash) {
                continue;
            }
            if change.revoked {
                revoked.insert(*hash, change.id.clone());
            } else {
                revoked.remove(hash);
            }
            let done = if change.revoked { "revoked" } else { "restored" };
            tracing::info!(key = %change.id, revoked = change.revoked, "keys: key '{}' {done} on another gateway", change.id);
            let ids = self.ids.lock();
            if let Some((id, state)) = ids.get(hash).and_then(|id| Some((id, self.states.get(id)?))) {
                let own = ids.iter().filter(|(own, other)| *other == id && revoked.contains_key(*own));
                state.set_revoked(own.map(|(own, _)| *own).collect());
            }
        }
        let unlisted = revoked.iter().filter(|(hash, _)| !listed.contains_key(*hash));
        unlisted.map(|(hash, id)| (*hash, id.clone())).collect()
    }

    fn budgets(&self) -> Vec<(BudgetOwner, Arc<BudgetAccount>)> {
        self.budgets.iter().map(|account| (account.key().clone(), account.value().clone())).collect()
    }
}

/// A second of the first day that is kept, since 1970.
fn first_day(retention: Duration) -> i64 {
    let retention = i64::try_from(retention.as_secs()).unwrap_or(i64::MAX);
    wall_clock::seconds().saturating_sub(retention.max(DAY)).max(0)
}
