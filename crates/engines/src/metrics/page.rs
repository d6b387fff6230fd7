//! Form of a metrics page in a profile: where it is, and which metric carries which signal.
//!
//! Names are written without the engine's prefix and without a counter's `_total`, because versions and exporters
//! differ in both (`vllm:` and `vllm_`; client libraries add `_total`, older engines did not).

use signalbox_types::EngineKind;

/// An engine's metrics page.
#[derive(Copy, Clone, Debug)]
pub struct MetricsPage {
    /// The kind of engine that the page shows.
    pub kind: EngineKind,
    /// Its path on the engine's server.
    pub path: &'static str,
    /// The port that it usually has, if it is not the one of the API.
    pub port: Option<u16>,
    /// The option that the engine must be started with to have it, if it has none without.
    pub flag: Option<&'static str>,
    /// Prefixes of the metrics' names, before a `:` or `_`.
    pub prefixes: &'static [&'static str],
    /// The label that tells the data-parallel ranks of one server apart, if it has any.
    pub rank: Option<&'static str>,
    /// For each signal the possible derivations, best first.
    pub signals: &'static [(Signal, &'static [Take])],
}

impl MetricsPage {
    /// The rest of `name` if it is a metric of this page.
    pub(crate) fn own_metric<'a>(&self, name: &'a str) -> Option<&'a str> {
        let rest = |prefix: &&str| name.strip_prefix(*prefix)?.strip_prefix([':', '_']);
        let rest = self.prefixes.iter().find_map(rest)?;
        Some(rest.strip_suffix("_total").unwrap_or(rest))
    }
}

/// A quantity of an engine.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Requests being computed.
    Running,
    /// Requests in the engine's queue.
    Waiting,
    /// Share of the KV cache in use.
    KvUsage,
    /// Size of the KV cache in tokens.
    KvCapacity,
    /// Prompt tokens looked up in the prefix cache.
    PrefixQueries,
    /// Prompt tokens found there, or in a store of KV beside it.
    PrefixHits,
    /// Share found, averaged by the engine.
    PrefixHitRatio,
    /// Requests interrupted for lack of KV cache.
    Preemptions,
    /// Prompt tokens processed.
    PromptTokens,
    /// Tokens generated.
    GeneratedTokens,
    /// Seconds to first token, summed over requests.
    TtftSum,
    /// Requests that got a first token.
    TtftCount,
    /// Prompt tokens in the engine's queue.
    QueuedTokens,
    /// Drafts (speculative decoding).
    Drafts,
    /// Tokens drafted.
    DraftedTokens,
    /// Drafted tokens that were accepted.
    AcceptedTokens,
    /// Share accepted, averaged by the engine.
    AcceptRatio,
    /// Tokens per step, including the one that every step yields, averaged by the engine.
    AcceptLength,
    /// Share of the data-parallel ranks that are awake; 0 while the engine has put its weights away.
    Awake,
}

impl Signal {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::KvUsage => "KV usage",
            Self::KvCapacity => "KV size",
            Self::PrefixQueries => "prefix queries",
            Self::PrefixHits => "prefix hits",
            Self::PrefixHitRatio => "hit ratio",
            Self::Preemptions => "preemptions",
            Self::PromptTokens => "prompt tokens",
            Self::GeneratedTokens => "generated tokens",
            Self::TtftSum => "TTFT sum",
            Self::TtftCount => "TTFT count",
            Self::QueuedTokens => "queued tokens",
            Self::Drafts => "drafts",
            Self::DraftedTokens => "drafted tokens",
            Self::AcceptedTokens => "accepted tokens",
            Self::AcceptRatio => "accepted share",
            Self::AcceptLength => "accepted length",
            Self::Awake => "awake",
        }
    }
}

/// A metric, or the label of a metric whose own value means nothing.
#[derive(Copy, Clone, Debug)]
pub struct Pick {
    /// Name of the metric, without prefix and `_total`.
    pub name: &'static str,
    /// Only series with this label and value; a missing label counts as empty.
    pub only: Option<(&'static str, &'static str)>,
    /// Read this label instead of the value.
    pub label: Option<&'static str>,
    /// Aggregation over the series.
    pub fold: Fold,
}

/// Aggregation over the series of a metric.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fold {
    /// For counts: over data-parallel engines, reasons, sources.
    Sum,
    /// For shares.
    Mean,
}

/// Derivation of a signal from metrics.
#[derive(Copy, Clone, Debug)]
pub enum Take {
    /// The value itself.
    Value(Pick),
    /// Sum of the first and all others that are present.
    Sum(&'static [Pick]),
    /// The first without the second, which is a part of it.
    Without(Pick, Pick),
    /// The first divided by the second.
    Ratio(Pick, Pick),
    /// Product, within each series where both are labels of one metric.
    Product(Pick, Pick),
}

impl Take {
    /// The metrics that it reads.
    pub fn picks(&self) -> Vec<&Pick> {
        match self {
            Self::Value(pick) => vec![pick],
            Self::Sum(picks) => picks.iter().collect(),
            Self::Without(a, b) | Self::Ratio(a, b) | Self::Product(a, b) => vec![a, b],
        }
    }
}

/// The sum over all series.
pub(crate) const fn sum(name: &'static str) -> Pick {
    Pick { name, only: None, label: None, fold: Fold::Sum }
}

/// The mean of all series.
pub(crate) const fn mean(name: &'static str) -> Pick {
    Pick { fold: Fold::Mean, ..sum(name) }
}

/// The sum over the series with this label and value.
pub(crate) const fn only(name: &'static str, label: &'static str, value: &'static str) -> Pick {
    Pick { only: Some((label, value)), ..sum(name) }
}

/// The mean of the series with this label and value.
pub(crate) const fn mean_of(name: &'static str, label: &'static str, value: &'static str) -> Pick {
    Pick { fold: Fold::Mean, ..only(name, label, value) }
}

/// The label, in place of the value.
pub(crate) const fn label(name: &'static str, label: &'static str) -> Pick {
    Pick { label: Some(label), ..sum(name) }
}

/// Labels of processes that work on the same requests: all report the same numbers, so only one counts.
pub(crate) const REPLICAS: [&str; 3] = ["tp_rank", "pp_rank", "moe_ep_rank"];
