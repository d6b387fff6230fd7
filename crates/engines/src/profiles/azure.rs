//! Azure OpenAI and Azure AI.

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// Azure OpenAI and Azure AI.
pub(super) const PROFILE: Profile = Profile {
    name: "Azure",
    signs: Signs {
        owners: &[],
        hosts: &[
            ("openai.azure.com", "azure.ai.openai"),
            ("cognitiveservices.azure.com", "azure.ai.openai"),
            ("inference.ai.azure.com", "azure.ai.inference"),
            ("services.ai.azure.com", "azure.ai.inference"),
        ],
        headers: &[("apim-request-id", "")],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses],
    refusals: &[Refusal::coded(Verdict::Operator, "deploymentdisabled|subscriptiondisabled")],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
