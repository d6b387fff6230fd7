//! Lines of the journal as `signalbox replay` and `signalbox top` read them: from files of any version, or from a gateway of another release.
//! Their writer is [`super::JournalEntry`].
#![expect(missing_docs, reason = "fields without a comment are named as what they hold")]

use serde::Deserialize;

use signalbox_types::Usage;

/// A line of the journal. Unknown fields are ignored and missing ones have their default, so that lines may grow.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct Line {
    pub form: u32,
    pub id: String,
    pub time_ms: u64,
    pub endpoint: String,
    pub stream: bool,
    #[cfg_attr(test, serde(skip_serializing))]
    pub background: Option<serde::de::IgnoredAny>,
    pub key: Option<String>,
    pub model: Option<String>,
    pub route: Option<String>,
    pub prompt_bytes: u64,
    pub estimated_prompt_tokens: u64,
    pub explained: Option<Explained>,
    #[serde(rename = "particulars")]
    pub routing_facts: Option<RoutingFacts>,
    pub reused: Option<Reused>,
    pub admission: Option<Admission>,
    pub attempts: Vec<Attempt>,
    pub answered: Option<usize>,
    pub status: u16,
    pub outcome: String,
    pub usage: Option<Usage>,
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2e_ms: f64,
    pub cost_usd: Option<f64>,
}

/// Explanation of the routing decision.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct Explained {
    pub prompt_tokens: [u64; 3],
    pub passed_over: Vec<PassedOver>,
}

/// A rule that did not match.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct PassedOver {
    pub because: String,
}

/// Facts that conditions and tiers use; see the type of this name in the gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct RoutingFacts {
    pub class: String,
    pub max_tokens: Option<u64>,
    pub tools: u64,
    pub images: u64,
    pub audio: Option<u64>,
    pub video: Option<u64>,
    pub files: Option<u64>,
    pub schema: bool,
    pub turns: u64,
    pub tool_loop: bool,
    pub session: Option<String>,
    pub said: Option<String>,
    pub said_before: Option<String>,
    pub language: Option<String>,
    pub complexity: Option<Ranked>,
    pub blocks: Option<String>,
}

/// Complexity of the prompt.
#[derive(Copy, Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct Ranked {
    pub score: f64,
    pub quality: f64,
    pub gap: f64,
    pub confidence: f64,
}

/// Result of the cache lookup.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct Reused {
    pub result: String,
    pub reason: String,
    pub pool: Option<String>,
}

/// Result of admission.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct Admission {
    pub pool: String,
    pub result: String,
    pub waited_ms: f64,
}

/// An attempt at a backend.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct Attempt {
    pub pool: String,
    pub backend: String,
    pub reason: String,
    pub candidates: Vec<Candidate>,
    pub full: Vec<String>,
    pub predicted: Predicted,
    pub began_ms: Option<f64>,
    pub ended_ms: Option<f64>,
    pub ttft_ms: Option<f64>,
    pub reported_cached_tokens: Option<u64>,
    pub usage: Option<Usage>,
    pub usage_estimated: bool,
    pub outcome: Option<String>,
}

/// Prediction for the attempt.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct Predicted {
    pub ttft_ms: f64,
    pub ttft_p90_ms: f64,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
}

/// Backend that was weighed for an attempt.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
pub struct Candidate {
    pub backend: String,
    pub cost: Option<f64>,
    pub in_flight: u64,
    pub queued_tokens: u64,
    pub uncached_tokens: u64,
    pub cached_tokens: u64,
    pub decoding: u64,
    pub utilisation: f64,
    pub ttft_ms: f64,
    pub ttft_p90_ms: f64,
    pub attainment: f64,
    pub avoided: bool,
}

