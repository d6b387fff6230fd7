//! Log of what operators change or send through the admin API, of reloads by other means, and of requests that the admin listener refuses: the
//! last thousand in memory, each as a line of the log, and in `audit.jsonl` beside usage where the policy keeps usage.

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use axum::{extract::Request, response::Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, Method, StatusCode, header};
use parking_lot::Mutex;
use serde::Serialize;

use super::{listen::Peer, recent::Recent};
use signalbox_policy::{AdminAccess, Policy};
use signalbox_telemetry::{Entry, Journal, JournalCounters};
use signalbox_types::wall_clock;

/// Most actions in memory.
const MOST: usize = 1000;
/// Most refused requests in memory, which anyone may cause: they displace no actions.
const MOST_REFUSED: usize = 200;
/// Shortest time between two refused requests that are logged. Others in between are counted.
const BETWEEN_REFUSED: Duration = Duration::from_secs(1);
/// The change of a reload.
const RELOAD: &str = "reload policy";
/// Name of the file in the folder of usage.
const FILE: &str = "audit.jsonl";
/// Size at which the file is rotated, in bytes, and the rotated files that are kept.
const ROTATION: (u64, u32) = (16 << 20, 5);
/// Most characters of a name or a target.
const LONGEST: usize = 200;

/// One action.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Action {
    /// Seconds since 1970.
    time_s: i64,
    /// `token`, the name given beside it as HTTP Basic (which is not verified), `certificate`, or `local` where no credential is asked for. Of a
    /// refused request `unknown`, of a reload that no request asked for `SIGHUP` or `file`.
    who: String,
    /// Address of the client, which is that of a proxy where one stands between.
    peer: Option<IpAddr>,
    /// The change, such as `drain backend`.
    #[serde(rename = "action")]
    change: String,
    /// The object of the change.
    target: Option<String>,
    /// `ok`, `failed`, or `refused` with the HTTP status.
    result: String,
    /// Refused requests before this one that were not logged.
    #[serde(skip_serializing_if = "is_zero")]
    unlogged: u64,
    /// Place in the order of actions.
    #[serde(skip)]
    number: u64,
    /// True if it changes the gateway.
    #[serde(skip)]
    is_change: bool,
}

/// A request that the admin listener refuses.
pub(super) struct Refused {
    action: Action,
    /// True if it neither carries a credential nor asks for a change.
    is_harmless: bool,
}

/// Object of an action that its path does not name, as an extension of the answer.
#[derive(Clone)]
pub(super) struct Target(pub(super) String);

/// The last refused request that was logged, and the number of those after it.
#[derive(Default)]
struct Pace {
    logged: Option<Instant>,
    unlogged: u64,
}

/// The actions so far.
#[derive(Default)]
pub(super) struct AuditLog {
    recent: Recent<Arc<Action>, MOST>,
    refused: Recent<Arc<Action>, MOST_REFUSED>,
    pace: Mutex<Pace>,
    written: AtomicU64,
    /// Path of the file, where the policy has a folder for it.
    path: Option<PathBuf>,
    counters: JournalCounters,
    /// The file, once it could be opened.
    file: OnceLock<Journal>,
}

impl AuditLog {
    /// Opens the log, with its file where the policy has a folder for it.
    pub(super) fn open(policy: &Policy, counters: JournalCounters) -> Self {
        let path = policy.usage.as_ref().map(|usage| usage.path.join(FILE));
        let log = Self { path, counters, ..Self::default() };
        log.retry();
        log
    }

    /// Opens the file, if that failed before.
    pub(super) fn retry(&self) {
        let Some(path) = self.path.as_ref().filter(|_| self.file.get().is_none()) else { return };
        let (size, keep) = ROTATION;
        match Journal::open(path, size, keep, self.counters.clone()) {
            // Only one task opens it.
            Ok(file) => drop(self.file.set(file)),
            Err(error) if self.counters.writes().failed(&error) => {
                tracing::warn!(%error, file = %path.display(), "audit: the file cannot be written, will be retried (usage.path)");
            }
            Err(_) => {}
        }
    }

    /// Opens the file again by its name, for programs that rotate it.
    pub(super) fn reopen(&self) {
        if let Some(file) = self.file.get() {
            file.reopen();
        }
    }

    /// Logs an action with its answer. Returns words for it if it changed something.
    pub(super) fn note(&self, mut action: Action, answer: &Response) -> Option<String> {
        let (status, target) = (answer.status(), answer.extensions().get::<Target>());
        action.target = target.map(|Target(name)| bounded(name)).or(action.target);
        action.result = if status.is_success() { "ok".to_owned() } else { format!("refused {}", status.as_u16()) };
        let words = (status.is_success() && action.is_change).then(|| {
            let target = action.target.as_deref().unwrap_or_default();
            format!("{}: {} {target}", action.who, action.change).trim_end().to_owned()
        });
        self.recent.add([self.write(action)]);
        words
    }

    /// Logs a reload that no request asked for: by `SIGHUP`, or since the `file` changed.
    pub(super) fn note_reload(&self, who: &str, loaded: &Result<String, String>) {
        let result = if loaded.is_ok() { "ok" } else { "failed" };
        let action = Action {
            who: who.to_owned(),
            change: RELOAD.to_owned(),
            target: loaded.as_ref().ok().cloned(),
            result: result.to_owned(),
            ..Action::default()
        };
        self.recent.add([self.write(action)]);
    }

