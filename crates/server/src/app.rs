//! The parts of the process that requests, operators and reloads share: built once, and replaced in part on a reload.

use std::{collections::HashSet, io, path::Path, sync::Arc, time::Duration};

use arc_swap::ArcSwap;

use super::{
    costs::Accrued,
    discovery::EditsError,
    managed_key_file::ManagedKeysError,
    sharing::{self, SharingError},
    tls::{Certificate, Prepared, TlsError},
};
use signalbox_accounting::UsageStoreError;
use signalbox_fleet::{Engine, Registry, Snapshot};
use signalbox_gateway::{Live, Parts, Serving};
use signalbox_journal::AccessLog;
use signalbox_learning::{self as learning, LearningFile};
use signalbox_otel::{self as otel, Exporter};
use signalbox_policy::{self as policy, AdminAccess, Policy};
use signalbox_store as store;
use signalbox_telemetry::{Journal, Store};
use signalbox_types::Clock;
use signalbox_upstream::{
    Client, EngineAccess, Hub, SetUpError, Tokenizers, address,
    scrape::{Scrapers, Source},
};

/// Time limit for sending the last spans and measurements at shutdown.
const LAST_SPANS: Duration = Duration::from_millis(750);

/// Process-wide state.
pub(super) struct App {
    /// The configuration in force.
    pub live: Arc<Live>,
    /// Records of requests: metrics, journal, accounting, learned state.
    pub parts: Arc<Parts>,
    /// HTTP client for upstream engines.
    pub client: Client,
    /// Certificate of the API listener.
    pub certificate: Arc<Certificate>,
    /// Certificate of the admin listener, which may require other client certificates.
    pub admin_certificate: Arc<Certificate>,
    /// Credentials of operators. Kept when a reloaded policy removes the admin listener, since removing it takes a restart.
    pub admin_access: ArcSwap<AdminAccess>,
    pub(super) registry: Arc<Registry>,
    /// Cost of the engines' hours so far.
    accrued: Accrued,
    tokenizers: Tokenizers,
    scrapers: Scrapers,
}

/// Cause of a replacement.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The policy was loaded again.
    Reload,
    /// The same policy has other backends.
    Fleet,
}

