//! Addresses of deployments as base addresses of engines.

use super::providers::{Api, KEEP, Provider};
use signalbox_config::{authority, has_version, read_url};

/// The base address of a deployment's engine: the given one, or the provider's own.
pub(super) fn complete(provider: &Provider, given: Option<&str>) -> Result<String, String> {
    let Some(given) = given else {
        return match (provider.api, provider.base) {
            (_, "") => {
                Err(format!("`api_base` is missing, and the provider `{}` has no address of its own", provider.name))
            }
            (Api::Ollama, base) => Ok(format!("{base}/v1")),
            (_, base) => Ok(base.to_owned()),
        };
    };
    let mut base = given.trim().trim_end_matches('/');
    for path in
        ["/chat/completions", "/completions", "/embeddings", "/messages", "/rerank", "/api/chat", "/api/generate"]
    {
        base = base.strip_suffix(path).unwrap_or(base);
    }
    let base = base.trim_end_matches('/');
    match provider.api {
        Api::Ollama | Api::Anthropic | Api::HuggingFace if !has_version(base) => valid(format!("{base}/v1")),
        // The models of a Foundry resource are also served by its OpenAI-compatible API.
        Api::Foundry if !base.contains("/openai/v1") => {
            let root = before(base, "/models");
            if root.contains(".services.ai.azure.com") || root.contains(".openai.azure.com") {
                valid(format!("{root}/openai/v1"))
            } else {
                Err(format!(
                    "an endpoint of one model in Azure AI has no counterpart: deploy it to the resource \
                     (`https://NAME.services.ai.azure.com/openai/v1`), or {KEEP}"
                ))
            }
        }
        _ => valid(base.to_owned()),
    }
}

/// An address up to a path, which may have more behind it. A host that begins like the path is none.
pub(super) fn before<'a>(url: &'a str, path: &str) -> &'a str {
    let is_path = |at: &usize| {
        let rest = &url[at + path.len()..];
        !url[..*at].ends_with('/') && (rest.is_empty() || rest.starts_with(['/', '?']))
    };
    let at = url.match_indices(path).map(|(at, _)| at).find(is_path);
    at.map_or(url, |at| &url[..at])
}

/// Checks an address as far as it does not come from the environment.
pub(super) fn valid(url: String) -> Result<String, String> {
    if url.contains("${") {
        return Ok(url);
    }
    read_url(&url).map_err(|mistake| format!("its address is {}", mistake.message))
}

/// True if an address may have no version in its path. LiteLLM takes each as it stands.
pub(super) fn lacks_version(url: &str) -> bool {
    url.contains("${") || !has_version(url)
}

/// A name for the engine: the provider's, with its host unless that is the provider's own.
pub(super) fn label(provider: &Provider, given: Option<&str>) -> String {
    let name = provider.name.replace('_', "-");
    let name = name.strip_prefix("hosted-").unwrap_or(&name);
    let name = name.strip_suffix("-chat").unwrap_or(name);
    let Some(given) = given else { return name.to_owned() };
    let word = match (given.split_once("${"), given.contains("://")) {
        (Some((_, rest)), _) => {
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>().to_lowercase()
        }
        (None, true) => host(authority(given)),
        (None, false) => String::new(),
    };
    let word: String = word
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect::<String>()
        .trim_matches('-')
        .to_owned();
    match word.as_str() {
        "" => name.to_owned(),
        word if word.starts_with(name) => word.to_owned(),
        // The provider stands for any server with this API.
        word if name == "openai" && word.starts_with(|c: char| c.is_ascii_digit()) => format!("engine-{word}"),
        word if name == "openai" => word.to_owned(),
        word => format!("{name}-{word}"),
    }
}

/// The telling part of a host: an address with its port, or the first label of a name.
fn host(authority: &str) -> String {
    let name = authority.split(':').next().unwrap_or_default();
    let is_address = name.is_empty() || name.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_local = is_address || !name.contains('.');
    if is_local { authority.to_owned() } else { name.split('.').next().unwrap_or_default().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::litellm::providers::provider;

    #[test]
    fn addresses_are_completed_as_each_api_needs_it() {
        let of = |name, given| complete(provider(name).unwrap(), given);
        assert_eq!(of("openai", None).unwrap(), "https://api.openai.com/v1");
        assert_eq!(of("hosted_vllm", Some("http://g1:8000/v1/")).unwrap(), "http://g1:8000/v1");
        assert_eq!(of("openai", Some("http://g1:8000/v1/chat/completions")).unwrap(), "http://g1:8000/v1");
        assert_eq!(of("ollama", None).unwrap(), "http://localhost:11434/v1");
        assert_eq!(of("ollama_chat", Some("${OLLAMA}")).unwrap(), "${OLLAMA}/v1");
        assert_eq!(of("anthropic", Some("https://proxy/v1/messages")).unwrap(), "https://proxy/v1");
        assert_eq!(
            of("azure_ai", Some("https://r.services.ai.azure.com/models/")).unwrap(),
            "https://r.services.ai.azure.com/openai/v1"
        );
        assert!(of("hosted_vllm", None).unwrap_err().contains("api_base"));
        assert!(of("openai", Some("g1:8000")).unwrap_err().contains("address"));
    }

    #[test]
    fn labels_show_provider_and_host() {
        let of = |name, given| label(provider(name).unwrap(), given);
        assert_eq!(of("openai", None), "openai");
        assert_eq!(of("hosted_vllm", Some("http://10.0.0.1:8000/v1")), "vllm-10-0-0-1-8000");
        assert_eq!(of("azure", Some("https://acme-eu.openai.azure.com")), "azure-acme-eu");
        assert_eq!(of("azure", Some("${AZURE_API_BASE}")), "azure-api-base");
        assert_eq!(of("openai", Some("http://vllm:8000/v1")), "vllm-8000");
        assert_eq!(of("openai", Some("http://10.0.0.2:8000/v1")), "engine-10-0-0-2-8000");
        assert_eq!(of("ollama_chat", Some("http://ollama:11434")), "ollama-11434");
        assert_eq!(of("openai", Some("nonsense")), "openai");
    }
}
