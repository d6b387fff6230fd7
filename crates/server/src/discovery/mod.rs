//! The fleet at run time: addresses found by DNS and in files, backends added and drained by operators, and those that left.
//!
//! The policy as compiled from its file is kept aside. A change of the fleet applies it again with the new set of
//! backends, by the same path as a reload, so that a request keeps the set that it arrived under.

mod departed;
mod edits;
mod watch;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch as channel},
    task::AbortHandle,
    time::timeout,
};

use self::watch::Look;
pub(super) use self::{
    departed::{Departed, Leaving},
    edits::{Edits, EditsError, MOST_ADDED},
};
use signalbox_fleet::Snapshot;
use signalbox_policy::{AddressSource, FoundAddress, LiveFleet, MOST_ADDRESSES, Policy};

/// The longest that a start or a reload waits for the first answer of a new source.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// Error of a name that exists without addresses, or not at all.
const NO_ADDRESSES: &str = "the name has no addresses: it does not exist, or has no records of this kind";

/// The fleet beside the policy.
pub(super) struct Discovery {
    state: Mutex<Known>,
    /// Set when the addresses of a source changed.
    changed: Notify,
    /// Counts outcomes of sources.
    looked: channel::Sender<u64>,
}

struct Known {
    /// The policy as compiled from its file.
    base: Arc<Policy>,
    sources: HashMap<AddressSource, Watched>,
    edits: Edits,
    departed: Departed,
}

/// A source with its standing; dropping it ends its task.
struct Watched {
    standing: SourceStanding,
    task: Option<AbortHandle>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// State of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct SourceStanding {
    /// Addresses in force.
    pub(super) addresses: Vec<FoundAddress>,
    /// Time of the last answer.
    pub(super) answered: Option<Instant>,
    /// Error of the last lookup, if it failed.
    pub(super) error: Option<String>,
    /// Failed attempts since the start.
    pub(super) errors: u64,
    /// Since when answers are empty while the last addresses stay in force.
    pub(super) empty_since: Option<Instant>,
    /// True once the source had an outcome, good or bad.
    looked: bool,
    /// Addresses of the last answer that were too many.
    surplus: usize,
}

impl Discovery {
    /// The fleet of `policy`, with what operators changed earlier.
    pub(super) fn open(policy: Policy) -> Result<Self, EditsError> {
        let edits = Edits::open(policy.fleet_state.as_deref())?;
        let known = Known { base: Arc::new(policy), sources: HashMap::new(), edits, departed: Departed::default() };
        Ok(Self { state: Mutex::new(known), changed: Notify::new(), looked: channel::Sender::new(0) })
    }

    /// The policy as compiled from its file.
    pub(super) fn base(&self) -> Arc<Policy> {
        self.state.lock().base.clone()
    }

    /// Starts to watch the sources of `policy` and waits for their first answers, for two seconds at most.
    pub(super) async fn prepare(self: &Arc<Self>, policy: &Policy) {
        let sources = policy.sources();
        for from in &sources {
            let mut known = self.state.lock();
            let watched = known.sources.entry(from.clone());
            watched.or_insert_with(|| Watched {
                standing: SourceStanding::default(),
                task: Some(self.watch(from.clone())),
            });
        }
        let has_looked = |_: &u64| {
            let known = self.state.lock();
            sources.iter().all(|from| known.sources.get(from).is_none_or(|watched| watched.standing.looked))
        };
        let _ = timeout(FIRST_LOOK, self.looked.subscribe().wait_for(has_looked)).await;
    }

    fn watch(self: &Arc<Self>, from: AddressSource) -> AbortHandle {
        let discovery = self.clone();
        watch::start(from.clone(), move |look| discovery.report(&from, look))
    }

    /// `base` with the fleet as it is known now. `before` is what served until now: backends that leave it are noted, and
    /// their learned state is kept for a while.
    pub(super) fn compose(&self, base: &Policy, before: Option<&Snapshot>) -> Policy {
        let (found, edits) = {
            let known = self.state.lock();
            let found = known.sources.iter().map(|(from, watched)| (from.clone(), watched.standing.addresses.clone()));
            (found.collect(), known.edits.clone())
        };
        // Without the lock: a large fleet takes a while.
        let (added, drained) = (edits.compiled(base), edits.drained());
        let mut policy = base.with_fleet(&LiveFleet { found, added, drained });
        let now = Instant::now();
        let mut known = self.state.lock();
        known.edits.follow_drained(&policy, before.map(|before| &before.policy));
        if let Some(before) = before {
            known.departed.note(before, &policy, now);
        }
        policy.keep(known.departed.kept(now));
        policy
    }

