//! Why a request went the way it did: what was known of its prompt, which rules were passed over, and what decided among pools.

use std::fmt::Write as _;

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    schedule::tiers::Decision,
    types::{Complexity, Name, Tokens},
};

/// Why a request went the way it did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Explained {
    /// Tokens of its prompt, as far as they were known: hardly fewer, the best guess, hardly more.
    pub prompt_tokens: [u64; 3],
    /// The rules before the one it took, and why each did not apply: `condition`, `endpoint` (none of its pools speaks what was asked
    /// for), `context` (the prompt fits into none of them).
    pub passed_over: Vec<PassedOver>,
    /// Pools that were left out, because the prompt does not fit into them.
    pub too_small: Vec<Name>,
    /// How hard the prompt seemed, where that was asked.
    pub complexity: Option<Scored>,
    /// The choice between tiers, where there was one.
    pub tier: Option<TierChosen>,
    /// The choice by length, where there was one.
    pub length: Option<LengthChosen>,
}

/// A rule that did not apply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PassedOver {
    /// Its name.
    pub route: Name,
    /// Why.
    pub because: &'static str,
}

/// How hard a prompt seemed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scored {
    /// The share of prompts that gain less from a larger model.
    pub score: f64,
    /// The quality to expect of the smallest model's answer.
    pub quality: f64,
    /// What a larger one is expected to add.
    pub gap: f64,
    /// How far that can be relied on.
    pub confidence: f64,
    /// What moved the score most.
    #[serde(serialize_with = "contributions")]
    pub reasons: Vec<(&'static str, f64)>,
    /// The weights that were used.
    pub weights: Name,
}

/// The choice between tiers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierChosen {
    /// The tier, counted from 0, the cheapest.
    pub tier: usize,
    /// The one that the score alone would have given.
    pub intended: usize,
    /// With shares the score, else the gap, from which on the next tier up would have served; `None` where none would have been enough.
    pub bar: Option<f64>,
    /// What the bar is: a `score`, or a `gap`.
    pub bar_of: &'static str,
    /// The share of the most capable tier lately.
    pub share: f64,
    /// Why this one.
    pub reason: &'static str,
}

/// The choice by length.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct LengthChosen {
    /// The tokens from which on a prompt was long.
    pub boundary: f64,
    /// Whether this one was.
    pub long: bool,
}

impl Explained {
    /// So much came to be known of the prompt's length.
    pub(crate) fn counted(&mut self, tokens: Tokens) {
        self.prompt_tokens = [tokens.least, tokens.expected, tokens.most];
    }
}

impl Scored {
    /// What `complexity` says, by these weights.
    pub(crate) fn of(complexity: &Complexity, weights: Name) -> Self {
        let reasons = complexity.reasons.iter().filter(|reason| !reason.feature.is_empty());
        Self {
            score: complexity.score,
            quality: complexity.quality,
            gap: complexity.gap,
            confidence: complexity.confidence,
            reasons: reasons.map(|reason| (reason.feature, reason.amount)).collect(),
            weights,
        }
    }

    /// On one line: the score, the version of the weights, and what moved it most.
    pub(crate) fn header(&self) -> String {
        let mut text = format!("{:.3}; weights={}", self.score, self.weights);
        for (feature, amount) in &self.reasons {
            let _ = write!(text, "; {}={amount:+.3}", feature.replace(' ', "_"));
        }
        text
    }
}

impl TierChosen {
    /// What was decided.
    pub(crate) fn of(decision: &Decision) -> Self {
        Self {
            tier: decision.tier,
            intended: decision.intended,
            bar: Some(decision.bar).filter(|bar| bar.is_finite()),
            bar_of: if decision.by_gap { "gap" } else { "score" },
            share: decision.share,
            reason: decision.reason.label(),
        }
    }

    /// On one line: the tier, why, the bar and the share of the most capable tier lately.
    pub(crate) fn header(&self) -> String {
        let bar = self.bar.map_or_else(|| "none".to_owned(), |bar| format!("{bar:.3}"));
        let of = if self.bar_of == "gap" { "; bar-of=gap" } else { "" };
        format!("{}; by={}; bar={bar}{of}; share={:.3}", self.tier, self.reason, self.share)
    }
}

fn contributions<S: Serializer>(reasons: &[(&'static str, f64)], to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(reasons.len()))?;
    for (feature, amount) in reasons {
        map.serialize_entry(feature, amount)?;
    }
    map.end()
}