/// The gateway could not start, or could not apply a policy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The HTTP client cannot be set up.
    #[error(transparent)]
    Client(#[from] SetUpError),
    /// The file of the fleet cannot be used.
    #[error("backends added at run time: {0}")]
    Fleet(EditsError),
    /// The file of managed keys cannot be used.
    #[error(transparent)]
    ManagedKeys(#[from] ManagedKeysError),
    /// A certificate cannot be loaded.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The file of learned state cannot be read.
    #[error(transparent)]
    Learning(#[from] learning::LoadError),
    /// Usage cannot be written to its file.
    #[error("usage: {0} (usage.path in the policy)")]
    Usage(#[from] UsageStoreError),
    /// The persisted cache cannot be opened.
    #[error("cached answers on disk: {0} (cache.persist.path in the policy)")]
    Disk(#[from] store::StoreError),
    /// The address of a server that gateways share is invalid.
    #[error(transparent)]
    Sharing(#[from] SharingError),
    /// The trace exporter cannot be set up.
    #[error("{0} (otel in the policy)")]
    Otel(otel::SetUpError),
    /// The access log cannot be opened.
    #[error("the access log '{path}' cannot be opened: {error} (access_log.path in the policy)")]
    AccessLog {
        /// Its path.
        path: String,
        /// The cause.
        error: io::Error,
    },
    /// The journal cannot be opened.
    #[error("the journal '{path}' cannot be opened: {error} (journal.path in the policy)")]
    Journal {
        /// Its path.
        path: String,
        /// The cause.
        error: io::Error,
    },
}

impl App {
    /// Builds the state that serves `policy`.
    pub(super) fn open(policy: Policy) -> Result<Self, OpenError> {
        let clock = Clock::start();
        let parts = Arc::new(Parts::new(clock));
        let client = Client::new(policy.timeouts.connect)?;
        let certificate = Arc::new(Certificate::of("tls.client_roots"));
        certificate.show(certificate.prepare(policy.tls.as_ref())?);
        let admin_certificate = Arc::new(Certificate::of("admin.mtls.client_roots"));
        admin_certificate.show(admin_certificate.prepare(policy.admin_tls(&policy.admin_access).as_ref())?);
        let admin_access = ArcSwap::from_pointee(policy.admin_access.clone());
        let registry = Arc::<Registry>::default();
        if let Some(journal) = open_journal(&policy, &parts)? {
            parts.decisions.journal.store(Some(journal));
        }
        parts.decisions.access_log.store(open_access_log(&policy, &parts)?);
        parts.otel.store(open_otel(&policy, &parts)?);
        if let Some(file) = &policy.learning.file
            && let Some(stored) = LearningFile::read(file)?
        {
            parts.learning.tiers.restore(stored);
        }
        let learning = &policy.learning;
        parts.learning.tiers.configure(learning.file.as_deref(), learning.re_ask, parts.metrics.store(Store::Learning));
        if let Some(usage) = &policy.usage {
            parts.accounting.callers.open_store(usage, parts.metrics.store(Store::Usage))?;
        }
        parts.apply_policy(&policy);
        parts.answers.keep_on_disk(&policy)?;
        sharing::apply_policy(&policy, &parts, &registry)?;
        client.set_engines(policy.engines.iter())?;
        let scrapers = Scrapers::new(client.clone(), clock);
        let tokenizers = Tokenizers::new(Hub::from_env());
        let serving = parts.serving(Snapshot::new(policy, &registry), |tokenizer| tokenizers.source(tokenizer));
        scrapers.set_sources(sources(&serving));
        let live = Arc::new(Live::new(serving));
        let accrued = Accrued::default();
        Ok(Self {
            live,
            parts,
            client,
            certificate,
            admin_certificate,
            admin_access,
            registry,
            accrued,
            tokenizers,
            scrapers,
        })
    }

    /// Applies `policy` to all later requests. State learned about engines that remain is kept. On an error the previous policy
    /// remains in force. Blocks on the disk.
    pub(super) fn replace(&self, policy: Policy, cause: Cause) -> Result<(), OpenError> {
        let old = self.live.load();
        let before = &old.snapshot.policy;
        let certificate = prepare(&self.certificate, before.tls.as_ref(), policy.tls.as_ref())?;
        let access = self.admin_access.load_full();
        let other_access = policy.admin.is_some() && access.may_become(&policy.admin_access);
        let next_access = if other_access { Arc::new(policy.admin_access.clone()) } else { access.clone() };
        let admin_certificate = match policy.admin_tls(&next_access) {
            None if next_access.client_roots.is_some() => None,
            next => prepare(&self.admin_certificate, before.admin_tls(&access).as_ref(), next.as_ref())?,
        };
        // Fallible steps come before the first change. The persisted cache is the exception: it recovers by itself.
        let other_file = before.learning.file != policy.learning.file;
        let stored =
            policy.learning.file.as_deref().filter(|_| other_file).map(LearningFile::read).transpose()?.flatten();
        let (other_journal, other_otel) = (before.journal != policy.journal, before.otel != policy.otel);
        let journal = if other_journal { open_journal(&policy, &self.parts)? } else { None };
        let other_access_log = before.access_log != policy.access_log;
        let access_log = if other_access_log { open_access_log(&policy, &self.parts)? } else { None };
        let exporter = if other_otel { open_otel(&policy, &self.parts)? } else { None };
        sharing::check_servers(&policy)?;
        super::warm_up::tables(&policy);
        self.client.set_engines(policy.engines.iter())?;
        self.parts.answers.keep_on_disk(&policy)?;
        sharing::apply_policy(&policy, &self.parts, &self.registry)?;
        self.note_gone(other_journal && journal.is_none(), other_access_log && access_log.is_none());
        if other_journal && let Some(old) = self.parts.decisions.journal.swap(journal) {
            tokio::task::spawn_blocking(move || old.close());
        }
        if other_access_log && let Some(old) = self.parts.decisions.access_log.swap(access_log) {
            tokio::task::spawn_blocking(move || old.close());
        }
        if other_otel && let Some(old) = self.parts.otel.swap(exporter) {
            tokio::task::spawn_blocking(move || old.close(LAST_SPANS));
        }
        for (what, changed) in [
            ("listen", before.listen != policy.listen),
            ("admin", before.admin != policy.admin),
            ("admin.mtls", policy.admin.is_some() && !access.may_become(&policy.admin_access)),
            ("limits.header", before.limits.header != policy.limits.header),
            ("limits.drain", before.limits.drain != policy.limits.drain),
            ("limits.lame_duck", before.limits.lame_duck != policy.limits.lame_duck),
            ("timeouts.connect", before.timeouts.connect != policy.timeouts.connect),
            ("usage.path", before.usage.as_ref().map(|it| &it.path) != policy.usage.as_ref().map(|it| &it.path)),
        ] {
            if changed {
                tracing::warn!("reload: '{what}' changed; it takes effect after a restart");
            }
        }
        if other_file {
            self.parts.learning.tiers.save();
        }
        if let Some(stored) = stored {
            self.parts.learning.tiers.restore(stored);
        }
        let writes = self.parts.metrics.store(Store::Learning);
        self.parts.learning.tiers.configure(policy.learning.file.as_deref(), policy.learning.re_ask, writes);
        self.parts.apply_policy(&policy);
        // Charge the hours of the old policy's engines before they are dropped.
        self.accrued.until(self.parts.clock.now(), &old, self.parts.metrics.cache());
        let mut serving = self.parts.serving(Snapshot::new(policy, &self.registry), |it| self.tokenizers.source(it));
        if cause == Cause::Fleet {
            (serving.since, serving.loaded) = (old.since, old.loaded);
        }
        self.scrapers.set_sources(sources(&serving));
        self.live.swap(serving);
        self.admin_access.store(next_access);
        // Only after the swap: until then requests carry the keys of the old policy.
        self.parts.accounting.prefix_stability.apply_policy(&self.live.load().snapshot.policy);
        if let Some(certificate) = certificate {
            self.certificate.show(certificate);
        }
        if let Some(certificate) = admin_certificate {
            self.admin_certificate.show(certificate);
        }
        Ok(())
    }

    /// Waits until an engine whose list of models is followed lists other models.
    pub(super) async fn models_changed(&self) {
        self.scrapers.models_changed().await;
    }

    /// Loads a tokenizer's file again, for the next policy.
    pub(super) async fn renew_tokenizer(&self, file: &Path) {
        self.tokenizers.renew(file).await;
    }

    /// Reloads certificates that were renewed on disk. Blocks on the disk.
    pub(super) fn reload_certificates(&self) {
        let serving = self.live.load();
        let policy = &serving.snapshot.policy;
        let access = self.admin_access.load();
        let (callers, operators) = (policy.tls.clone(), policy.admin_tls(&access));
        for (certificate, tls) in [(&self.certificate, callers), (&self.admin_certificate, operators)] {
            if tls.is_none() {
                continue;
            }
            match certificate.prepare(tls.as_ref()) {
                Ok(prepared) => certificate.show(prepared),
                Err(problem) => tracing::warn!("tls: the certificate in use stays: {problem}"),
            }
        }
    }

    /// Engines that serve now, each once.
    pub(super) fn engines(&self) -> Vec<Arc<Engine>> {
        let serving = self.live.load();
        let backends = serving.snapshot.pools.iter().flat_map(|pool| &pool.backends);
        let mut seen = HashSet::new();
        backends.filter(|it| seen.insert(it.spec.engine)).map(|it| it.engine.clone()).collect()
    }

    /// Charges the engines' hours up to now.
    pub(super) fn accrue(&self) {
        self.accrued.until(self.parts.clock.now(), &self.live.load(), self.parts.metrics.cache());
    }

    /// Flushes all queued records.
    pub(super) async fn close(&self) {
        let (parts, retention) = (self.parts.clone(), self.usage_retention());
        let close = move || {
            // A failure was logged.
            let _ = parts.accounting.callers.write(retention);
            parts.learning.tiers.save();
            parts.answers.local.disk.close();
        };
        let _ = tokio::task::spawn_blocking(close).await;
        if let Some(exporter) = self.parts.otel.swap(None) {
            let _ = tokio::task::spawn_blocking(move || exporter.close(LAST_SPANS)).await;
        }
        if let Some(log) = self.parts.decisions.access_log.swap(None) {
            let _ = tokio::task::spawn_blocking(move || log.close()).await;
        }
        if let Some(journal) = self.parts.decisions.journal.swap(None) {
            // A panic in the writer was already logged.
            let _ = tokio::task::spawn_blocking(move || journal.close()).await;
        }
    }
}

/// Prepares the certificate of `next`. Returns `None`, which keeps the one in use, if unchanged files cannot be loaded now.
fn prepare(
    certificate: &Certificate,
    before: Option<&policy::Tls>,
    next: Option<&policy::Tls>,
) -> Result<Option<Prepared>, TlsError> {
    match certificate.prepare(next) {
        // A half-written renewal is no reason to reject the rest of the policy.
        Err(problem) if before == next => {
            tracing::warn!("tls: the certificate in use stays: {problem}");
            Ok(None)
        }
        prepared => prepared.map(Some),
    }
}

fn open_journal(policy: &Policy, parts: &Parts) -> Result<Option<Arc<Journal>>, OpenError> {
    let Some(spec) = &policy.journal else { return Ok(None) };
    match Journal::open(&spec.path, spec.max_size, spec.keep, parts.metrics.journal()) {
        Ok(journal) => Ok(Some(Arc::new(journal))),
        Err(error) => Err(OpenError::Journal { path: spec.path.display().to_string(), error }),
    }
}

fn open_access_log(policy: &Policy, parts: &Parts) -> Result<Option<Arc<AccessLog>>, OpenError> {
    let Some(policy::AccessLog { format, path, max_size, keep }) = &policy.access_log else { return Ok(None) };
    match Journal::access(path.as_deref(), *max_size, *keep, parts.metrics.access_log()) {
        Ok(journal) => Ok(Some(Arc::new(AccessLog::new(journal, *format)))),
        Err(error) => {
            let path = path.as_ref().map_or_else(String::new, |path| path.display().to_string());
            Err(OpenError::AccessLog { path, error })
        }
    }
}

fn open_otel(policy: &Policy, parts: &Parts) -> Result<Option<Arc<Exporter>>, OpenError> {
    let Some(spec) = &policy.otel else { return Ok(None) };
    Ok(Exporter::open(spec, &parts.export).map_err(OpenError::Otel)?.map(Arc::new))
}

/// Engines in use, each once, with what is polled of them.
fn sources(serving: &Serving) -> Vec<Source> {
    let policy = &serving.snapshot.policy;
    let backends = serving.snapshot.pools.iter().flat_map(|pool| &pool.backends);
    let engines = backends.map(|backend| (backend.spec.engine, &backend.engine));
    let followed = serving.snapshot.followed.iter().map(|(at, engine)| (*at, engine));
    let mut sources: Vec<Source> = Vec::new();
    for (at, engine) in engines.chain(followed.clone()) {
        let spec = &policy.engines[at];
        let follows = followed.clone().any(|(followed, _)| followed == at);
        if sources.iter().all(|source| !Arc::ptr_eq(&source.engine, engine)) {
            sources.push(Source {
                engine: engine.clone(),
                follows,
                probed: spec.is_probed(),
                access: EngineAccess::of(spec, spec.keys.first()),
                every: spec.scrape,
                metrics: address::metrics_urls(spec),
                gpus: spec.dcgm.clone(),
                health: spec.health.clone(),
            });
        }
    }
    sources
}
