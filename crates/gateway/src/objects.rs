//! Ownership of objects at providers (files, uploads, batches, stored responses). An object belongs to the key that
//! created it, and for any other key it does not exist. Without keys, every caller may use every object.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Frame, SizeHint};

use super::{
    Reply, Serving, Step,
    record::Record,
    reply::is_events,
    stages::{Call, Routed, Translated},
};
use signalbox_accounting::Callers;
use signalbox_protocol::objects::{self, ObjectPath};
use signalbox_types::{Fault, Name, object::ObjectKind};

/// Maximum number of bytes kept of an answer in several pieces, to find an id in.
const LONGEST_KEPT: usize = 64 << 10;
/// Number of leading events of a stream in which the response's id is searched.
const FIRST_EVENTS: usize = 16;

pub(super) struct Objects<S> {
    inner: S,
    callers: Arc<Callers>,
}

impl<S> Objects<S> {
    pub(super) fn new(inner: S, callers: Arc<Callers>) -> Self {
        Self { inner, callers }
    }
}

impl<S: Step<Routed>> Step<Translated> for Objects<S> {
    async fn call(&self, Translated(mut routed): Translated) -> Result<Reply, Fault> {
        let call = &routed.call;
        let caller = call.caller();
        // Without keys the owner does not matter, but the account does that stores the object.
        if caller.is_none() && call.serving.snapshot.policy.engines.len() < 2 {
            return self.inner.boxed(routed).await;
        }
        let (ownership, account) = self.check(call, caller)?;
        if let Some(account) = account {
            keep_to(&mut routed, &account);
        }
        let reply = self.inner.boxed(routed).await?;
        Ok(match ownership.filter(|_| reply.status().is_success()) {
            Some(ownership) => ownership.of(reply),
            None => reply,
        })
    }
}

impl<S> Objects<S> {
    /// Rejects an object of another key, or one without a known owner unless the policy allows it. Otherwise returns
    /// the ownership to record from the answer, if any, and the provider account that stores an object of the request.
    fn check(&self, call: &Call, caller: Option<&Name>) -> Result<(Option<Ownership>, Option<Name>), Fault> {
        let owners = &self.callers.objects;
        let allows_unknown = call.serving.snapshot.policy.allows_unknown_objects;
        let nobody = Name::from("");
        let is_refused = |id: &str| {
            let owner = owners.owner(id).filter(|owner| *owner != nobody);
            caller.is_some_and(|caller| owner.map_or(!allows_unknown, |owner| owner != *caller))
        };
        let ownership = |kind, is_new| Ownership {
            callers: self.callers.clone(),
            owner: caller.unwrap_or(&nobody).clone(),
            kind,
            is_new,
            serving: call.serving.clone(),
            record: call.record.clone(),
        };
        let mut account = None;
        let refers = |id: &str| {
            account = account.take().or_else(|| owners.account(id));
            is_refused(id)
        };
        if let Some((field, id)) = objects::find_reference(&call.body, refers) {
            return Err(Fault { param: Some(field.into()), ..missing(kind_of(field), &id) });
        }
        if let Some(ObjectPath::One(_, id)) = objects::of_path(&call.path) {
            account = owners.account(id);
        }
        let ownership = match objects::of_path(&call.path) {
            None => None,
            Some(ObjectPath::All(kind)) if call.method == Method::POST => {
                // A response that is not stored cannot be requested later.
                (call.body.member("store") != Some(b"false")).then(|| ownership(kind, true))
            }
            Some(ObjectPath::All(_)) if caller.is_none() => None,
            Some(ObjectPath::All(kind)) => return Err(no_list(kind)),
            Some(ObjectPath::One(kind, id)) if is_refused(id) => return Err(missing(kind, id)),
            Some(ObjectPath::One(kind, id)) => owners.owner(id).map(|_| ownership(kind, false)),
        };
        Ok((ownership, account))
    }
}

/// Limits a request to the provider account that stores one of its objects, if its route has a backend there.
fn keep_to(routed: &mut Routed, account: &Name) {
    let route = routed.route.retargeted(|target| target.account = Some(account.clone()));
    let pools = &routed.call.serving.snapshot.pools;
    if route.targets.iter().any(|target| pools[target.pool].members(target).next().is_some()) {
        routed.route = Arc::new(route);
    }
}

fn kind_of(field: &str) -> ObjectKind {
    match field {
        _ if field.contains("file") => ObjectKind::File,
        _ if field.contains("vector_store") => ObjectKind::VectorStore,
        _ => ObjectKind::Response,
    }
}

