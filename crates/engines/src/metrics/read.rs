//! Signals of an engine, read from its metrics by the names in its profile.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    page::{Fold, MetricsPage, Pick, REPLICAS, Signal, Take},
    parse::{Labels, Sample, samples},
};
use signalbox_types::{Drafting, EngineSignals};

/// Reads the text of a metrics page by the first of `pages` that has a metric on it. `None` if none has.
pub(crate) fn read_signals(pages: &[&MetricsPage], text: &str) -> Option<EngineSignals> {
    let place = |name: &str| pages.iter().position(|page| page.own_metric(name).is_some());
    // A worker behind a frontend has metrics of both, and those of the engine itself say more.
    let page = pages[samples(text).filter_map(|sample| place(sample.name)).min()?];
    let (kind, scrape) = (page.kind, Scrape::new(page, text));
    let share = |signal| scrape.signal(signal).map(|share| share.min(1.0));
    Some(EngineSignals {
        kind,
        running: scrape.signal(Signal::Running),
        waiting: scrape.signal(Signal::Waiting),
        kv_usage: share(Signal::KvUsage),
        kv_capacity_tokens: scrape
            .signal(Signal::KvCapacity)
            .filter(|tokens| *tokens >= 1.0)
            .map(|tokens| tokens as u64),
        prefix_queries: scrape.signal(Signal::PrefixQueries),
        prefix_hits: scrape.signal(Signal::PrefixHits),
        reported_hit_ratio: share(Signal::PrefixHitRatio),
        preemptions: scrape.signal(Signal::Preemptions),
        prompt_tokens: scrape.signal(Signal::PromptTokens),
        generated_tokens: scrape.signal(Signal::GeneratedTokens),
        ttft_sum: scrape.signal(Signal::TtftSum),
        ttft_count: scrape.signal(Signal::TtftCount),
        queued_tokens: scrape.signal(Signal::QueuedTokens),
        drafts: scrape.signal(Signal::Drafts),
        drafted_tokens: scrape.signal(Signal::DraftedTokens),
        accepted_tokens: scrape.signal(Signal::AcceptedTokens),
        reported_drafting: scrape.drafting(),
        asleep: scrape.signal(Signal::Awake).map(|awake| awake == 0.0),
    })
}

/// Relevant samples of one text.
struct Scrape<'a> {
    page: &'a MetricsPage,
    samples: Vec<Sample<'a>>,
}

impl<'a> Scrape<'a> {
    fn new(page: &'a MetricsPage, text: &'a str) -> Self {
        let own = |sample: Sample<'a>| {
            let name = page.own_metric(sample.name)?;
            // NaN and negative values are unknown.
            let known = sample.value.is_finite() && sample.value >= 0.0;
            (known && !name.ends_with("_bucket")).then_some(Sample { name, ..sample })
        };
        Self { page, samples: samples(text).filter_map(own).collect() }
    }

    /// Acceptance of drafts, by gauges. Those of an engine without drafts are 0, while any step that yields a token has
    /// a length of at least 1.
    fn drafting(&self) -> Option<Drafting> {
        let length = self.signal(Signal::AcceptLength).filter(|length| *length >= 1.0)? - 1.0;
        Some(Drafting { ratio: self.signal(Signal::AcceptRatio)?.min(1.0), length: Some(length) })
    }

    /// The signal, by the first derivation that the engine supports.
    fn signal(&self, signal: Signal) -> Option<f64> {
        let ways = self.page.signals.iter().find(|(of, _)| *of == signal)?.1;
        ways.iter().find_map(|way| match way {
            Take::Value(pick) => self.folded(pick),
            Take::Sum(picks) => {
                let (first, others) = picks.split_first()?;
                Some(self.folded(first)? + others.iter().filter_map(|pick| self.folded(pick)).sum::<f64>())
            }
            Take::Without(whole, part) => Some((self.folded(whole)? - self.folded(part)?).max(0.0)),
            Take::Ratio(part, whole) => {
                let (part, whole) = (self.folded(part)?, self.folded(whole)?);
                (whole > 0.0).then(|| part / whole)
            }
            Take::Product(a, b) if a.label.is_some() && a.name == b.name => {
                let product = |sample: &Sample<'_>| Some(value(a, sample)? * value(b, sample)?);
                self.fold(a, product)
            }
            Take::Product(a, b) => Some(self.folded(a)? * self.folded(b)?),
        })
    }

    fn folded(&self, pick: &Pick) -> Option<f64> {
        self.fold(pick, |sample| value(pick, sample))
    }

    /// All series of a metric as one number; `None` without any.
    fn fold(&self, pick: &Pick, value: impl Fn(&Sample<'_>) -> Option<f64>) -> Option<f64> {
        let mut groups = BTreeMap::new();
        for sample in self.samples.iter().filter(|sample| sample.name == pick.name) {
            let Some(value) = value(sample) else { continue };
            let seen = groups.entry(group_of(sample.labels)).or_insert(value);
            *seen = value.max(*seen);
        }
        if groups.is_empty() {
            return None;
        }
        let sum: f64 = groups.values().sum();
        Some(match pick.fold {
            Fold::Sum => sum,
            Fold::Mean => sum / groups.len() as f64,
        })
    }
}

/// Value that `pick` reads from a sample of its metric.
fn value(pick: &Pick, sample: &Sample<'_>) -> Option<f64> {
    if let Some((label, wanted)) = pick.only {
        sample.labels.get(label).unwrap_or_default().eq(wanted).then_some(())?;
    }
    match pick.label {
        Some(label) => sample.labels.get(label)?.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0),
        None => Some(sample.value),
    }
}

/// Group of a series: equal for series that differ only in which of several processes on the same work reports them.
fn group_of(labels: Labels<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for label in labels.iter().filter(|(name, _)| !REPLICAS.contains(name)) {
        label.hash(&mut hasher);
    }
    hasher.finish()
}