    /// Logs a request that the admin listener refused, unless one was logged just before.
    pub(super) fn note_refused(&self, request: &Refused, status: StatusCode) {
        // Every browser asks without a credential first.
        if request.is_harmless && status == StatusCode::UNAUTHORIZED {
            return;
        }
        let mut action = request.action.clone();
        {
            let mut pace = self.pace.lock();
            if pace.logged.is_some_and(|last| last.elapsed() < BETWEEN_REFUSED) {
                pace.unlogged += 1;
                return;
            }
            action.unlogged = std::mem::take(&mut pace.unlogged);
            pace.logged = Some(Instant::now());
        }
        action.result = format!("refused {}", status.as_u16());
        self.refused.add([self.write(action)]);
    }

    /// Writes an action to the log and to the file.
    fn write(&self, mut action: Action) -> Arc<Action> {
        action.time_s = wall_clock::seconds();
        action.number = self.written.fetch_add(1, Relaxed);
        let Action { who, peer, change, target, result, unlogged, .. } = &action;
        let target = target.as_deref().unwrap_or_default();
        let peer = peer.map(tracing::field::display);
        tracing::info!(who, peer, target, result, unlogged, "audit: {change}");
        let action = Arc::new(action);
        if let Some(file) = self.file.get() {
            file.write(action.clone());
        }
        action
    }

    /// The last `most` actions, newest first.
    pub(super) fn last(&self, most: usize) -> Vec<Arc<Action>> {
        let mut all = [self.recent.all(), self.refused.all()].concat();
        all.sort_by_key(|action| std::cmp::Reverse(action.number));
        all.truncate(most);
        all
    }

    /// Writes what is queued. Blocks.
    pub(super) fn close(&self) {
        if let Some(file) = self.file.get() {
            file.close();
        }
    }
}

impl Action {
    /// The change that `request` asks for; `None` if it asks for none.
    pub(super) fn of(request: &Request, access: &AdminAccess) -> Option<Self> {
        let (method, uri) = (request.method(), request.uri());
        let path = uri.path().trim_start_matches("/admin/");
        if method.is_safe() || path == "explain" {
            return None;
        }
        let parts: Vec<_> = path.split('/').collect();
        let (change, target) = match (method, &*parts) {
            (_, ["reload"]) => (RELOAD.to_owned(), None),
            (_, ["playground"]) => ("send prompt".to_owned(), None),
            (_, ["cache", "purge"]) => ("purge cache".to_owned(), uri.query().map(str::to_owned)),
            (_, ["complexity", "rollback"]) => ("roll back weights".to_owned(), uri.query().map(str::to_owned)),
            (&Method::PUT, ["backends", pool, id]) => ("add backend".to_owned(), Some(format!("{pool}/{id}"))),
            (&Method::DELETE, ["backends", pool, id]) => ("remove backend".to_owned(), Some(format!("{pool}/{id}"))),
            (_, ["backends", pool, id, verb]) => (format!("{verb} backend"), Some(format!("{pool}/{id}"))),
            (_, ["keys"]) => ("create key".to_owned(), None),
            (&Method::PATCH, ["keys", id]) => ("change key".to_owned(), Some((*id).to_owned())),
            (&Method::DELETE, ["keys", id]) => ("delete key".to_owned(), Some((*id).to_owned())),
            (_, ["keys", id, verb]) => (format!("{verb} key"), Some((*id).to_owned())),
            _ => (method.to_string(), Some(uri.path().to_owned())),
        };
        let (who, peer) = (who(request.headers(), access), peer(request));
        let (change, target) = (bounded(&change), target.as_deref().map(bounded));
        let is_change = path != "playground";
        Some(Self { who, peer, change, target, is_change, ..Self::default() })
    }
}

impl Refused {
    /// Describes `request` in case it is refused.
    pub(super) fn of(request: &Request) -> Self {
        let action = Action {
            who: "unknown".to_owned(),
            peer: peer(request),
            change: bounded(request.method().as_str()),
            target: Some(bounded(request.uri().path())),
            ..Action::default()
        };
        let is_harmless = request.method().is_safe() && !request.headers().contains_key(header::AUTHORIZATION);
        Self { action, is_harmless }
    }
}

impl Entry for Action {
    fn write(&self, buffer: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(buffer, self)
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.who.len() + self.change.len() + self.target.as_ref().map_or(0, String::len)
    }
}

fn who(headers: &HeaderMap, access: &AdminAccess) -> String {
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let basic = sent.and_then(|sent| sent.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
    let decoded = basic.and_then(|(_, pair)| STANDARD.decode(pair.trim()).ok());
    let named =
        decoded.and_then(|pair| Some(String::from_utf8_lossy(pair.split(|byte| *byte == b':').next()?).into_owned()));
    match named.filter(|name| !name.is_empty() && access.token.is_some()) {
        Some(name) => bounded(&name),
        None if access.token.is_some() => "token".to_owned(),
        None if access.client_roots.is_some() => "certificate".to_owned(),
        None => "local".to_owned(),
    }
}

fn peer(request: &Request) -> Option<IpAddr> {
    request.extensions().get::<Peer>().map(|Peer(address)| address.ip().to_canonical())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The first characters, none of which can forge a line.
fn bounded(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(LONGEST).collect()
}
