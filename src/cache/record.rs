//! A kept answer: what it says, who gave it and for whom, and what it would cost to have it made again.

use crate::{
    cache::key::ScopeId,
    protocol::Transcript,
    types::{Name, Usage},
};

/// A kept answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What it says.
    pub transcript: Transcript,
    /// Who may share it.
    pub scope: ScopeId,
    /// Name of the caller's key, where keys are asked for.
    pub caller: Option<Name>,
    /// The route that its request took.
    pub route: Name,
    /// The pool that answered.
    pub pool: Name,
    /// Which backend of that pool, as the policy described it then: see [`Record::may_serve`].
    pub origin: Origin,
    /// What it cost in US dollars, where prices are known.
    pub cost_usd: Option<f64>,
    /// Seconds from the request's arrival to the end of the answer.
    pub seconds: f64,
}

/// A backend as a policy describes it: a hash over what may change its answers. A backend that is described otherwise is another one.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin(pub u64);

impl Record {
    /// Whether it may answer a request that one of `acceptable` would have answered otherwise, or one of lower standing.
    pub fn may_serve(&self, acceptable: &[Origin]) -> bool {
        acceptable.contains(&self.origin)
    }

    /// What it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.transcript.bytes() + size_of::<Self>() - size_of::<Transcript>()
    }

    /// Token counts of the answer as it is given again: all of its prompt was cached.
    pub fn usage(&self) -> Option<Usage> {
        self.transcript.usage().map(|usage| Usage { cached_tokens: Some(usage.prompt_tokens), ..usage })
    }

    /// What giving it again saves, in US dollars; by its tokens at a dollar a million where no price is known.
    pub fn worth(&self) -> f64 {
        let tokens = self.transcript.usage().map_or(0, |usage| usage.total());
        self.cost_usd.filter(|cost| *cost > 0.0).unwrap_or(tokens.max(1) as f64 / 1e6)
    }
}
