//! Lines of the journal, as far as the replay reads them.

use serde::Deserialize;

use crate::types::Usage;

/// Latest format version that is supported.
pub(super) const FORM: u32 = 2;

/// A line of the journal. Unknown fields are ignored, so that lines may grow.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub(super) form: u32,
    pub(super) time_ms: u64,
    pub(super) endpoint: String,
    pub(super) stream: bool,
    pub(super) background: Option<serde::de::IgnoredAny>,
    pub(super) key: Option<String>,
    pub(super) model: Option<String>,
    pub(super) prompt_bytes: u64,
    pub(super) estimated_prompt_tokens: u64,
    pub(super) explained: Option<Explained>,
    #[serde(rename = "particulars")]
    pub(super) routing_facts: Option<RoutingFacts>,
    pub(super) reused: Option<Reused>,
    pub(super) admission: Option<Admission>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) answered: Option<usize>,
    pub(super) status: u16,
    pub(super) outcome: String,
    pub(super) usage: Option<Usage>,
    pub(super) ttft_ms: Option<f64>,
    pub(super) tpot_ms: Option<f64>,
    pub(super) e2e_ms: f64,
    pub(super) cost_usd: Option<f64>,
}

/// Explanation of the routing decision.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Explained {
    pub(super) prompt_tokens: [u64; 3],
    pub(super) passed_over: Vec<PassedOver>,
}

/// A rule that did not match.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PassedOver {
    pub(super) because: String,
}

/// Facts that conditions and tiers use; see the type of this name in the gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct RoutingFacts {
    pub(super) class: String,
    pub(super) max_tokens: Option<u64>,
    pub(super) tools: u64,
    pub(super) images: u64,
    pub(super) schema: bool,
    pub(super) turns: u64,
    pub(super) tool_loop: bool,
    pub(super) session: Option<String>,
    pub(super) said: Option<String>,
    pub(super) said_before: Option<String>,
    pub(super) language: Option<String>,
    pub(super) complexity: Option<Ranked>,
    pub(super) blocks: Option<String>,
}

/// Complexity of the prompt.
#[derive(Copy, Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Ranked {
    pub(super) score: f64,
    pub(super) quality: f64,
    pub(super) gap: f64,
    pub(super) confidence: f64,
}

/// Result of the cache lookup.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reused {
    pub(super) result: String,
    pub(super) pool: Option<String>,
}

/// Result of admission.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Admission {
    pub(super) result: String,
    pub(super) waited_ms: f64,
}

/// An attempt at a backend.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attempt {
    pub(super) pool: String,
    pub(super) backend: String,
    pub(super) predicted: Predicted,
    pub(super) began_ms: Option<f64>,
    pub(super) ended_ms: Option<f64>,
    pub(super) ttft_ms: Option<f64>,
    pub(super) reported_cached_tokens: Option<u64>,
    pub(super) usage: Option<Usage>,
    pub(super) usage_estimated: bool,
    pub(super) outcome: Option<String>,
}

/// Prediction for the attempt.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Predicted {
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
}

/// Parses a hash as the journal writes it.
pub(super) fn hash(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Parses the hashes of a prompt's blocks: eight hex digits each.
pub(super) fn block_hashes(text: &str) -> Vec<u64> {
    let hashes = text.as_bytes().chunks_exact(8).map(|part| std::str::from_utf8(part).ok().and_then(hash));
    hashes.map_while(|hash| hash).collect()
}

impl Line {
    /// The attempt that answered.
    pub(super) fn answering(&self) -> Option<&Attempt> {
        self.answered.and_then(|at| self.attempts.get(at))
    }
}
