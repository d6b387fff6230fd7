//! Formats in which a trace passes from one process to the next: W3C Trace Context, and B3 in one header or in several.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::TraceContext;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const B3: HeaderName = HeaderName::from_static("b3");
const B3_TRACE: HeaderName = HeaderName::from_static("x-b3-traceid");
const B3_SPAN: HeaderName = HeaderName::from_static("x-b3-spanid");
const B3_PARENT: HeaderName = HeaderName::from_static("x-b3-parentspanid");
const B3_SAMPLED: HeaderName = HeaderName::from_static("x-b3-sampled");
const B3_FLAGS: HeaderName = HeaderName::from_static("x-b3-flags");

/// A format.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Propagator {
    /// `traceparent`, with `tracestate`.
    TraceContext,
    /// `b3`.
    B3,
    /// `x-b3-traceid` and others.
    B3Multi,
}

/// A caller's place in its trace.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerTrace {
    /// Its trace and its span, which are not 0; `None` where it only decides if the trace is recorded.
    pub ids: Option<(u128, u64)>,
    /// True if it records the trace, false if it does not; `None` where it leaves that open.
    pub sampled: Option<bool>,
}

impl Propagator {
    /// Reads the headers of a request; `None` where they are missing or invalid.
    pub fn extract(self, headers: &HeaderMap) -> Option<CallerTrace> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        match self {
            Self::TraceContext => {
                let TraceContext { trace, span, sampled } = TraceContext::parse(text(TRACEPARENT)?)?;
                Some(CallerTrace { ids: Some((trace, span)), sampled: Some(sampled) })
            }
            Self::B3 => single(text(B3)?),
            Self::B3Multi => {
                let debug = (text(B3_FLAGS) == Some("1")).then_some(true);
                let sampled = debug.or_else(|| text(B3_SAMPLED).and_then(is_sampled));
                let ids = text(B3_TRACE).zip(text(B3_SPAN)).and_then(|(trace, span)| ids(trace, span));
                (ids.is_some() || sampled.is_some()).then_some(CallerTrace { ids, sampled })
            }
        }
    }

    /// Replaces the trace in the headers of a request.
    pub fn inject(self, context: TraceContext, headers: &mut HeaderMap) {
        let mut put = |name, value: String| {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        };
        let TraceContext { trace, span, sampled } = context;
        match self {
            Self::TraceContext => put(TRACEPARENT, context.to_string()),
            Self::B3 => put(B3, format!("{trace:032x}-{span:016x}-{}", u8::from(sampled))),
            Self::B3Multi => {
                put(B3_TRACE, format!("{trace:032x}"));
                put(B3_SPAN, format!("{span:016x}"));
                put(B3_SAMPLED, u8::from(sampled).to_string());
            }
        }
    }

    /// Removes what the headers say in this format beyond what [`inject`](Self::inject) replaces; `continues` is true if the
    /// request continues the trace that they name.
    pub fn clear(self, headers: &mut HeaderMap, continues: bool) {
        match self {
            Self::TraceContext if continues => {}
            Self::TraceContext => drop(headers.remove(TRACESTATE)),
            Self::B3 | Self::B3Multi => {
                for name in [B3, B3_TRACE, B3_SPAN, B3_PARENT, B3_SAMPLED, B3_FLAGS] {
                    headers.remove(name);
                }
            }
        }
    }
}

/// Parses `{trace}-{span}-{sampled}-{parent}`, of which the last two may be missing, or the decision alone.
fn single(text: &str) -> Option<CallerTrace> {
    let mut parts = text.split('-');
    let (first, span) = (parts.next()?, parts.next());
    let Some(span) = span else { return Some(CallerTrace { ids: None, sampled: Some(is_sampled(first)?) }) };
    let ids = ids(first, span)?;
    let sampled = match parts.next() {
        Some(sampled) => Some(is_sampled(sampled)?),
        None => None,
    };
    Some(CallerTrace { ids: Some(ids), sampled })
}

fn is_sampled(text: &str) -> Option<bool> {
    match text {
        "1" | "d" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// Ids in hexadecimal: a trace of 64 or 128 bits, a span of 64.
fn ids(trace: &str, span: &str) -> Option<(u128, u64)> {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !matches!(trace.len(), 16 | 32) || span.len() != 16 || !is_hex(trace) || !is_hex(span) {
        return None;
    }
    let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
    (trace != 0 && span != 0).then_some((trace, span))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Propagator; 3] = [Propagator::TraceContext, Propagator::B3, Propagator::B3Multi];
    const TRACE: u128 = 0x80f1_98ee_5634_3ba8_64fe_8b2a_57d3_eff7;
    const SPAN: u64 = 0xe457_b5a2_e4d8_6bd1;

    fn read(of: Propagator, pairs: &[(&'static str, &str)]) -> Option<CallerTrace> {
        let headers =
            pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
        of.extract(&headers.collect())
    }

    #[test]
    fn b3_is_read_in_all_its_forms() {
        let caller = |trace, sampled| Some(CallerTrace { ids: Some((trace, SPAN)), sampled });
        let short = TRACE & u128::from(u64::MAX);
        for (text, want) in [
            ("80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90", caller(TRACE, Some(true))),
            ("80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-0", caller(TRACE, Some(false))),
            ("80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-d", caller(TRACE, Some(true))),
            ("64fe8b2a57d3eff7-e457b5a2e4d86bd1", caller(short, None)),
            ("0", Some(CallerTrace { ids: None, sampled: Some(false) })),
            ("80f198ee56343ba864fe8b2a57d3eff7", None),
            ("00000000000000000000000000000000-e457b5a2e4d86bd1-1", None),
            ("+0f198ee56343ba8-e457b5a2e4d86bd1-1", None),
            ("", None),
        ] {
            assert_eq!(read(Propagator::B3, &[("b3", text)]), want, "{text}");
        }
        let both = [("x-b3-traceid", "80f198ee56343ba864fe8b2a57d3eff7"), ("x-b3-spanid", "e457b5a2e4d86bd1")];
        let multi = |more: &[(&'static str, &str)]| read(Propagator::B3Multi, &[&both[..], more].concat());
        assert_eq!(multi(&[]), caller(TRACE, None));
        assert_eq!(multi(&[("x-b3-sampled", "1")]), caller(TRACE, Some(true)));
        assert_eq!(multi(&[("x-b3-sampled", "0"), ("x-b3-flags", "1")]), caller(TRACE, Some(true)));
        assert_eq!(read(Propagator::B3Multi, &[]), None);
        let denied = Some(CallerTrace { ids: None, sampled: Some(false) });
        assert_eq!(read(Propagator::B3Multi, &[("x-b3-sampled", "0")]), denied);
    }

    proptest! {
        #[test]
        fn an_injected_trace_is_extracted(trace in 1u128.., span in 1u64.., sampled: bool) {
            for propagator in ALL {
                let mut headers = HeaderMap::new();
                propagator.inject(TraceContext { trace, span, sampled }, &mut headers);
                let want = CallerTrace { ids: Some((trace, span)), sampled: Some(sampled) };
                prop_assert_eq!(propagator.extract(&headers), Some(want));
            }
        }

        #[test]
        fn arbitrary_headers_do_not_panic(text in "[0-9a-f-]{0,80}|[ -~]{0,40}") {
            for name in ["b3", "traceparent", "x-b3-traceid", "x-b3-spanid"] {
                for propagator in ALL {
                    let _ = read(propagator, &[(name, &text)]);
                }
            }
        }
    }
}