    /// Makes `base` the policy to which changes of the fleet apply, and ends the watch of sources that it does not name.
    pub(super) fn adopt(&self, base: Policy) {
        let mut known = self.state.lock();
        let named = base.sources();
        known.sources.retain(|from, _| named.contains(from));
        if base.fleet_state != known.base.fleet_state {
            tracing::warn!("reload: 'discovery.state' changed; it takes effect after a restart");
        }
        known.base = Arc::new(base);
    }

    /// Waits until the fleet changed.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Applies the fleet again later.
    pub(super) fn retry(&self) {
        self.changed.notify_one();
    }

    /// Sources with their standing.
    pub(super) fn standings(&self) -> Vec<(AddressSource, SourceStanding)> {
        let known = self.state.lock();
        // In the order of the policy.
        let named = known.base.sources().into_iter();
        named.filter_map(|from| Some((from.clone(), known.sources.get(&from)?.standing.clone()))).collect()
    }

    /// Backends that left or get no new requests, by pool.
    pub(super) fn leaving(&self, serving: &Snapshot) -> Vec<Leaving> {
        self.state.lock().departed.leaving(serving, Instant::now())
    }

    /// Changes what operators set. Blocks on the disk; on an error nothing changed.
    pub(super) fn edit<T>(&self, change: impl FnOnce(&mut Edits) -> T) -> Result<T, EditsError> {
        let mut next = self.state.lock().edits.clone();
        let result = change(&mut next);
        next.write()?;
        self.state.lock().edits = next;
        Ok(result)
    }

    /// Reads what operators set.
    pub(super) fn edits<T>(&self, read: impl FnOnce(&Edits) -> T) -> T {
        read(&self.state.lock().edits)
    }

    /// Notes the outcome of a look at `from`.
    fn report(&self, from: &AddressSource, look: Look) {
        let mut known = self.state.lock();
        let Some(Watched { standing, .. }) = known.sources.get_mut(from) else { return };
        let changed = standing.note(from, look, Instant::now());
        let is_first = !std::mem::replace(&mut standing.looked, true);
        drop(known);
        if changed {
            self.changed.notify_one();
        }
        if is_first {
            self.looked.send_modify(|count| *count += 1);
        }
    }
}

