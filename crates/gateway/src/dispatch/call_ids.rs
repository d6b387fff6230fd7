//! Ids of tool calls that a backend rejects: which providers have rules, and the replacement on the way to them.

use std::{borrow::Cow, sync::atomic::Ordering::Relaxed};

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;

use signalbox_config::{ToolCallIds, authority};
use signalbox_engines::Profile;
use signalbox_fleet::Learned;
use signalbox_policy::{Dialect, Engine};
use signalbox_translation::{CallIds, with_call_ids};
use signalbox_types::Fault;

/// Families of Mistral's models. Other hosts, and engines with Mistral's own tokenizer or templates, have the same rule
/// for them; where they have not, another id does no harm.
const MISTRAL_MODELS: [&str; 10] = [
    "mistral",
    "mixtral",
    "ministral",
    "codestral",
    "devstral",
    "magistral",
    "pixtral",
    "voxtral",
    "mathstral",
    "leanstral",
];

/// The letters that the names of these families share.
const IN_MISTRAL_MODELS: &[u8] = b"tral";

/// The longest id that OpenAI takes in chat completions: gateways and other providers write longer ones.
const OPENAI_LENGTH: usize = 40;

/// The longest body that is searched on a worker.
const MOST_SEARCHED: usize = 2 << 20;

/// The ids that an engine accepts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Any,
    Only(CallIds),
    /// Those of the model that a request names.
    ByModel,
}

impl Rule {
    /// The rule of a backend of `engine`, by what is known of it and what was learned.
    pub(super) fn of_backend(engine: &Engine, learned: &Learned) -> Self {
        match Self::of(engine) {
            Self::ByModel if learned.mistral_call_ids.load(Relaxed) => Self::Only(CallIds::Mistral),
            rule => rule,
        }
    }

    /// The rule of an engine.
    fn of(engine: &Engine) -> Self {
        match engine.tool_call_ids {
            Some(ToolCallIds::Any) => return Self::Any,
            Some(ToolCallIds::Mistral) => return Self::Only(CallIds::Mistral),
            None => {}
        }
        match engine.dialect {
            Dialect::Azure { .. } => Self::Only(CallIds::AtMost(OPENAI_LENGTH)),
            // The translation writes ids of its own.
            Dialect::Anthropic => Self::Any,
            Dialect::OpenAi => match Profile::provider_at(authority(&engine.url)) {
                Some("mistral_ai") => Self::Only(CallIds::Mistral),
                Some("openai") => Self::Only(CallIds::AtMost(OPENAI_LENGTH)),
                _ => Self::ByModel,
            },
        }
    }

    /// False if a chat request certainly stays as it is.
    pub(super) fn concerns(self, body: &[u8]) -> bool {
        match self {
            Self::Any => false,
            _ if body.len() > MOST_SEARCHED => true,
            Self::Only(accepted) => accepted.may_reject(body),
            Self::ByModel => CallIds::Mistral.may_reject(body) && memmem::find(body, IN_MISTRAL_MODELS).is_some(),
        }
    }

    /// The request with ids that the backend accepts.
    pub(super) fn apply(self, body: Bytes) -> Bytes {
        let accepted = match self {
            Self::Only(accepted) => accepted,
            Self::ByModel if is_mistral(&body) => CallIds::Mistral,
            Self::Any | Self::ByModel => return body,
        };
        with_call_ids(&body, accepted).map_or(body, Bytes::from)
    }
}

/// Learns from a refusal that a backend takes only Mistral's ids: it has the tokenizer or a template of Mistral under another
/// name. Returns true if that is new, so that the request may succeed with such ids.
pub(super) fn learn(engine: &Engine, learned: &Learned, fault: &Fault) -> bool {
    let is_rule = |body: &[u8]| {
        let body = body.to_ascii_lowercase();
        let says = |words: &[u8]| memmem::find(&body, words).is_some();
        says(b"tool call id") && (says(b"length of 9") || says(b"9 characters"))
    };
    Rule::of(engine) == Rule::ByModel
        && fault.unmasked.as_ref().is_some_and(|refusal| is_rule(&refusal.body))
        && !learned.mistral_call_ids.swap(true, Relaxed)
}

/// True if a request is for one of Mistral's models.
fn is_mistral(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Model<'a> {
        #[serde(borrow)]
        model: Cow<'a, str>,
    }
    serde_json::from_slice::<Model<'_>>(body).is_ok_and(|Model { model }| {
        let name = model.to_ascii_lowercase();
        MISTRAL_MODELS.iter().any(|family| name.contains(family))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(url: &str) -> Rule {
        Rule::of(&Engine::at("e".into(), url.to_owned()))
    }

    #[test]
    fn providers_with_rules_are_known_by_their_address() {
        for host in ["api.mistral.ai", "codestral.mistral.ai"] {
            assert_eq!(rule(&format!("https://{host}/v1")), Rule::Only(CallIds::Mistral));
        }
        assert_eq!(rule("https://api.openai.com/v1"), Rule::Only(CallIds::AtMost(40)));
        assert_eq!(rule("http://10.0.0.1:8000/v1"), Rule::ByModel);
        assert_eq!(rule("https://api.mistral.ai.evil/v1"), Rule::ByModel);
    }

    #[test]
    fn the_policy_decides_first() {
        let mut engine = Engine::at("e".into(), "https://api.mistral.ai/v1".to_owned());
        engine.tool_call_ids = Some(ToolCallIds::Any);
        assert_eq!(Rule::of(&engine), Rule::Any);
        engine = Engine::at("e".into(), "http://10.0.0.1:8000/v1".to_owned());
        engine.tool_call_ids = Some(ToolCallIds::Mistral);
        assert_eq!(Rule::of(&engine), Rule::Only(CallIds::Mistral));
    }

    #[test]
    fn only_models_of_mistral_get_other_ids() {
        let body = |model: &str| {
            Bytes::from(format!(
                r#"{{"messages":[{{"role":"tool","tool_call_id":"call_1","content":"neutral"}}],"model":"{model}"}}"#
            ))
        };
        for (model, changes) in [
            ("mistralai/Devstral-Small-2507", true),
            ("Mixtral-8x7B", true),
            ("codestral-latest", true),
            ("qwen3", false),
        ] {
            let body = body(model);
            assert!(Rule::ByModel.concerns(&body));
            assert_eq!(Rule::ByModel.apply(body.clone()) != body, changes, "{model}");
        }
        assert!(!Rule::ByModel.concerns(br#"{"model":"mistral","messages":[]}"#));
        assert!(!Rule::ByModel.concerns(br#"{"model":"qwen3","messages":[{"tool_call_id":"a"}]}"#));
        assert!(!Rule::Any.concerns(br#"{"model":"mistral","messages":[{"tool_call_id":"a"}]}"#));
    }
}