/// Parses a hash as the journal writes it.
pub fn hash(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Parses the hashes of a prompt's blocks: eight hex digits each.
pub fn block_hashes(text: &str) -> Vec<u64> {
    let hashes = text.as_bytes().chunks_exact(8).map(|part| std::str::from_utf8(part).ok().and_then(hash));
    hashes.map_while(|hash| hash).collect()
}

impl Line {
    /// The attempt that answered.
    pub fn answering(&self) -> Option<&Attempt> {
        self.answered.and_then(|at| self.attempts.get(at))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        self as journal, AttemptEntry, BlockHashes, CacheResult, ComplexityScore, FORMAT, Hash, JournalEntry,
        SkippedRule, WeighedCandidate,
    };
    use signalbox_quota::Spent;
    use signalbox_telemetry::{Purpose, Stage};
    use signalbox_types as types;

    fn written() -> JournalEntry {
        let usage = Usage {
            prompt_tokens: 9,
            cached_tokens: Some(4),
            completion_tokens: 3,
            reasoning_tokens: Some(1),
            ..Usage::default()
        };
        let attempt = AttemptEntry {
            pool: "p".into(),
            backend: "b".into(),
            upstream_model: None,
            reason: "least_cost",
            candidates: vec![WeighedCandidate::of("b".into(), 9, &types::Candidate::default(), Some(1.5))],
            full: vec!["c".into()],
            predicted: journal::Predicted {
                ttft_ms: 1.5,
                ttft_p90_ms: 2.5,
                tpot_ms: 3.5,
                prompt_tokens: 4,
                cached_tokens: 5,
                output_tokens: 6,
                output_tokens_p90: 7,
            },
            address: None,
            provider: "unknown",
            began_ms: 1.5,
            ended_ms: Some(2.5),
            ttft_ms: Some(3.5),
            reported_cached_tokens: Some(4),
            usage: Some(usage),
            usage_estimated: true,
            cost_usd: Some(0.5),
            outcome: Some("complete"),
            uncounted: None,
            failed: false,
        };
        let complexity = ComplexityScore { score: 0.1, quality: 0.2, gap: 0.3, confidence: 0.4, weights: "w".into() };
        JournalEntry {
            format: FORMAT,
            id: "i".into(),
            time_ms: 1,
            request_line: None,
            endpoint: "chat",
            stream: true,
            background: Some(Purpose::Pair),
            key: Some("k".into()),
            model: Some("m".into()),
            route: Some("r".into()),
            prompt_bytes: 2,
            estimated_prompt_tokens: 3,
            explained: Some(
                journal::Explained {
                    prompt_tokens: [1, 2, 3],
                    skipped_rules: vec![SkippedRule { route: "s".into(), because: "override" }],
                    ..journal::Explained::default()
                }
                .into(),
            ),
            routing_facts: Some(journal::RoutingFacts {
                class: "batch",
                max_tokens: Some(1),
                tools: 2,
                images: 3,
                audio: 1,
                video: 2,
                files: 4,
                schema: true,
                turns: 4,
                tool_loop: true,
                session: Some(Hash::keyed(1)),
                said: Some(Hash::keyed(2)),
                said_before: Some(Hash::keyed(3)),
                language: Some("en"),
                complexity: Some(complexity),
                blocks: Some(BlockHashes::of(&[1, 2])),
            }),
            cache: Some(CacheResult::hit("hit-exact", "p".into(), std::time::Duration::from_secs(1), "e".to_owned())),
            admission: Some(journal::Admission { pool: "p".into(), result: "waiting", queued: true, waited_ms: 1.5 }),
            counterfactual: None,
            attempts: vec![attempt],
            answered: Some(0),
            cascade: None,
            status: 200,
            outcome: "ok",
            blame: None,
            stage: Stage::Answer,
            usage: Some(usage),
            ttft_ms: Some(1.5),
            upstream_ttft_ms: Some(2.5),
            tpot_ms: Some(3.5),
            gaps: None,
            e2e_ms: 4.5,
            overhead_us: Some(5.5),
            cost_usd: Some(6.5),
            uncounted: Spent::default(),
        }
    }

    /// The values of `read` that `written` does not have.
    fn differences(read: &Value, written: Option<&Value>, path: &str) -> Vec<String> {
        match (read, written) {
            (Value::Object(fields), Some(Value::Object(all))) => fields
                .iter()
                .flat_map(|(name, field)| differences(field, all.get(name), &format!("{path}.{name}")))
                .collect(),
            (Value::Array(items), Some(Value::Array(all))) if items.len() == all.len() => {
                items.iter().zip(all).flat_map(|(item, other)| differences(item, Some(other), path)).collect()
            }
            (read, written)
                if Some(read) == written
                    || read.as_f64().is_some_and(|read| written.and_then(Value::as_f64) == Some(read)) =>
            {
                Vec::new()
            }
            _ => vec![format!("{path}: {read} was written as {written:?}")],
        }
    }

    #[test]
    fn readers_find_every_field_that_they_read() {
        let text = serde_json::to_string(&written()).unwrap();
        let line: Line = serde_json::from_str(&text).unwrap();
        assert!(line.background.is_some() && line.attempts[0].candidates.len() == 1);
        let (read, written) = (serde_json::to_value(&line).unwrap(), serde_json::from_str(&text).unwrap());
        assert_eq!(differences(&read, Some(&written), ""), Vec::<String>::new());
        let facts = line.routing_facts.unwrap_or_default();
        let session = facts.session.unwrap_or_default();
        assert_eq!(hash(&session).map(|hash| format!("{hash:016x}")), Some(session));
        assert_eq!(block_hashes(&facts.blocks.unwrap_or_default()).len(), 2);
    }

    #[test]
    fn a_line_without_fields_is_read() {
        let line: Line = serde_json::from_str("{\"new\": 1}").unwrap();
        assert_eq!((line.form, line.attempts.len(), line.answering().is_none()), (0, 0, true));
    }
}