impl SourceStanding {
    /// Notes an outcome. Returns true if the addresses in force changed. A failure keeps them, and so does an empty
    /// answer of DNS for a while: it is more often a fault of the name server than the end of all engines.
    fn note(&mut self, from: &AddressSource, look: Look, now: Instant) -> bool {
        let source = from.label();
        let (mut addresses, is_partial) = match look {
            Look::Found { addresses, is_partial } => (addresses, is_partial),
            Look::Failed(error) => {
                self.errors += 1;
                if self.error.as_ref() != Some(&error) {
                    let kept = self.addresses.len();
                    tracing::warn!(
                        %source, error,
                        "discovery: lookup of '{source}' failed, {kept} known addresses stay in use: check the name or the file"
                    );
                }
                self.error = Some(error);
                return false;
            }
        };
        self.answered = Some(now);
        if addresses.is_empty() && self.addresses.is_empty() && matches!(from, AddressSource::Dns(_)) {
            if self.error.replace(NO_ADDRESSES.to_owned()).as_deref() != Some(NO_ADDRESSES) {
                tracing::warn!(%source, "discovery: '{source}' has no addresses, so that no backend comes of it: check the name");
            }
            return false;
        }
        if self.error.take().is_some() {
            tracing::info!(%source, "discovery: lookup of '{source}' succeeded again");
        }
        if is_partial {
            addresses.extend(self.addresses.iter().cloned());
        }
        addresses.sort();
        addresses.dedup_by(|a, b| (&a.scheme, &a.authority, &a.path) == (&b.scheme, &b.authority, &b.path));
        let surplus = addresses.len().saturating_sub(MOST_ADDRESSES);
        if surplus > 0 && self.surplus != surplus {
            tracing::warn!(
                %source,
                surplus,
                "discovery: '{source}' has more than {MOST_ADDRESSES} addresses, {surplus} of them are not used: check the records, or divide them among several names"
            );
        }
        self.surplus = surplus;
        addresses.truncate(MOST_ADDRESSES);
        let grace = match from {
            AddressSource::Dns(dns) => dns.empty_after,
            AddressSource::File(_) => Duration::ZERO,
        };
        if addresses.is_empty() && !self.addresses.is_empty() {
            let since = *self.empty_since.get_or_insert_with(|| {
                let kept = self.addresses.len();
                if grace.is_zero() {
                    tracing::warn!(%source, "discovery: '{source}' lists no addresses any more: its {kept} backends get no new requests");
                } else {
                    tracing::warn!(%source, "discovery: '{source}' has no addresses any more, the last {kept} stay in use for {grace:?}");
                }
                now
            });
            if now.duration_since(since) < grace {
                return false;
            }
        }
        self.empty_since = None;
        if addresses == self.addresses {
            return false;
        }
        let of = |list: &[FoundAddress]| list.iter().map(|it| it.authority.clone()).collect::<HashSet<_>>();
        let (before, now) = (of(&self.addresses), of(&addresses));
        let (added, removed) = (now.difference(&before).count(), before.difference(&now).count());
        let endpoints = addresses.len();
        tracing::info!(%source, added, removed, endpoints, "discovery: '{source}' has {endpoints} addresses now");
        self.addresses = addresses;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_config::discovery::RecordKind;
    use signalbox_policy::DnsName;

    fn dns() -> AddressSource {
        AddressSource::Dns(DnsName {
            name: "engines.test".into(),
            kind: RecordKind::Address,
            port: 1,
            every: Duration::from_secs(1),
            empty_after: Duration::from_secs(30),
            server: None,
            host: None,
        })
    }

    fn found(hosts: &[&str]) -> Look {
        let addresses = hosts.iter().map(|host| FoundAddress::at((*host).to_owned())).collect();
        Look::Found { addresses, is_partial: false }
    }

    fn hosts(standing: &SourceStanding) -> Vec<&str> {
        standing.addresses.iter().map(|it| &*it.authority).collect()
    }

    #[test]
    fn a_failure_and_a_short_empty_answer_keep_the_last_addresses() {
        let (from, start) = (dns(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut standing = SourceStanding::default();
        assert!(!standing.note(&from, Look::Failed("timeout".into()), start));
        assert!(standing.note(&from, found(&["b", "a", "b"]), start));
        assert_eq!(hosts(&standing), ["a", "b"]);
        assert!(!standing.note(&from, found(&["b", "a"]), after(1)), "an order is no change");
        assert!(!standing.note(&from, Look::Failed("timeout".into()), after(2)));
        assert!(!standing.note(&from, found(&[]), after(3)));
        assert!(!standing.note(&from, found(&[]), after(32)));
        assert!(!standing.note(&from, found(&["a", "b"]), after(33)));
        assert!(!standing.note(&from, found(&[]), after(40)) && !standing.note(&from, found(&[]), after(69)));
        assert!(standing.note(&from, found(&[]), after(70)));
        assert_eq!((hosts(&standing).len(), standing.errors), (0, 2));
        assert!(standing.error.is_none() && !standing.note(&from, found(&[]), after(71)));
        assert!(standing.error.as_deref().is_some_and(|error| error.contains("no addresses")), "{standing:?}");
        assert!(standing.note(&from, found(&["a"]), after(72)) && standing.error.is_none());
        let file = AddressSource::File("endpoints.yaml".into());
        let mut standing = SourceStanding::default();
        assert!(
            standing.note(&file, found(&["a"]), start) && standing.note(&file, found(&[]), after(1)),
            "a file means it"
        );
    }

    #[test]
    fn a_source_without_end_brings_a_thousand_addresses() {
        let (from, mut standing) = (dns(), SourceStanding::default());
        let hosts: Vec<_> = (0..5_000).map(|at| format!("10.0.{}.{}:1", at / 250, at % 250)).collect();
        let hosts: Vec<_> = hosts.iter().map(String::as_str).collect();
        assert!(standing.note(&from, found(&hosts), Instant::now()));
        assert_eq!((standing.addresses.len(), standing.surplus), (MOST_ADDRESSES, 4_000));
        assert!(!standing.note(&from, found(&hosts), Instant::now()), "the same thousand");
    }

    #[test]
    fn a_partial_answer_removes_nothing() {
        let (from, now) = (dns(), Instant::now());
        let mut standing = SourceStanding::default();
        standing.note(&from, found(&["a", "b"]), now);
        let partial = Look::Found { addresses: vec![FoundAddress::at("c".into())], is_partial: true };
        assert!(standing.note(&from, partial, now));
        assert_eq!(hosts(&standing), ["a", "b", "c"]);
    }
}
