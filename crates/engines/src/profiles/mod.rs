//! The profiles, one file each.

mod anthropic;
mod bedrock;
mod cohere;
mod dynamo;
mod gemini;
mod groq;
mod llama_cpp;
mod lm_studio;
mod mistral;
mod ollama;
mod openai;
mod qwen;
mod sglang;
mod tensorrt_llm;
mod text_generation_inference;
mod vllm;
mod zhipu;

use super::Profile;

/// All profiles: engines, then providers.
pub(crate) const PROFILES: [&Profile; 17] = [
    &vllm::PROFILE,
    &sglang::PROFILE,
    &tensorrt_llm::PROFILE,
    &dynamo::PROFILE,
    &llama_cpp::PROFILE,
    &ollama::PROFILE,
    &lm_studio::PROFILE,
    &text_generation_inference::PROFILE,
    &openai::PROFILE,
    &anthropic::PROFILE,
    &gemini::PROFILE,
    &bedrock::PROFILE,
    &mistral::PROFILE,
    &groq::PROFILE,
    &cohere::PROFILE,
    &qwen::PROFILE,
    &zhipu::PROFILE,
];
