//! Cache directives of a caller: from `Cache-Control` (RFC 9111, section 5.2.1), `x-signalbox-cache`, and the body
//! member `cache` in `LiteLLM`'s form (<https://docs.litellm.ai/docs/proxy/caching>). A directive can only reduce
//! sharing.

use std::time::Duration;

use http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::Value;

/// Signalbox's own header.
const OWN_HEADER: &str = "x-signalbox-cache";
/// Longest namespace, in bytes.
const LONGEST_NAMESPACE: usize = 256;

/// Cache directives of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Cached answers must not be returned.
    pub no_cache: bool,
    /// Neither the request nor its answer may be stored or shared.
    pub no_store: bool,
    /// No engine may be called.
    pub only_if_cached: bool,
    /// Greatest age of an acceptable answer.
    pub max_age: Option<Duration>,
    /// Longest time for which the answer may be stored.
    pub ttl: Option<Duration>,
    /// Separate part of the cache chosen by the caller.
    pub namespace: Option<String>,
    /// Broadest source of an acceptable answer.
    pub most: SharingLimit,
}

/// Broadest source of an acceptable answer.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SharingLimit {
    /// None: no cache is used.
    Off,
    /// Identical requests.
    Exact,
    /// Identical requests; semantic matches are evaluated but not returned.
    Shadow,
    /// Requests with the same meaning.
    #[default]
    Semantic,
}

/// An invalid directive. The text names the place and the valid form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct InvalidDirective {
    /// The header or the body member.
    pub field: &'static str,
    text: String,
}

/// The body member.
#[derive(Default, Deserialize)]
struct Member {
    #[serde(rename = "no-cache")]
    no_cache: Option<bool>,
    #[serde(rename = "no-store")]
    no_store: Option<bool>,
    ttl: Option<f64>,
    #[serde(rename = "s-maxage", alias = "s-max-age")]
    s_maxage: Option<f64>,
    namespace: Option<String>,
}

impl Directives {
    /// Reads the headers and the raw JSON of the body member `cache`. Ignores what standards leave open and unknown
    /// directives.
    ///
    /// # Errors
    ///
    /// [`InvalidDirective`] for an error in a directive addressed to Signalbox alone: a prohibition must not be misunderstood.
    pub fn read(headers: &HeaderMap, member: Option<&[u8]>) -> Result<Self, InvalidDirective> {
        let mut found = Self::default();
        for value in headers.get_all(header::CACHE_CONTROL) {
            found.cache_control(value.to_str().unwrap_or_default());
        }
        for value in headers.get_all(OWN_HEADER) {
            let most = match value.as_bytes() {
                b"off" => SharingLimit::Off,
                b"exact" => SharingLimit::Exact,
                b"shadow" => SharingLimit::Shadow,
                b"semantic" => SharingLimit::Semantic,
                _ => return Err(invalid(OWN_HEADER, "is one of off, exact, semantic and shadow")),
            };
            // Of repeated directives the strictest applies.
            found.most = found.most.min(most);
        }
        if let Some(raw) = member.filter(|raw| *raw != b"null") {
            found.member(raw)?;
        }
        Ok(found)
    }

    fn cache_control(&mut self, text: &str) {
        for directive in text.split(',') {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-cache" => self.no_cache = true,
                "no-store" => self.no_store = true,
                "only-if-cached" => self.only_if_cached = true,
                // An unreadable age counts as the strictest (RFC 9111, section 4.2.1).
                "max-age" => self.younger(value.trim().trim_matches('"').parse().unwrap_or(0)),
                _ => {}
            }
        }
    }

    fn member(&mut self, raw: &[u8]) -> Result<(), InvalidDirective> {
        let wrong = |_| {
            invalid(
                "cache",
                "is an object of no-cache and no-store (booleans), ttl and s-maxage (seconds) and namespace",
            )
        };
        // serde would accept a list with the members in order.
        let object = serde_json::from_slice::<serde_json::Map<String, Value>>(raw).map_err(wrong)?;
        let member: Member = serde_json::from_value(Value::Object(object)).map_err(wrong)?;
        self.no_cache |= member.no_cache.unwrap_or(false);
        self.no_store |= member.no_store.unwrap_or(false);
        if let Some(seconds) = member.s_maxage {
            self.younger(seconds.max(0.0) as u64);
        }
        self.ttl = member.ttl.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        self.namespace = member.namespace.filter(|namespace| !namespace.is_empty());
        if self.namespace.as_ref().is_some_and(|namespace| namespace.len() > LONGEST_NAMESPACE) {
            return Err(invalid("cache", "has a namespace of at most 256 bytes"));
        }
        Ok(())
    }

    fn younger(&mut self, seconds: u64) {
        let age = Duration::from_secs(seconds);
        self.max_age = Some(self.max_age.map_or(age, |before| before.min(age)));
    }

    /// True without any directive.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn invalid(field: &'static str, what: &str) -> InvalidDirective {
    InvalidDirective { field, text: format!("'{field}' {what}") }
}

