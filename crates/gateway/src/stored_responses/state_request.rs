//! Requests for stored state: the state that a path names, and whether it is held here.

use std::sync::Arc;

use crate::stages::Call;
use signalbox_answers::Answers;
use signalbox_cache::responses::{Owner, StateId};
use signalbox_types::{Endpoint, Moment};

/// A request for stored state, and whose it is.
pub(super) struct Held {
    pub(super) answers: Arc<Answers>,
    pub(super) owner: Owner,
    pub(super) now: Moment,
    pub(super) call: Call,
}

impl Held {
    /// True if the state that the request names is held here, or by nobody. Conversations are held here if a pool could
    /// not use a provider's.
    pub(super) fn is_held_here(&self) -> bool {
        let mut speaks = self.call.serving.snapshot.pools.iter().map(|pool| pool.speaks(Endpoint::Responses));
        match Place::of(&self.call.path) {
            Some(Place::Response(id, _) | Place::Conversation(id, _)) => {
                StateId::read(id).is_some() || !speaks.any(|speaks| speaks)
            }
            Some(Place::Conversations) => speaks.any(|speaks| !speaks),
            None => false,
        }
    }
}

/// The state that a path names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
    /// A response, or what is below it.
    Response(&'a str, Option<&'a str>),
    /// All conversations.
    Conversations,
    /// A conversation, or what is below it.
    Conversation(&'a str, Option<&'a str>),
}

impl<'a> Place<'a> {
    pub(super) fn of(path: &'a str) -> Option<Self> {
        let rest = path.strip_prefix("/v1/")?;
        if rest == "conversations" {
            return Some(Self::Conversations);
        }
        let (first, rest) = rest.split_once('/')?;
        let (id, below) = rest.split_once('/').map_or((rest, None), |(id, below)| (id, Some(below)));
        match first {
            // These are requests, not ids.
            "responses" if matches!(id, "input_tokens" | "compact") => None,
            "responses" => Some(Self::Response(id, below)),
            "conversations" => Some(Self::Conversation(id, below)),
            _ => None,
        }
    }
}
