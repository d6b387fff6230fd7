//! What one request has taken of its caller's limits. Settled with the request's record; what is not settled comes back with it.

use std::sync::{Arc, Mutex};

use http::HeaderMap;

use super::{Caller, headers, refused};
use crate::{
    measure::lock,
    quota::{Reserved, Stay},
    types::{Fault, Moment},
};

/// What one request has taken.
pub(in crate::gateway) struct Bill {
    caller: Arc<Caller>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    stay: Option<Stay>,
    tokens: Option<Reserved>,
}

impl Bill {
    /// Nothing taken yet.
    pub(in crate::gateway) fn new(caller: Arc<Caller>) -> Self {
        Self { caller, held: Mutex::default() }
    }

    /// The request comes in, and counts as one.
    pub(in crate::gateway) fn enter(&self, now: Moment) -> Result<(), Fault> {
        let stay = self.caller.enter(now).map_err(|exceeded| refused(&self.caller.id, &exceeded))?;
        lock(&self.held).stay = Some(stay);
        Ok(())
    }

    /// An engine is to work for it: so many tokens, as far as can be told.
    pub(in crate::gateway) fn reserve(&self, tokens: u64, now: Moment) -> Result<(), Fault> {
        let reserved = self.caller.reserve(tokens, now).map_err(|exceeded| refused(&self.caller.id, &exceeded))?;
        lock(&self.held).tokens = Some(reserved);
        Ok(())
    }

    /// The request is over, and has used this many tokens.
    pub(in crate::gateway) fn settle(&self, used: u64) {
        let Held { stay: _stay, tokens } = std::mem::take(&mut *lock(&self.held));
        if let Some(tokens) = tokens {
            tokens.settle(used);
        }
    }

    /// Tells the caller how it stands.
    pub(in crate::gateway) fn put(&self, headers: &mut HeaderMap, now: Moment) {
        headers::put(headers, &self.caller.standing(now));
    }
}
