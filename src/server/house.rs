//! Everything that lives as long as the process: put together once, and again in part when the policy changes.

use std::{io, sync::Arc, time::Duration};

use arc_swap::ArcSwap;

use super::{
    costs::Accrued,
    tls::{Certificate, Prepared, TlsError},
};
use crate::{
    accounting::UsageStoreError,
    fleet::{Registry, Snapshot},
    gateway::{Desk, Live, Serving},
    journal::AccessLog,
    learning::{self, LearningFile},
    otel::{self, Exporter},
    policy::{self, AdminAccess, Policy},
    redis::{Link, LinkError},
    store,
    telemetry::Journal,
    types::Clock,
    upstream::{
        Client, Hub, Tokenizers,
        client::SetUpError,
        scrape::{Scrapers, Source},
    },
};

/// How long the last spans and measurements may take to be sent.
const LAST_SPANS: Duration = Duration::from_millis(750);

/// The parts that requests, operators and reloads share.
pub(super) struct House {
    /// What is being served.
    pub live: Arc<Live>,
    /// Where records end.
    pub desk: Arc<Desk>,
    /// The way out.
    pub client: Client,
    /// What is shown to those who come in.
    pub certificate: Arc<Certificate>,
    /// The same for operators, of whom it may ask other certificates.
    pub admin_certificate: Arc<Certificate>,
    /// How operators are known. It outlives a policy that switches their listener off, which takes a restart.
    pub admin_access: ArcSwap<AdminAccess>,
    pub(super) registry: Registry,
    /// What the engines' hours have cost.
    accrued: Accrued,
    tokenizers: Tokenizers,
    scrapers: Scrapers,
}

