//! A cached answer with its origin, its scope, its age, and the cost of generating it again.

use std::time::Duration;

use crate::key::ScopeId;
use signalbox_protocol::Transcript;
use signalbox_types::{Moment, Name, Usage};

/// A cached answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its content.
    pub transcript: Transcript,
    /// Scope that may share it.
    pub scope: ScopeId,
    /// Name of the caller's key, where keys are required.
    pub caller: Option<Name>,
    /// Route of its request.
    pub route: Name,
    /// Pool that answered.
    pub pool: Name,
    /// Backend of that pool, as the policy described it then: see [`Record::may_serve`].
    pub origin: Origin,
    /// Cost in US dollars, where prices are known.
    pub cost_usd: Option<f64>,
    /// Seconds from the request's arrival to the end of the answer.
    pub seconds: f64,
}

/// A backend as a policy describes it: a hash over everything that may change its answers. A changed description makes
/// another origin.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin(pub u64);

impl Record {
    /// True if it may answer a request that one of the `acceptable` backends, or a lower one, would otherwise answer.
    pub fn may_serve(&self, acceptable: &[Origin]) -> bool {
        acceptable.contains(&self.origin)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.transcript.bytes() + size_of::<Self>() - size_of::<Transcript>()
    }

    /// Token counts of the answer when it is returned again: its whole prompt counts as cached.
    pub fn usage(&self) -> Option<Usage> {
        self.transcript.usage().map(|usage| Usage { cached_tokens: Some(usage.prompt_tokens), ..usage })
    }

    /// Savings of returning it, in US dollars. Without a known price, a dollar per million tokens.
    pub fn worth(&self) -> f64 {
        let tokens = self.transcript.usage().map_or(0, |usage| usage.total());
        self.cost_usd.filter(|cost| *cost > 0.0).unwrap_or(tokens.max(1) as f64 / 1e6)
    }
}

/// Start of an answer's life: a moment, and the age at that moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    at: Moment,
    age: Duration,
}

impl Kept {
    /// An answer that was new at `at`.
    pub const fn since(at: Moment) -> Self {
        Self::aged(at, Duration::ZERO)
    }

    /// An answer of this age at `at`, for example stored by an earlier process.
    pub const fn aged(at: Moment, age: Duration) -> Self {
        Self { at, age }
    }

    /// Its age at `now`.
    pub fn age(self, now: Moment) -> Duration {
        self.age.saturating_add(now.since(self.at))
    }
}
