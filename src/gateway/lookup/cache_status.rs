//! How an answer tells where it comes from: `Cache-Status` (RFC 9211), `Age`, and a header of our own.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};

use crate::cache::Bypass;

const CACHE_STATUS: &str = "cache-status";

/// How a kept answer was found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// By an equal request.
    Exact,
    /// By one that means the same.
    Semantic,
}

impl Tier {
    /// Its name in metrics, and in `Cache-Status`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Semantic => "semantic",
        }
    }

    /// What our own header says.
    pub(super) const fn hit(self) -> &'static str {
        match self {
            Self::Exact => "hit-exact",
            Self::Semantic => "hit-semantic",
        }
    }
}

/// Where an answer comes from.
#[derive(Copy, Clone, Debug)]
pub(super) enum CacheStatus {
    /// A kept answer, to an equal request or to one that means the same: its age, and how long it will still be kept.
    Hit { by: Tier, age: Duration, left: Duration },
    /// Another's request, that was under way.
    Coalesced,
    /// An engine, because no answer was kept that fits; the word says why.
    Miss(&'static str),
    /// An engine, because the request may not share.
    Bypass(Bypass),
}

impl CacheStatus {
    /// What the cache made of the request, and why, in words of low cardinality.
    pub(super) fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::Hit { .. } => ("hit", ""),
            Self::Coalesced => ("coalesced", ""),
            Self::Miss(reason) => ("miss", reason),
            Self::Bypass(reason) => ("bypass", reason.label()),
        }
    }

    /// Puts it on an answer. What caches on the way from the engine have said stays.
    pub(super) fn put(self, headers: &mut HeaderMap) {
        let (ours, status) = match self {
            Self::Hit { by, left, .. } => {
                (by.hit(), format!("signalbox; hit; detail={}; ttl={}", by.name(), left.as_secs()))
            }
            Self::Coalesced => ("coalesced", "signalbox; fwd=miss; collapsed".to_owned()),
            Self::Miss("no_cache") => ("miss", "signalbox; fwd=request".to_owned()),
            Self::Miss(reason) => ("miss", format!("signalbox; fwd=miss; detail={reason}")),
            Self::Bypass(reason) => ("bypass", format!("signalbox; fwd=bypass; detail={}", reason.label())),
        };
        headers.insert("x-signalbox-cache", HeaderValue::from_static(ours));
        if let Ok(status) = HeaderValue::from_str(&status) {
            headers.append(CACHE_STATUS, status);
        }
        if let Self::Hit { age, .. } = self {
            headers.insert(header::AGE, age.as_secs().into());
        }
    }
}
