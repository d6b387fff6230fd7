//! What one request has taken of its caller's limits. Settled with the request's record; what is not settled comes back with it.

use std::sync::{Arc, Mutex};

use http::HeaderMap;

use super::{
    Caller, headers,
    refusal::{overspent, refused},
};
use crate::{
    gateway::{line::Line, wall},
    measure::lock,
    quota::{Exceeded, Grant, Reserved, Spent, Stay},
    telemetry::Stage,
    types::{Fault, Moment, Name, Outcome},
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
    grant: Option<Grant>,
    /// What its prompt alone will take.
    prompt: Spent,
}

impl Bill {
    /// Nothing taken yet.
    pub(in crate::gateway) fn new(caller: Arc<Caller>) -> Self {
        Self { caller, held: Mutex::default() }
    }

    /// The caller's team.
    pub(in crate::gateway) fn team(&self) -> Option<&Name> {
        self.caller.team.as_ref()
    }

    /// The request comes in, and counts as one.
    pub(in crate::gateway) fn enter(&self, now: Moment) -> Result<(), Fault> {
        let stay = self.caller.known.allowance.enter(now).map_err(|exceeded| self.refuse(&exceeded))?;
        lock(&self.held).stay = Some(stay);
        Ok(())
    }

    /// An engine is to work for it: `whole` with the answer, as far as can be told, `prompt` without.
    pub(in crate::gateway) fn reserve(&self, prompt: Spent, whole: Spent, now: Moment) -> Result<(), Fault> {
        let Caller { id, team, fund, known } = &*self.caller;
        let tokens = known.allowance.reserve(whole.tokens, now).map_err(|exceeded| self.refuse(&exceeded))?;
        let grant = match (fund, team) {
            (Some(fund), Some(team)) => Some(fund.reserve(whole, wall::seconds()).map_err(|exceeded| {
                known.refuse(None);
                overspent(id, team, &exceeded, wall::seconds())
            })?),
            _ => None,
        };
        let mut held = lock(&self.held);
        (held.tokens, held.grant, held.prompt) = (Some(tokens), grant, prompt);
        Ok(())
    }

    /// The request is over.
    pub(in crate::gateway) fn settle(&self, line: &Line) {
        let Held { stay: _stay, tokens, grant, prompt } = std::mem::take(&mut *lock(&self.held));
        let mut spent = line.spent();
        // A client that left while its prompt was read has used that: else prompts would cost nothing who leave early.
        let left_early = line.outcome == Outcome::ClientGone.label() && line.stage == Stage::Prefill;
        if left_early && spent.tokens == 0 && !line.attempts.is_empty() {
            spent = prompt;
        }
        if let Some(tokens) = tokens {
            tokens.settle(spent.tokens);
        }
        if let Some(grant) = grant {
            grant.settle(spent, wall::seconds());
        }
    }

    /// Tells the caller how it stands.
    pub(in crate::gateway) fn put(&self, headers: &mut HeaderMap, now: Moment) {
        headers::put(headers, &self.caller.known.allowance.standing(now));
    }

    fn refuse(&self, exceeded: &Exceeded) -> Fault {
        self.caller.known.refuse(Some(exceeded.kind));
        refused(&self.caller.id, exceeded)
    }
}
