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
use signalbox_types::{Endpoint, Fault, Name, object::ObjectKind};

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
        let (ownership, place) = self.check(call, caller)?;
        let account = place.account.or_else(|| lists(call).then(|| first_account(&routed)).flatten());
        routed.call.seeks_object = place.is_unknown && account.is_none();
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
    /// the ownership to record from the answer, if any, and the place of the objects that the request names.
    fn check(&self, call: &Call, caller: Option<&Name>) -> Result<(Option<Ownership>, ObjectPlace), Fault> {
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
            has_items: false,
            found: None,
            serving: call.serving.clone(),
            record: call.record.clone(),
        };
        let mut place = self.place(call, caller, is_refused)?;
        let has_items = matches!(&*call.path, "/v1/responses" | "/v1/responses/compact") && call.method == Method::POST;
        // A response that is not stored cannot be requested later.
        let is_stored = call.body.member("store") != Some(b"false");
        let ownership = match objects::of_path(&call.path) {
            None if has_items => Some(Ownership { has_items, ..ownership(ObjectKind::Response, false) }),
            None => None,
            Some(ObjectPath::All(kind)) if call.method == Method::POST => {
                (is_stored || has_items).then(|| Ownership { has_items, ..ownership(kind, is_stored) })
            }
            Some(ObjectPath::All(_)) if caller.is_none() => None,
            Some(ObjectPath::All(kind)) => return Err(no_list(kind)),
            Some(ObjectPath::One(kind, id)) if is_refused(id) => return Err(missing(kind, id)),
            Some(ObjectPath::One(kind, id)) => {
                place.account = owners.account(id);
                place.is_unknown = place.account.is_none();
                let found = place.is_unknown.then(|| id.to_owned());
                (owners.owner(id).is_some() || found.is_some()).then(|| Ownership { found, ..ownership(kind, false) })
            }
        };
        Ok((ownership, place))
    }

    /// Finds the account that can read all that the body names.
    ///
    /// Stored objects must be there. Of what came along in the input, such as encrypted reasoning, the latest counts: a
    /// conversation may have moved.
    ///
    /// # Errors
    /// If an object belongs to another key, or if no account has them all.
    fn place(
        &self,
        call: &Call,
        caller: Option<&Name>,
        is_refused: impl Fn(&str) -> bool,
    ) -> Result<ObjectPlace, Fault> {
        let owners = &self.callers.objects;
        let mut place = ObjectPlace::default();
        let mut several = false;
        let mut keep = |account: Option<Name>| match account {
            None => place.is_unknown = true,
            Some(account) => several |= *place.account.get_or_insert_with(|| account.clone()) != account,
        };
        let refers = |id: &str| {
            keep(owners.account(id));
            is_refused(id)
        };
        if let Some((field, id)) = objects::find_reference(&call.body, refers) {
            return Err(Fault { param: Some(field.into()), ..missing(kind_of(field), &id) });
        }
        if call.endpoint == Endpoint::Responses {
            let (mut latest, mut foreign) = (None, None);
            let nobody = Name::from("");
            objects::states_named(&call.body, |id, is_stored| {
                let Some(account) = owners.account(id) else { return };
                if !is_stored {
                    latest = Some(account);
                    return;
                }
                let is_foreign = |owner: Name| owner != nobody && caller.is_some_and(|caller| *caller != owner);
                if owners.owner(id).is_some_and(is_foreign) {
                    foreign.get_or_insert_with(|| id.to_owned());
                }
                keep(Some(account));
            });
            if let Some(id) = foreign {
                return Err(Fault { param: Some("input".into()), ..missing(ObjectKind::Item, &id) });
            }
            place.account = place.account.or(latest);
        }
        if several {
            let message = "the request names objects that are stored in different accounts, and none of them can read all: \
                           create them anew for one request, in one conversation";
            return Err(Fault::client(StatusCode::BAD_REQUEST, "objects_apart", message).with_code("objects_apart"));
        }
        Ok(place)
    }
}

/// The place of the objects that a request names.
#[derive(Default)]
struct ObjectPlace {
    /// The provider account that has them.
    account: Option<Name>,
    /// True if it is not known which one has some of them.
    is_unknown: bool,
}

/// True if a request lists objects.
fn lists(call: &Call) -> bool {
    call.method == Method::GET && matches!(objects::of_path(&call.path), Some(ObjectPath::All(_)))
}

/// The account of a route's first backend: lists always show its objects, rather than those of another one at each call.
fn first_account(routed: &Routed) -> Option<Name> {
    let pools = &routed.call.serving.snapshot.pools;
    let mut members = routed.route.targets.iter().flat_map(|target| {
        let pool = &pools[target.pool];
        pool.members(target).map(|member| pool.backends[member].engine.id.account())
    });
    members.next()
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
        ObjectKind::Item => format!("Item with id '{shown}' not found."),
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
    /// True if the answer may have items that only its account can read.
    has_items: bool,
    /// Id of an object whose account is known once it answers.
    found: Option<String>,
    serving: Arc<Serving>,
    /// Record of the request, which knows the backend that answered.
    record: Arc<Record>,
}

impl Ownership {
    fn of(self, reply: Reply) -> Reply {
        let is_events = is_events(reply.headers());
        if let Some(id) = &self.found {
            self.callers.objects.note(id, self.kind, &Name::from(""), self.account());
        }
        if !self.is_new && !self.has_items && (is_events || !self.makes_files()) {
            return reply;
        }
        reply.map(|inner| {
            let reading = Reading { ownership: self, is_events, kept: Vec::new(), pieces: 0, has_id: false };
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
        self.read_items(answer);
        id.is_some()
    }

    /// Records the items in an answer, or in an event.
    fn read_items(&self, answer: &[u8]) {
        if self.has_items {
            objects::states(answer, |id| self.note(id, ObjectKind::Item));
        }
    }
}

/// Search for ids in an answer under way.
struct Reading {
    ownership: Ownership,
    is_events: bool,
    kept: Vec<u8>,
    pieces: usize,
    /// True once the id of a streamed response is recorded.
    has_id: bool,
}

impl Reading {
    /// Searches the next piece. Returns true if nothing more can be found.
    fn read(&mut self, piece: &[u8]) -> bool {
        self.pieces += 1;
        if self.is_events {
            let id = if self.has_id { None } else { objects::event_id(piece) };
            if let Some(id) = id.filter(|_| self.ownership.is_new) {
                self.ownership.note(id, self.ownership.kind);
                self.has_id = true;
            }
            if objects::ends_item(piece) {
                self.ownership.read_items(piece);
            }
            return !self.ownership.has_items && (id.is_some() || self.pieces >= FIRST_EVENTS);
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