/// Returns the provider's error for an object that does not exist. It is the same for another key's object, so that its
/// existence stays hidden.
fn missing(kind: ObjectKind, id: &str) -> Fault {
    let shown: String = id.chars().take(100).collect();
    let what = match kind {
        ObjectKind::File => format!("No such File object: {shown}"),
        ObjectKind::Upload => format!("No such Upload object: {shown}"),
        ObjectKind::Batch => format!("No batch found with id '{shown}'."),
        ObjectKind::Response => format!("Response with id '{shown}' not found."),
        ObjectKind::VectorStore => format!("Vector store with id '{shown}' not found."),
        ObjectKind::Video => format!("Video with id '{shown}' not found."),
        ObjectKind::FineTuningJob => format!("Could not find fine tune: {shown}"),
    };
    let fault = Fault::client(StatusCode::NOT_FOUND, "object_not_found", what);
    Fault { param: Some("id".into()), ..fault }
}

fn no_list(kind: ObjectKind) -> Fault {
    let message = format!(
        "a list would show the {} objects of every key of this gateway: ask for one of yours by its id",
        kind.name()
    );
    Fault::client(StatusCode::FORBIDDEN, "list_refused", message).with_code("list_not_allowed")
}

/// Ownership to record from an answer.
struct Ownership {
    callers: Arc<Callers>,
    owner: Name,
    kind: ObjectKind,
    /// True if the answer is a new object. False if it is an existing one that may name files made from it.
    is_new: bool,
    serving: Arc<Serving>,
    /// Record of the request, which knows the backend that answered.
    record: Arc<Record>,
}

impl Ownership {
    fn of(self, reply: Reply) -> Reply {
        let is_events = is_events(reply.headers());
        if !self.is_new && (is_events || !self.makes_files()) {
            return reply;
        }
        reply.map(|inner| {
            let reading = Reading { ownership: self, is_events, kept: Vec::new(), pieces: 0 };
            Body::new(Noting { inner, reading: Some(reading) })
        })
    }

    /// True if an object names files that were made from it, once it is completed.
    fn makes_files(&self) -> bool {
        matches!(self.kind, ObjectKind::Batch | ObjectKind::Upload | ObjectKind::FineTuningJob)
    }

    fn note(&self, id: &str, kind: ObjectKind) {
        self.callers.objects.note(id, kind, &self.owner, self.account());
    }

    /// The provider account of the backend that answered.
    fn account(&self) -> Option<Name> {
        let served = self.record.served()?;
        let pool = self.serving.snapshot.pools.iter().find(|pool| pool.spec.name == served.pool)?;
        Some(pool.backends.iter().find(|backend| *backend.name() == served.backend)?.engine.id.account())
    }

    /// Records the ids in `answer`, which may be incomplete. Returns true if no more can follow.
    fn read(&self, answer: &[u8]) -> bool {
        let id = self.is_new.then(|| objects::id(answer)).flatten();
        if let Some(id) = id {
            self.note(id, self.kind);
        }
        if self.makes_files() {
            objects::files_made(answer).for_each(|id| self.note(id, ObjectKind::File));
            return false;
        }
        id.is_some()
    }
}

/// Search for ids in an answer under way.
struct Reading {
    ownership: Ownership,
    is_events: bool,
    kept: Vec<u8>,
    pieces: usize,
}

impl Reading {
    /// Searches the next piece. Returns true if nothing more can be found.
    fn read(&mut self, piece: &[u8]) -> bool {
        self.pieces += 1;
        if self.is_events {
            let id = objects::event_id(piece);
            if let Some(id) = id {
                self.ownership.note(id, self.ownership.kind);
            }
            return id.is_some() || self.pieces >= FIRST_EVENTS;
        }
        // Most answers come in one piece.
        if self.kept.is_empty() && self.ownership.read(piece) {
            return true;
        }
        if self.kept.len() + piece.len() > LONGEST_KEPT {
            return true;
        }
        self.kept.extend_from_slice(piece);
        self.pieces > 1 && self.ownership.read(&self.kept)
    }
}

/// A body whose ids are recorded before they are passed on.
struct Noting {
    inner: Body,
    reading: Option<Reading>,
}

impl http_body::Body for Noting {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let piece = polled.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        if let (Some(piece), Some(reading)) = (piece, &mut self.reading)
            && reading.read(piece)
        {
            self.reading = None;
        }
        Poll::Ready(polled.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
