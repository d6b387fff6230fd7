//! Writes of what the gateway keeps: those that operators wait for, repeated ones after failures, and new files for programs that
//! rotate logs.

use std::{io, time::Duration};

use super::{
    Control,
    app::{App, OpenError},
    private_file,
};
use signalbox_policy as policy;
use signalbox_telemetry::{Store, StoreFailure};

impl App {
    /// Writes usage to disk and drops entries past their retention. Blocks on the disk.
    pub(super) fn write_usage(&self) {
        // A failure was logged, and is tried again.
        let _ = self.parts.accounting.callers.write(self.usage_retention());
    }

    /// Writes revocations to disk. Returns false where usage is not kept on disk. Blocks on the disk.
    pub(super) fn write_revocations(&self) -> io::Result<bool> {
        self.parts.accounting.callers.write_revocations(self.usage_retention())
    }

    pub(super) fn usage_retention(&self) -> Duration {
        let serving = self.live.load();
        serving.snapshot.policy.usage.as_ref().map_or(policy::USAGE_RETENTION, |usage| usage.retention)
    }

    /// Retries to open the persisted cache, in case another gateway held its folder or its disk has failed. Blocks on the disk.
    pub(super) fn reopen_persisted_cache(&self) {
        let opened = self.parts.answers.keep_on_disk(&self.live.load().snapshot.policy);
        if let Err(problem) = opened
            && self.parts.metrics.store(Store::Cache).failed(&problem)
        {
            tracing::warn!("{}", OpenError::Disk(problem));
        }
    }

    /// Opens the files of logs again by their names, for programs that rotate them.
    pub(super) fn reopen_logs(&self) {
        if let Some(journal) = &*self.parts.decisions.journal.load() {
            journal.reopen();
        }
        if let Some(log) = &*self.parts.decisions.access_log.load() {
            log.reopen();
        }
    }

    /// Notes that the policy has no journal or access log any more.
    pub(super) fn note_gone(&self, journal: bool, access_log: bool) {
        for (store, is_gone) in [(Store::Journal, journal), (Store::AccessLog, access_log)] {
            if is_gone {
                self.parts.metrics.store(store).closed();
            }
        }
    }

    /// Notes if the log of cached answers is written.
    fn look_at_cache(&self) {
        let writes = self.parts.metrics.store(Store::Cache);
        let is_wanted =
            self.live.load().snapshot.policy.caching.as_ref().is_some_and(|caching| caching.persist.is_some());
        match self.parts.answers.local.disk.figures() {
            None if !is_wanted => writes.closed(),
            // Another gateway uses the folder, or it cannot be opened, which was noted.
            None => {}
            // The log has named the error, and is opened anew with the next maintenance.
            Some(figures) if figures.failed && writes.failure().is_none() => {
                writes.failed(&"the file was deleted after a write failed, the log says why");
            }
            Some(figures) if figures.failed => {}
            Some(_) => {
                writes.wrote();
            }
        }
    }

    /// Everything that is not shared because its server is down or refuses, in words.
    pub(super) fn unshared(&self) -> Vec<String> {
        let all = [
            (self.parts.accounting.callers.shared_limits_problem(), "limits.shared", "each gateway counts alone"),
            (self.parts.answers.peers.problem(), "cache.shared", "answers are not shared"),
            (self.parts.placement_group.problem(), "placement.shared", "gateways do not know of each other's requests"),
        ];
        let words = all.into_iter().map(|(problem, key, what)| Some(format!("{what} ({key}): {}", problem?)));
        words.flatten().collect()
    }

    /// Stores that cannot be written, in words, each with its failure.
    pub(super) fn failed_stores(&self) -> Vec<(&'static str, StoreFailure)> {
        let failed = |store: Store| Some((words(store), self.parts.metrics.store(store).failure()?));
        Store::ALL.into_iter().filter_map(failed).collect()
    }
}

impl Control {
    /// Writes usage, and tries again what failed and nothing else would try again. Blocks on the disk.
    pub(super) fn write_stores(&self) {
        self.app.write_usage();
        self.app.look_at_cache();
        self.audit.retry();
        let has_failed = |store: Store| self.app.parts.metrics.store(store).failure().is_some();
        if has_failed(Store::Learning) {
            self.app.parts.learning.tiers.save();
        }
        if has_failed(Store::History) {
            self.history.save();
        }
        let policy = self.discovery.base();
        let keys = policy.managed_keys.as_ref().map(|managed| &managed.path);
        for (store, path) in [(Store::Keys, keys), (Store::Backends, policy.fleet_state.as_ref())] {
            if !has_failed(store) {
                continue;
            }
            // The change was refused, so that there is nothing to write: it is enough to know if it would work.
            match path.map(|path| private_file::probe(path)) {
                Some(Err(_)) => {}
                Some(Ok(())) => self.note_write(store, &Ok::<_, io::Error>(())),
                None => self.app.parts.metrics.store(store).closed(),
            }
        }
    }

    /// Notes the outcome of a write, and logs the first failure and its end.
    pub(super) fn note_write<E: std::fmt::Display>(&self, store: Store, written: &Result<(), E>) {
        let (writes, what) = (self.app.parts.metrics.store(store), words(store));
        match written {
            Ok(()) if writes.wrote() => tracing::info!("{}: {what} can be written again", store.label()),
            Err(error) if writes.failed(error) => {
                tracing::error!(%error, "{}: {what} could not be written, the change was refused", store.label());
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// Opens the files of logs again by their names, for programs that rotate them.
    pub(super) fn reopen_logs(&self) {
        self.app.reopen_logs();
        self.audit.reopen();
    }
}

/// The content of a store, and its key in the policy.
const fn words(store: Store) -> &'static str {
    match store {
        Store::Usage => "usage, budgets and revocations (usage.path)",
        Store::Keys => "keys created here (managed_keys.path)",
        Store::Backends => "backends added here (discovery.state)",
        Store::Learning => "learned weights (learning.file)",
        Store::Cache => "cached answers (cache.persist.path)",
        Store::Journal => "the journal (journal.path)",
        Store::AccessLog => "the access log (access_log.path)",
        Store::Audit => "the audit log (usage.path)",
        Store::History => "the history (usage.path)",
    }
}
