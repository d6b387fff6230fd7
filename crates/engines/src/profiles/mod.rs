//! The profiles, one file each.

mod anthropic;
mod azure;
mod bedrock;
mod cohere;
mod deepseek;
mod dynamo;
mod gemini;
mod groq;
mod llama_cpp;
mod llama_swap;
mod lm_studio;
mod lmdeploy;
mod mistral;
mod moonshot;
mod ollama;
mod openai;
mod openrouter;
mod qwen;
mod sglang;
mod tensorrt_llm;
mod text_generation_inference;
mod together;
mod vertex;
mod vllm;
mod xai;
mod zhipu;

use super::Profile;

/// All profiles: engines, frontends of engines, then providers. The first whose signs or wordings fit is taken.
pub const PROFILES: [&Profile; 26] = [
    &vllm::PROFILE,
    &sglang::PROFILE,
    &tensorrt_llm::PROFILE,
    &llama_cpp::PROFILE,
    &lmdeploy::PROFILE,
    &text_generation_inference::PROFILE,
    &dynamo::PROFILE,
    &ollama::PROFILE,
    &lm_studio::PROFILE,
    &llama_swap::PROFILE,
    &openai::PROFILE,
    &azure::PROFILE,
    &anthropic::PROFILE,
    &gemini::PROFILE,
    &vertex::PROFILE,
    &bedrock::PROFILE,
    &mistral::PROFILE,
    &groq::PROFILE,
    &cohere::PROFILE,
    &xai::PROFILE,
    &together::PROFILE,
    &deepseek::PROFILE,
    &openrouter::PROFILE,
    &moonshot::PROFILE,
    &qwen::PROFILE,
    &zhipu::PROFILE,
];
