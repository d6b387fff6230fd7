//! OpenAI, and providers with its errors.

use crate::{Profile, Refusal, Signs, UsageForm, Verdict};
use signalbox_types::EngineApi as Api;

/// OpenAI, and providers with its errors.
pub(super) const PROFILE: Profile = Profile {
    name: "OpenAI",
    signs: Signs {
        owners: &["openai", "system"],
        hosts: &[("api.openai.com", "openai")],
        headers: &[("openai-processing-ms", "")],
        routes: &[],
    },
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses],
    refusals: &[
        // The same text as for a rate: only the code tells them apart.
        Refusal::coded(Verdict::Operator, "insufficientquota|billinghardlimitreached|billingnotactive"),
        Refusal::said(Verdict::TooLong, "exceed the configured limit & tokens"),
    ],
    usage: UsageForm {
        cached: &["prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"],
        written: &[],
        reasoning: &["completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"],
    },
    ..Profile::UNKNOWN
};
