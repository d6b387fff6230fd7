//! Response headers that report the source of an answer: `Cache-Status` (RFC 9211), `Age` and `x-signalbox-cache`.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};

use signalbox_cache::Bypass;

const CACHE_STATUS: &str = "cache-status";

/// The lookup that found a stored answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// Lookup by an equal request.
    Exact,
    /// Lookup by a request with the same meaning.
    Semantic,
}

impl Tier {
    /// Name in metrics and in `Cache-Status`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Semantic => "semantic",
        }
    }

    /// Value of `x-signalbox-cache`.
    pub(super) const fn hit(self) -> &'static str {
        match self {
            Self::Exact => "hit-exact",
            Self::Semantic => "hit-semantic",
        }
    }
}

/// Source of an answer.
#[derive(Copy, Clone, Debug)]
pub(super) enum CacheStatus {
    /// A stored answer, with its age and the time until it expires.
    Hit { by: Tier, age: Duration, left: Duration },
    /// An equal request in progress.
    Coalesced,
    /// An engine, because no stored answer fits; holds the reason, and the guard that rejects the nearest one.
    Miss(&'static str, Option<&'static str>),
    /// An engine, because the request may not share answers.
    Bypass(Bypass),
}

impl CacheStatus {
    /// Result and reason, as labels of low cardinality.
    pub(super) fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::Hit { .. } => ("hit", ""),
            Self::Coalesced => ("coalesced", ""),
            Self::Miss(reason, _) => ("miss", reason),
            Self::Bypass(reason) => ("bypass", reason.label()),
        }
    }

    /// Sets the headers. `Cache-Status` entries of upstream caches are kept.
    pub(super) fn put(self, headers: &mut HeaderMap) {
        let (ours, status) = match self {
            Self::Hit { by, left, .. } => {
                (by.hit(), format!("signalbox; hit; detail={}; ttl={}", by.name(), left.as_secs()))
            }
            Self::Coalesced => ("coalesced", "signalbox; fwd=miss; collapsed".to_owned()),
            Self::Miss("no_cache", _) => ("miss", "signalbox; fwd=request".to_owned()),
            Self::Miss(reason, None) => ("miss", format!("signalbox; fwd=miss; detail={reason}")),
            Self::Miss(reason, Some(guard)) => ("miss", format!("signalbox; fwd=miss; detail={reason}:{guard}")),
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