/// Reads any bytes as directives: header lines (`Cache-Control`, or Signalbox's own after a `!`), and the body member
/// after an empty line. An entry point for fuzzers, which must never panic.
///
/// # Panics
///
/// If an additional prohibition is not applied.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_directives(bytes: &[u8]) {
    let end = memchr::memmem::find(bytes, b"\n\n");
    let (head, member) = end.map_or((bytes, None), |end| (&bytes[..end], Some(&bytes[end + 2..])));
    let mut headers = HeaderMap::new();
    for line in head.split(|byte| *byte == b'\n').take(64) {
        let (name, value) = line.strip_prefix(b"!").map_or(("cache-control", line), |value| (OWN_HEADER, value));
        if let Ok(value) = http::HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    let Ok(found) = Directives::read(&headers, member) else { return };
    assert!(found.namespace.as_ref().is_none_or(|name| (1..=LONGEST_NAMESPACE).contains(&name.len())));
    let forbids = |name: &'static str, value: &'static str| {
        let mut headers = headers.clone();
        headers.append(name, http::HeaderValue::from_static(value));
        Directives::read(&headers, member).unwrap_or_default()
    };
    assert!(forbids("cache-control", "no-store").no_store, "an answer is kept");
    assert!(forbids("cache-control", "private, No-Cache").no_cache, "a kept answer is given");
    assert!(forbids("cache-control", "only-if-cached").only_if_cached, "an engine is asked");
    assert!(forbids("cache-control", "max-age=0").max_age == Some(Duration::ZERO), "an old answer is given");
    assert!(forbids(OWN_HEADER, "off").most == SharingLimit::Off, "the cache is used");
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn read(headers: &[(&'static str, &'static str)], member: Option<&str>) -> Result<Directives, InvalidDirective> {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = headers.iter().map(pair).collect();
        Directives::read(&headers, member.map(str::as_bytes))
    }

    #[test]
    fn every_form_of_a_directive_is_read() {
        let none = Directives::default;
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert!(read(&[], None).unwrap().is_empty());
        assert!(read(&[("cache-control", "max-stale=5, private")], Some("null")).unwrap().is_empty());
        for (headers, member, want) in [
            (&[("cache-control", "No-Cache")][..], None, Directives { no_cache: true, ..none() }),
            (
                &[("cache-control", "no-store, max-age=30")],
                None,
                Directives { no_store: true, max_age: seconds(30), ..none() },
            ),
            (&[("cache-control", "only-if-cached")], None, Directives { only_if_cached: true, ..none() }),
            (&[("cache-control", "max-age=often")], None, Directives { max_age: seconds(0), ..none() }),
            (&[("x-signalbox-cache", "off")], None, Directives { most: SharingLimit::Off, ..none() }),
            (&[("x-signalbox-cache", "exact")], None, Directives { most: SharingLimit::Exact, ..none() }),
            (
                &[],
                Some(r#"{"no-cache":true,"ttl":1.5}"#),
                Directives { no_cache: true, ttl: Some(Duration::from_millis(1500)), ..none() },
            ),
            (
                &[("cache-control", "max-age=60")],
                Some(r#"{"s-maxage":30,"namespace":"n","other":1}"#),
                Directives { max_age: seconds(30), namespace: Some("n".to_owned()), ..none() },
            ),
            (&[], Some(r#"{"no-store":true,"no-cache":null,"namespace":""}"#), Directives { no_store: true, ..none() }),
        ] {
            assert_eq!(read(headers, member), Ok(want), "{headers:?} {member:?}");
        }
    }

    #[test]
    fn invalid_directives_of_our_own_are_rejected() {
        let message = |headers: &[(&'static str, &'static str)], member| read(headers, member).unwrap_err().to_string();
        assert_eq!(
            message(&[("x-signalbox-cache", "none")], None),
            "'x-signalbox-cache' is one of off, exact, semantic and shadow"
        );
        for member in [r#"{"ttl":"long"}"#, "true", "[true]", r#"{"no-store":"yes"}"#] {
            assert!(message(&[], Some(member)).starts_with("'cache' is an object of "), "{member}");
        }
        let long = format!(r#"{{"namespace":"{}"}}"#, "n".repeat(300));
        assert!(Directives::read(&HeaderMap::new(), Some(long.as_bytes())).is_err());
    }
}
