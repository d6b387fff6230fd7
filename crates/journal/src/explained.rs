//! The reasons for a request's route: the prompt's features, the rules that did not apply, and the choice among pools.

use std::fmt::Write as _;

use serde::{Serialize, Serializer, ser::SerializeMap};

use signalbox_schedule::tiers::Decision;
use signalbox_types::{Complexity, Name, Tokens};

/// The reasons for a request's route.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Explained {
    /// Prompt tokens: lower bound, estimate and upper bound.
    pub prompt_tokens: [u64; 3],
    /// The rules before the chosen one, each with the reason why it did not apply: `condition`, `endpoint` (none of its pools supports the
    /// endpoint), `context` (the prompt fits into none of its pools), `override`.
    #[serde(rename = "passed_over")]
    pub skipped_rules: Vec<SkippedRule>,
    /// Pools that were left out because the prompt does not fit into their context.
    pub too_small: Vec<Name>,
    /// Pools that were left out because the caller's budget does not suffice for their prices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub over_budget: Vec<Name>,
    /// The prompt's complexity, where the policy uses it.
    pub complexity: Option<ScoredComplexity>,
    /// The choice of a tier, where there was one.
    pub tier: Option<TierChosen>,
    /// The choice by length, where there was one.
    pub length: Option<LengthChosen>,
}

/// A rule that did not apply.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkippedRule {
    /// The route's name.
    pub route: Name,
    /// The reason.
    pub because: &'static str,
}

/// The complexity of a prompt, with the features that moved it most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoredComplexity {
    /// Share of prompts that gain less from a larger model.
    pub score: f64,
    /// Expected quality of the smallest model's answer.
    pub quality: f64,
    /// Expected gain in quality from a larger model.
    pub gap: f64,
    /// Confidence in the score, 0 to 1.
    pub confidence: f64,
    /// The features that moved the score most.
    #[serde(serialize_with = "contributions")]
    pub reasons: Vec<(&'static str, f64)>,
    /// Version of the weights.
    pub weights: Name,
}

/// The choice of a tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierChosen {
    /// The tier, counted from 0, the cheapest.
    pub tier: usize,
    /// The tier by the score alone.
    pub intended: usize,
    /// The bar of the next tier up: a score where the aim is shares, else a gap. `None` where no value would have been enough.
    pub bar: Option<f64>,
    /// The kind of the bar: `score` or `gap`.
    pub bar_of: &'static str,
    /// Recent share of the most capable tier.
    pub share: f64,
    /// The reason for this tier.
    pub reason: &'static str,
}

/// The choice by length.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct LengthChosen {
    /// The boundary, in tokens: longer prompts are long.
    pub boundary: f64,
    /// True if this prompt was long.
    pub long: bool,
}

impl Explained {
    /// Records the prompt's length.
    pub fn set_prompt_tokens(&mut self, tokens: Tokens) {
        self.prompt_tokens = [tokens.least, tokens.expected, tokens.most];
    }
}

impl ScoredComplexity {
    /// Describes `complexity`, which was computed with these weights.
    pub fn of(complexity: &Complexity, weights: Name) -> Self {
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

    /// Formats the header's value: the score, the version of the weights, and the features that moved it most.
    pub fn header(&self) -> String {
        let mut text = format!("{:.3}; weights={}", self.score, self.weights);
        for (feature, amount) in &self.reasons {
            let _ = write!(text, "; {}={amount:+.3}", feature.replace(' ', "_"));
        }
        text
    }
}

impl TierChosen {
    /// Describes a decision.
    pub fn of(decision: &Decision) -> Self {
        Self {
            tier: decision.tier,
            intended: decision.intended,
            bar: Some(decision.bar).filter(|bar| bar.is_finite()),
            bar_of: if decision.by_gap { "gap" } else { "score" },
            share: decision.share,
            reason: decision.reason.label(),
        }
    }

    /// Formats the header's value: the tier, the reason, the bar and the recent share of the most capable tier.
    pub fn header(&self) -> String {
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
