//! Log of the changes that operators make through the admin API: the last thousand in memory, each as a line of the log, and in
//! `audit.jsonl` beside usage where the policy keeps usage.

use std::sync::Arc;

use axum::{extract::Request, response::Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, Method, header};
use serde::Serialize;

use super::recent::Recent;
use crate::{
    policy::{AdminAccess, Policy},
    telemetry::{Entry, Journal, JournalCounters},
    types::wall_clock,
};

/// Most actions in memory.
const MOST: usize = 1000;
/// Name of the file in the folder of usage.
const FILE: &str = "audit.jsonl";
/// Size at which the file is rotated, in bytes, and the rotated files that are kept.
const ROTATION: (u64, u32) = (16 << 20, 5);
/// Most characters of a name or a target.
const LONGEST: usize = 200;

/// One action.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Action {
    /// Seconds since 1970.
    time_s: i64,
    /// `token`, the name given beside it as HTTP Basic (which is not verified), `certificate`, or `local` where no credential is asked for.
    who: String,
    /// The change, such as `drain backend`.
    #[serde(rename = "action")]
    change: String,
    /// The object of the change.
    target: Option<String>,
    /// `ok`, or `refused` with the HTTP status.
    result: String,
}

/// Object of an action that its path does not name, as an extension of the answer.
#[derive(Clone)]
pub(super) struct Target(pub(super) String);

/// The actions so far.
#[derive(Default)]
pub(super) struct AuditLog {
    recent: Recent<Arc<Action>, MOST>,
    file: Option<Journal>,
}

impl AuditLog {
    /// Opens the log, with its file where the policy has a folder for it.
    pub(super) fn open(policy: &Policy) -> Self {
        let file = policy.usage.as_ref().and_then(|usage| {
            let (path, (size, keep)) = (usage.path.join(FILE), ROTATION);
            Journal::open(&path, size, keep, JournalCounters::default())
                .inspect_err(
                    |error| tracing::warn!(%error, file = %path.display(), "audit: the file cannot be written"),
                )
                .ok()
        });
        Self { file, ..Self::default() }
    }

    /// Logs an action with its answer. Returns words for it if it changed something.
    pub(super) fn note(&self, mut action: Action, answer: &Response) -> Option<String> {
        let (status, target) = (answer.status(), answer.extensions().get::<Target>());
        action.time_s = wall_clock::seconds();
        action.target = target.map(|Target(name)| bounded(name)).or(action.target);
        action.result = if status.is_success() { "ok".to_owned() } else { format!("refused {}", status.as_u16()) };
        let Action { who, change, target, result, .. } = &action;
        let target = target.as_deref().unwrap_or_default();
        tracing::info!(who, target, result, "audit: {change}");
        let words = status.is_success().then(|| format!("{who}: {change} {target}").trim_end().to_owned());
        let action = Arc::new(action);
        if let Some(file) = &self.file {
            file.write(action.clone());
        }
        self.recent.add([action]);
        words
    }

    /// The last `most` actions, newest first.
    pub(super) fn last(&self, most: usize) -> Vec<Arc<Action>> {
        self.recent.all().into_iter().rev().take(most).collect()
    }

    /// Writes what is queued. Blocks.
    pub(super) fn close(&self) {
        if let Some(file) = &self.file {
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
            (_, ["reload"]) => ("reload policy".to_owned(), None),
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
        let (change, target) = (bounded(&change), target.as_deref().map(bounded));
        Some(Self { time_s: 0, who: who(request.headers(), access), change, target, result: String::new() })
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

/// The first characters, none of which can forge a line.
fn bounded(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(LONGEST).collect()
}