/// The house could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No HTTP client.
    #[error(transparent)]
    Client(#[from] SetUpError),
    /// No certificate to show.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What was learned cannot be read.
    #[error(transparent)]
    Lessons(#[from] learning::LoadError),
    /// Usage cannot be kept.
    #[error("usage: {0} (usage.path in the policy)")]
    Usage(#[from] UsageStoreError),
    /// Kept answers cannot be on disk.
    #[error("kept answers: {0} (cache.persist.path in the policy)")]
    Disk(#[from] store::StoreError),
    /// They cannot be shared.
    #[error("kept answers: {0} (cache.shared.url in the policy)")]
    Shared(#[from] LinkError),
    /// Limits cannot be shared.
    #[error("limits: {0} (limits.shared.url in the policy)")]
    SharedLimits(LinkError),
    /// Traces cannot go out.
    #[error("{0} (otel in the policy)")]
    Otel(otel::SetUpError),
    /// The access log cannot be written.
    #[error("the access log '{path}' cannot be opened: {error} (access_log.path in the policy)")]
    AccessLog {
        /// The file.
        path: String,
        /// Why not.
        error: io::Error,
    },
    /// The journal's file cannot be written.
    #[error("the journal '{path}' cannot be opened: {error} (journal.path in the policy)")]
    Journal {
        /// The file.
        path: String,
        /// Why not.
        error: io::Error,
    },
}

impl House {
    /// Puts the house together to serve `policy`.
    pub(super) fn open(policy: Policy) -> Result<Self, OpenError> {
        let clock = Clock::start();
        let desk = Arc::new(Desk::new(clock));
        let client = Client::new(policy.timeouts.connect)?;
        let certificate = Arc::new(Certificate::of("tls.client_roots"));
        certificate.show(certificate.prepare(policy.tls.as_ref())?);
        let admin_certificate = Arc::new(Certificate::of("admin.mtls.client_roots"));
        admin_certificate.show(admin_certificate.prepare(policy.admin_tls(&policy.admin_access).as_ref())?);
        let admin_access = ArcSwap::from_pointee(policy.admin_access.clone());
        let registry = Registry::default();
        if let Some(journal) = open_journal(&policy, &desk)? {
            desk.decisions.journal.store(Some(journal));
        }
        desk.decisions.access_log.store(open_access_log(&policy, &desk)?);
        desk.otel.store(open_otel(&policy)?);
        if let Some(file) = &policy.learning.file
            && let Some(stored) = LearningFile::read(file)?
        {
            desk.learning.tiers.restore(stored);
        }
        desk.learning.tiers.configure(policy.learning.file.as_deref(), policy.learning.re_ask);
        if let Some(usage) = &policy.usage {
            desk.accounting.callers.open_store(usage)?;
        }
        desk.follow(&policy);
        desk.answers.keep_on_disk(&policy)?;
        desk.answers.share(&policy)?;
        desk.accounting.callers.share_limits(&desk.metrics, &policy).map_err(OpenError::SharedLimits)?;
        let scrapers = Scrapers::new(client.clone(), clock);
        let tokenizers = Tokenizers::new(Hub::from_env());
        let serving = Serving::new(Snapshot::new(policy, &registry), &desk, |tokenizer| tokenizers.source(tokenizer));
        scrapers.follow(sources(&serving));
        let live = Arc::new(Live::new(serving));
        let accrued = Accrued::default();
        Ok(Self {
            live,
            desk,
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

    /// Serves by `policy` from the next request on; what was learned of engines that stay is kept. On an error the old policy
    /// stays in force. Waits for the disk.
    pub(super) fn replace(&self, policy: Policy) -> Result<(), OpenError> {
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
        // What may fail comes before anything changes; but for the disk, which puts itself right.
        let other_file = before.learning.file != policy.learning.file;
        let stored =
            policy.learning.file.as_deref().filter(|_| other_file).map(LearningFile::read).transpose()?.flatten();
        let (other_journal, other_otel) = (before.journal != policy.journal, before.otel != policy.otel);
        let journal = if other_journal { open_journal(&policy, &self.desk)? } else { None };
        let other_access_log = before.access_log != policy.access_log;
        let access_log = if other_access_log { open_access_log(&policy, &self.desk)? } else { None };
        let exporter = if other_otel { open_otel(&policy)? } else { None };
        look_at_links(&policy)?;
        self.desk.answers.keep_on_disk(&policy)?;
        self.desk.answers.share(&policy)?;
        self.desk.accounting.callers.share_limits(&self.desk.metrics, &policy).map_err(OpenError::SharedLimits)?;
        if other_journal && let Some(old) = self.desk.decisions.journal.swap(journal) {
            tokio::task::spawn_blocking(move || old.close());
        }
        if other_access_log && let Some(old) = self.desk.decisions.access_log.swap(access_log) {
            tokio::task::spawn_blocking(move || old.close());
        }
        if other_otel && let Some(old) = self.desk.otel.swap(exporter) {
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
                tracing::warn!("'{what}' changed in the policy: it takes effect after a restart");
            }
        }
        if other_file {
            self.desk.learning.tiers.save();
        }
        if let Some(stored) = stored {
            self.desk.learning.tiers.restore(stored);
        }
        self.desk.learning.tiers.configure(policy.learning.file.as_deref(), policy.learning.re_ask);
        self.desk.follow(&policy);
        // What the hours of the old one's engines cost, before they go.
        self.accrued.until(self.desk.clock.now(), &old);
        let serving = Serving::new(Snapshot::new(policy, &self.registry), &self.desk, |it| self.tokenizers.source(it));
        self.scrapers.follow(sources(&serving));
        self.live.swap(serving);
        self.admin_access.store(next_access);
        // Not before: until then requests come with the keys of the old one.
        self.desk.accounting.prefix_stability.apply_policy(&self.live.load().snapshot.policy);
        if let Some(certificate) = certificate {
            self.certificate.show(certificate);
        }
        if let Some(certificate) = admin_certificate {
            self.admin_certificate.show(certificate);
        }
        Ok(())
    }

    /// Looks whether the certificate was renewed. Waits for the disk.
    pub(super) fn tend_certificate(&self) {
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
                Err(problem) => tracing::warn!("the certificate in use stays: {problem}"),
            }
        }
    }

    /// Tries again to have kept answers on disk, where another gateway had the folder. Waits for the disk.
    pub(super) fn tend_disk(&self) {
        if let Err(problem) = self.desk.answers.keep_on_disk(&self.live.load().snapshot.policy) {
            tracing::warn!("{}", OpenError::Disk(problem));
        }
    }

    /// Counts what the engines' hours cost up to now.
    pub(super) fn accrue(&self) {
        self.accrued.until(self.desk.clock.now(), &self.live.load());
    }

    /// Writes what was used, and forgets what is too old. Waits for the disk.
    pub(super) fn write_usage(&self) {
        self.desk.accounting.callers.write(self.usage_retention());
    }

    fn usage_retention(&self) -> Duration {
        let serving = self.live.load();
        serving.snapshot.policy.usage.as_ref().map_or(policy::USAGE_RETENTION, |usage| usage.retention)
    }

    /// Writes out what is queued.
    pub(super) async fn close(&self) {
        let (desk, retention) = (self.desk.clone(), self.usage_retention());
        let close = move || {
            desk.accounting.callers.write(retention);
            desk.learning.tiers.save();
            desk.answers.local.disk.close();
        };
        let _ = tokio::task::spawn_blocking(close).await;
        if let Some(exporter) = self.desk.otel.swap(None) {
            let _ = tokio::task::spawn_blocking(move || exporter.close(LAST_SPANS)).await;
        }
        if let Some(log) = self.desk.decisions.access_log.swap(None) {
            let _ = tokio::task::spawn_blocking(move || log.close()).await;
        }
        if let Some(journal) = self.desk.decisions.journal.swap(None) {
            // A panic in the writer was logged where it happened.
            let _ = tokio::task::spawn_blocking(move || journal.close()).await;
        }
    }
}

/// The certificate to be shown by `next`; `None` for the one in use, where the same files cannot be used at the moment.
fn prepare(
    certificate: &Certificate,
    before: Option<&policy::Tls>,
    next: Option<&policy::Tls>,
) -> Result<Option<Prepared>, TlsError> {
    match certificate.prepare(next) {
        // It may be half renewed: no reason to refuse all the rest.
        Err(problem) if before == next => {
            tracing::warn!("the certificate in use stays: {problem}");
            Ok(None)
        }
        prepared => prepared.map(Some),
    }
}

/// Whether the servers that the policy names have addresses; whether they are there shows later.
fn look_at_links(policy: &Policy) -> Result<(), OpenError> {
    // What simulated engines say goes nowhere.
    let shared = policy.caching.as_ref().and_then(|caching| caching.shared.as_ref()).filter(|_| !policy.simulated);
    if let Some(shared) = shared {
        Link::new(&shared.url.0)?;
    }
    if let Some(shared) = policy.shared_limits.as_ref().filter(|_| !policy.simulated) {
        Link::new(&shared.url.0).map_err(OpenError::SharedLimits)?;
    }
    Ok(())
}

fn open_journal(policy: &Policy, desk: &Desk) -> Result<Option<Arc<Journal>>, OpenError> {
    let Some(spec) = &policy.journal else { return Ok(None) };
    match Journal::open(&spec.path, spec.max_size, spec.keep, desk.metrics.journal()) {
        Ok(journal) => Ok(Some(Arc::new(journal))),
        Err(error) => Err(OpenError::Journal { path: spec.path.display().to_string(), error }),
    }
}

fn open_access_log(policy: &Policy, desk: &Desk) -> Result<Option<Arc<AccessLog>>, OpenError> {
    let Some(policy::AccessLog { format, path, max_size, keep }) = &policy.access_log else { return Ok(None) };
    match Journal::access(path.as_deref(), *max_size, *keep, desk.metrics.access_log()) {
        Ok(journal) => Ok(Some(Arc::new(AccessLog::new(journal, *format)))),
        Err(error) => {
            let path = path.as_ref().map_or_else(String::new, |path| path.display().to_string());
            Err(OpenError::AccessLog { path, error })
        }
    }
}

fn open_otel(policy: &Policy) -> Result<Option<Arc<Exporter>>, OpenError> {
    policy.otel.as_ref().map(|spec| Exporter::open(spec).map(Arc::new)).transpose().map_err(OpenError::Otel)
}

/// The engines that are to be asked how they do.
fn sources(serving: &Serving) -> Vec<Source> {
    let policy = &serving.snapshot.policy;
    let backends = serving.snapshot.pools.iter().flat_map(|pool| &pool.backends);
    let mut sources: Vec<Source> = Vec::new();
    for backend in backends {
        let spec = &policy.engines[backend.spec.engine];
        let is_asked = spec.scrape.is_some() || spec.dcgm.is_some() || spec.health.is_some();
        if is_asked && sources.iter().all(|source| source.engine.url != spec.url) {
            sources.push(Source {
                engine: backend.engine.clone(),
                key: spec.keys.first().cloned(),
                every: spec.scrape,
                gpus: spec.dcgm.clone(),
                health: spec.health.clone(),
            });
        }
    }
    sources
}
