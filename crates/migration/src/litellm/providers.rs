//! LiteLLM's providers and the OpenAI-compatible addresses that they document.

/// A provider whose API the gateway speaks.
#[derive(Debug)]
pub(super) struct Provider {
    /// Its prefix in `model`.
    pub(super) name: &'static str,
    /// Base address of its OpenAI-compatible API; empty if every deployment has its own.
    pub(super) base: &'static str,
    /// The variable with its key, as LiteLLM names it.
    pub(super) key: &'static str,
    pub(super) api: Api,
}

/// The form of a provider's addresses and names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Api {
    OpenAi,
    /// LiteLLM calls the native API; the provider has an OpenAI-compatible one, too.
    Compatible,
    Anthropic,
    Azure,
    Foundry,
    Ollama,
    HuggingFace,
    Fireworks,
}

const fn openai(name: &'static str, base: &'static str, key: &'static str) -> Provider {
    Provider { name, base, key, api: Api::OpenAi }
}

const fn other(name: &'static str, base: &'static str, key: &'static str, api: Api) -> Provider {
    Provider { name, base, key, api }
}

const PROVIDERS: [Provider; 50] = [
    openai("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    openai("text-completion-openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    openai("custom_openai", "", "OPENAI_LIKE_API_KEY"),
    openai("openai_like", "", "OPENAI_LIKE_API_KEY"),
    openai("hosted_vllm", "", "HOSTED_VLLM_API_KEY"),
    openai("litellm_proxy", "", "LITELLM_PROXY_API_KEY"),
    openai("lm_studio", "", "LM_STUDIO_API_KEY"),
    openai("llamafile", "http://127.0.0.1:8080/v1", "LLAMAFILE_API_KEY"),
    openai("xinference", "", "XINFERENCE_API_KEY"),
    openai("infinity", "", "INFINITY_API_KEY"),
    openai("docker_model_runner", "", "DOCKER_MODEL_RUNNER_API_KEY"),
    other("anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", Api::Anthropic),
    other("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", Api::Compatible),
    other("cohere", "https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY", Api::Compatible),
    other("cohere_chat", "https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY", Api::Compatible),
    other("azure", "", "AZURE_API_KEY", Api::Azure),
    other("azure_text", "", "AZURE_API_KEY", Api::Azure),
    other("azure_ai", "", "AZURE_AI_API_KEY", Api::Foundry),
    other("ollama", "http://localhost:11434", "OLLAMA_API_KEY", Api::Ollama),
    other("ollama_chat", "http://localhost:11434", "OLLAMA_API_KEY", Api::Ollama),
    other("huggingface", "https://router.huggingface.co/v1", "HUGGINGFACE_API_KEY", Api::HuggingFace),
    other("fireworks_ai", "https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY", Api::Fireworks),
    openai("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    openai("codestral", "https://codestral.mistral.ai/v1", "CODESTRAL_API_KEY"),
    openai("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    openai("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    openai("together_ai", "https://api.together.ai/v1", "TOGETHERAI_API_KEY"),
    openai("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    openai("xai", "https://api.x.ai/v1", "XAI_API_KEY"),
    openai("nvidia_nim", "https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"),
    openai("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
    openai("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    openai("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"),
    openai("nebius", "https://api.studio.nebius.ai/v1", "NEBIUS_API_KEY"),
    openai("novita", "https://api.novita.ai/v3/openai", "NOVITA_API_KEY"),
    openai("hyperbolic", "https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY"),
    openai("lambda_ai", "https://api.lambda.ai/v1", "LAMBDA_API_KEY"),
    openai("nscale", "https://inference.api.nscale.com/v1", "NSCALE_API_KEY"),
    openai("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY"),
    openai("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY"),
    openai("volcengine", "https://ark.cn-beijing.volces.com/api/v3", "VOLCENGINE_API_KEY"),
    openai("perplexity", "https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"),
    openai("github", "https://models.github.ai/inference", "GITHUB_API_KEY"),
    openai("databricks", "", "DATABRICKS_API_KEY"),
    openai("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY"),
    openai("baseten", "https://inference.baseten.co/v1", "BASETEN_API_KEY"),
    openai("featherless_ai", "https://api.featherless.ai/v1", "FEATHERLESS_AI_API_KEY"),
    openai("friendliai", "https://api.friendli.ai/serverless/v1", "FRIENDLI_TOKEN"),
    openai("meta_llama", "https://api.llama.com/compat/v1", "LLAMA_API_KEY"),
    openai("vercel_ai_gateway", "https://ai-gateway.vercel.sh/v1", "VERCEL_AI_GATEWAY_API_KEY"),
];

/// The alternative that exists for every provider.
pub(super) const KEEP: &str = "keep LiteLLM for it and name LiteLLM's own address as an engine";

/// Providers without an OpenAI-compatible API under a fixed key, with the reason.
const GAPS: [(&str, &str); 13] = [
    (
        "bedrock",
        "Bedrock signs requests (SigV4); with a Bedrock API key, models that Bedrock offers at https://bedrock-runtime.REGION.amazonaws.com/openai/v1 can be an engine",
    ),
    (
        "bedrock_converse",
        "Bedrock signs requests (SigV4); with a Bedrock API key, models that Bedrock offers at https://bedrock-runtime.REGION.amazonaws.com/openai/v1 can be an engine",
    ),
    (
        "vertex_ai",
        "Vertex AI takes tokens that expire after an hour; Gemini models are also served with an API key (provider `gemini`)",
    ),
    (
        "vertex_ai_beta",
        "Vertex AI takes tokens that expire after an hour; Gemini models are also served with an API key (provider `gemini`)",
    ),
    ("sagemaker", "SageMaker signs requests (SigV4)"),
    ("sagemaker_chat", "SageMaker signs requests (SigV4)"),
    ("replicate", "Replicate's API is not OpenAI's"),
    ("watsonx", "watsonx exchanges its key for tokens that expire"),
    ("github_copilot", "Copilot uses tokens that a device login fetches"),
    ("chatgpt", "a ChatGPT subscription uses tokens that a login fetches"),
    ("snowflake", "Snowflake signs its tokens"),
    ("oci", "Oracle's cloud signs requests"),
    ("predibase", "Predibase's API is not OpenAI's"),
];

/// The provider with this prefix, if the gateway speaks its API.
pub(super) fn provider(name: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|provider| provider.name == name)
}

/// The reason why deployments of a known provider cannot be translated.
pub(super) fn gap(name: &str) -> Option<&'static str> {
    GAPS.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

/// The provider of a model that is named without one, as LiteLLM knows them.
pub(super) fn guess(model: &str) -> Option<&'static str> {
    const FAMILIES: [(&str, &str); 18] = [
        ("gpt-", "openai"),
        ("chatgpt-", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("ft:", "openai"),
        ("text-embedding-", "openai"),
        ("text-moderation-", "openai"),
        ("omni-moderation-", "openai"),
        ("dall-e-", "openai"),
        ("whisper-", "openai"),
        ("tts-", "openai"),
        ("davinci-", "openai"),
        ("babbage-", "openai"),
        ("claude-", "anthropic"),
        ("gemini-", "vertex_ai"),
        ("command-", "cohere_chat"),
        ("deepseek-", "deepseek"),
    ];
    FAMILIES.iter().find(|(prefix, _)| model.starts_with(prefix)).map(|(_, provider)| *provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_one_that_policies_accept() {
        for provider in PROVIDERS.iter().filter(|provider| !provider.base.is_empty()) {
            assert_eq!(signalbox_config::read_url(provider.base).as_deref(), Ok(provider.base), "{}", provider.name);
            assert!(gap(provider.name).is_none(), "{}", provider.name);
        }
    }
}
