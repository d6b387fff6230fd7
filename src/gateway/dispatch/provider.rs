//! Provider names of backends, as in OpenTelemetry's semantic conventions.

use crate::{
    fleet::Backend,
    policy::{Dialect, Engine},
};

/// Host suffixes and their providers.
const HOSTS: [(&str, &str); 12] = [
    ("api.openai.com", "openai"),
    ("api.anthropic.com", "anthropic"),
    ("openai.azure.com", "azure.ai.openai"),
    ("inference.ai.azure.com", "azure.ai.inference"),
    ("amazonaws.com", "aws.bedrock"),
    ("aiplatform.googleapis.com", "gcp.vertex_ai"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
    ("api.mistral.ai", "mistral_ai"),
    ("api.cohere.com", "cohere"),
    ("api.deepseek.com", "deepseek"),
    ("api.groq.com", "groq"),
    ("api.x.ai", "x_ai"),
];

/// Provider of a backend by its address, else by the kind that its engine reports, else `unknown`.
pub(super) fn provider(engine: &Engine, backend: &Backend) -> &'static str {
    if matches!(engine.dialect, Dialect::Azure { .. }) {
        return "azure.ai.openai";
    }
    let host = crate::config::authority(&engine.url);
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let known = HOSTS.iter().find(|(end, _)| host.ends_with(end)).map(|(_, name)| *name);
    known.or_else(|| Some(backend.engine.reading()?.signals.kind.name())).unwrap_or("unknown")
}
