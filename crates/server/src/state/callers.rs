//! Times as callers saw them over the last hour, by route and source, and what the caches spare them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::pools::{Quantiles, quantiles};
use signalbox_measure::{Span, Window, merged};
use signalbox_telemetry::{CallerMetrics, CallerTimes, Metrics, Source};
use signalbox_types::{Moment, Name};

/// Times of a route's callers over the last hour, in seconds: what they waited, queue and caches included.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CallerState {
    pub route: Name,
    /// First tokens of streams.
    pub ttft: Option<Quantiles>,
    /// Complete answers, streamed or whole.
    pub e2e: Option<Quantiles>,
    /// Seconds by which kept and shared answers lower the 95th percentile of complete answers; `None` without any.
    pub spared_p95_s: Option<f64>,
    pub sources: Vec<SourceTimes>,
}

/// Times of the answers of one source: `engine`, `exact`, `semantic` or `coalesced`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceTimes {
    pub source: Cow<'static, str>,
    pub ttft: Option<Quantiles>,
    pub e2e: Option<Quantiles>,
}

/// Times of all routes that had an answer.
pub(super) fn callers(metrics: &Metrics, now: Moment) -> Vec<CallerState> {
    let all = metrics.callers();
    let routes = all.chunk_by(|(one, ..), (other, ..)| one == other);
    routes.map(|sources| route(sources, now)).filter(|it| it.e2e.is_some() || it.ttft.is_some()).collect()
}

fn route(all: &[CallerTimes], now: Moment) -> CallerState {
    let over = |sources: &[&CallerMetrics], window: fn(&CallerMetrics) -> &Window| {
        merged(sources.iter().map(|it| window(it)), Span::Hour, now).map(quantiles)
    };
    let both = |sources: &[&CallerMetrics]| (over(sources, |it| &it.ttft), over(sources, |it| &it.e2e));
    let source = |(_, source, times): &CallerTimes| {
        let (ttft, e2e) = both(&[times]);
        SourceTimes { source: source.label().into(), ttft, e2e }
    };
    let engines =
        all.iter().find(|(_, source, _)| *source == Source::Engine).and_then(|(.., it)| over(&[it], |it| &it.e2e));
    let (ttft, e2e) = both(&all.iter().map(|(.., it)| &**it).collect::<Vec<_>>());
    let spared = engines.zip(e2e.as_ref()).filter(|(engines, all)| engines.count < all.count);
    CallerState {
        route: all.first().map(|(route, ..)| route.clone()).unwrap_or_default(),
        spared_p95_s: spared.map(|(engines, all)| (engines.p95 - all.p95).max(0.0)),
        ttft,
        e2e,
        sources: all.iter().map(source).collect(),
    }
}
