//! One entry of `model_list`: the engine and the model behind it.

use super::{
    address,
    context::{Context, ENVIRON, environ, is_word},
    parameters::{self, Parameters},
    providers::{self, Api, KEEP, Provider},
};
use crate::tree::Node;
use signalbox_types::Endpoint;

/// An engine, as far as deployments tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Engine {
    /// A name that shows the provider and the host.
    pub(super) label: String,
    pub(super) url: String,
    /// The version of Azure's API.
    pub(super) azure: Option<String>,
    /// True if the address may have no version, and is the base of the API's paths as it stands.
    pub(super) is_exact: bool,
    /// The provider key, as a reference to a variable.
    pub(super) key: Option<String>,
}

/// A deployment that has a counterpart.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub(super) line: usize,
    /// The name that clients request.
    pub(super) group: String,
    pub(super) engine: Engine,
    /// The name upstream; `None` for a pattern.
    pub(super) model: Option<String>,
    /// The deployment in Azure.
    pub(super) azure: Option<String>,
    /// The prefix of a pattern that is removed upstream.
    pub(super) strip: Option<String>,
    pub(super) speaks: Vec<Endpoint>,
    pub(super) with: Parameters,
}

/// Reads an entry. Notes why, and the name that has lost a deployment, if it has no counterpart.
pub(super) fn read(cx: &mut Context, entry: &Node) -> Option<Deployment> {
    let deployment = translate(cx, entry);
    if deployment.is_none() {
        cx.left_out.extend(entry.get("model_name").and_then(Node::text).map(|name| (name, entry.line)));
    }
    deployment
}

fn translate(cx: &mut Context, entry: &Node) -> Option<Deployment> {
    let Some(group) = entry.get("model_name").and_then(Node::text).filter(|name| !name.trim().is_empty()) else {
        cx.gap(entry.line, "model_list", "an entry without `model_name`: it was left out");
        return None;
    };
    let place = format!("model_list `{group}`");
    let (Some(params), info) = (entry.get("litellm_params"), entry.get("model_info")) else {
        cx.gap(entry.line, place, "an entry without `litellm_params`: it was left out");
        return None;
    };
    let Some(model) = params.get("model").and_then(Node::text) else {
        cx.gap(entry.line, place, "`litellm_params` without `model`: the entry was left out");
        return None;
    };
    if !is_word(&group) {
        cx.gap(
            entry.line,
            place,
            "a name with spaces or characters beyond ASCII cannot stand in headers and metrics: rename it",
        );
        return None;
    }
    let mut target = match target(cx, &model, params) {
        Ok(target) => target,
        Err(reason) => {
            cx.gap(entry.line, place, format!("`{model}` was left out: {reason}"));
            return None;
        }
    };
    if matches!(target.api, Api::Anthropic | Api::Compatible) {
        let text = "LiteLLM translates to the native API; here chat goes to the provider's OpenAI-compatible API, which lacks what only the native one has";
        let text = if target.api == Api::Anthropic {
            format!("{text} (that one is at `/v1/messages`)")
        } else {
            text.to_owned()
        };
        cx.differs(entry.line, place.clone(), text);
    }
    let strip = match pattern(&group, &mut target) {
        Ok(strip) => strip,
        Err(reason) => {
            cx.gap(entry.line, place, format!("`{model}` was left out: {reason}"));
            return None;
        }
    };
    let mode = info.and_then(|info| info.get("mode")).and_then(Node::text);
    let speaks = speaks(mode.as_deref(), &target);
    let base = info.and_then(|info| info.get("base_model")).and_then(Node::text);
    let base = base.map(|base| base.rsplit('/').next().unwrap_or_default().to_owned()).filter(|base| is_word(base));
    let (model, azure) = if target.engine.azure.is_some() {
        // The name in the body is not read by Azure; here it selects the tokenizer and the price.
        (base, target.model)
    } else {
        (target.model, None)
    };
    let with = parameters::read(cx, &place, params, info);
    Some(Deployment { line: entry.line, group, engine: target.engine, model, azure, strip, speaks, with })
}

struct Target {
    engine: Engine,
    api: Api,
    /// True if the deployment is at the provider's own address.
    is_hosted: bool,
    /// The name upstream; `None` if it is the one that the pattern matched.
    model: Option<String>,
}

fn target(cx: &mut Context, model: &str, params: &Node) -> Result<Target, String> {
    let (provider, name) = resolve(model, params)?;
    // LiteLLM reads a variable in place of the whole model; behind a provider's name it would be a part of the name.
    let referred = name.strip_prefix(ENVIRON).map(|variable| cx.refer(variable));
    let name = referred.as_deref().unwrap_or(name);
    let base = ["api_base", "base_url"].iter().find_map(|key| params.get(key));
    let given = base.and_then(|node| cx.text(node));
    let engine = match provider.api {
        Api::Azure => azure(cx, provider, params, given.clone())?,
        Api::Compatible if given.is_some() => {
            return Err(format!("`api_base` of {} is the address of its native API: {KEEP}", provider.name));
        }
        _ => {
            let url = address::complete(provider, given.as_deref())?;
            let is_exact = provider.api == Api::OpenAi && address::lacks_version(&url);
            Engine { label: address::label(provider, given.as_deref()), url, azure: None, is_exact, key: None }
        }
    };
    let is_hosted = given.is_none();
    let key = key(cx, provider, params, is_hosted);
    let name = upstream(provider, name, is_hosted);
    if provider.api == Api::Azure && engine.azure.is_some() && name.contains('*') {
        return Err("a pattern of Azure deployments has no counterpart: list the deployments".to_owned());
    }
    if !is_word(&name) {
        return Err("a model name with spaces or characters beyond ASCII".to_owned());
    }
    Ok(Target { engine: Engine { key, ..engine }, api: provider.api, is_hosted, model: Some(name) })
}

/// The provider of `model`, and the rest of its name.
fn resolve<'m>(model: &'m str, params: &Node) -> Result<(&'static Provider, &'m str), String> {
    let unknown = |name: &str| match providers::gap(name) {
        Some(reason) => format!("{reason}; or {KEEP}"),
        None => format!(
            "the provider `{name}` is not known to this import: if its API is OpenAI's, write `openai/MODEL` and `api_base`; or {KEEP}"
        ),
    };
    let custom = params.get("custom_llm_provider").and_then(Node::text);
    let (prefix, rest) = model.split_once('/').unwrap_or(("", model));
    if let (None, Some(variable)) = (&custom, model.strip_prefix(ENVIRON)) {
        return Err(format!(
            "its model is in the variable `{variable}`, and with it its provider, which has to be known here: write `PROVIDER/{model}`, with the model alone in the variable"
        ));
    }
    if let Some(custom) = custom {
        let provider = providers::provider(&custom).ok_or_else(|| unknown(&custom))?;
        return Ok((provider, if prefix == custom { rest } else { model }));
    }
    if let Some(provider) = providers::provider(prefix) {
        return Ok((provider, rest));
    }
    if providers::gap(prefix).is_some() {
        return Err(unknown(prefix));
    }
    if let Some(known) = providers::guess(model) {
        return providers::provider(known).map(|provider| (provider, model)).ok_or_else(|| unknown(known));
    }
    if model == "*" || prefix == "*" {
        return Err("every model of every provider: name the providers, such as `openai/*`".to_owned());
    }
    match providers::provider("openai") {
        Some(openai) if params.get("api_base").is_some() => Ok((openai, model)),
        _ => Err(unknown(if prefix.is_empty() { model } else { prefix })),
    }
}

/// The model's name as the provider's OpenAI-compatible API has it.
fn upstream(provider: &Provider, name: &str, is_hosted: bool) -> String {
    // Markers of LiteLLM that select one of its own code paths.
    let markers = ["responses/", "o_series/", "gpt5_series/", "chat/", "converse/"];
    let name = markers.iter().find_map(|marker| name.strip_prefix(marker)).unwrap_or(name);
    match provider.api {
        Api::HuggingFace if is_hosted => match name.splitn(3, '/').collect::<Vec<_>>()[..] {
            [via, org, model] => format!("{org}/{model}:{via}"),
            _ => name.to_owned(),
        },
        Api::Fireworks if !name.contains(['/', '*']) => format!("accounts/fireworks/models/{name}"),
        _ => name.to_owned(),
    }
}

fn azure(cx: &mut Context, provider: &Provider, params: &Node, given: Option<String>) -> Result<Engine, String> {
    let given = given.unwrap_or_else(|| cx.refer("AZURE_API_BASE"));
    for key in ["azure_ad_token", "azure_ad_token_provider", "tenant_id", "client_id", "azure_username"] {
        if params.get(key).is_some() {
            return Err(format!(
                "`{key}`: tokens of Entra ID expire and are not fetched here: use a key of the resource, or {KEEP}"
            ));
        }
    }
    let version = params.get("api_version").and_then(|node| cx.text(node));
    let root = address::before(&given, "/openai").trim_end_matches('/');
    let label = address::label(provider, Some(root));
    // The versionless API is OpenAI's own.
    let is_v1 = given.contains("/openai/v1") || matches!(version.as_deref(), Some("v1" | "preview" | "latest"));
    if is_v1 {
        let url = address::valid(format!("{root}/openai/v1"))?;
        return Ok(Engine { label, url, azure: None, is_exact: false, key: None });
    }
    // The version that LiteLLM uses where none is given.
    let version = version.unwrap_or_else(|| "${AZURE_API_VERSION:-2025-02-01-preview}".to_owned());
    Ok(Engine { label, url: address::valid(root.to_owned())?, azure: Some(version), is_exact: false, key: None })
}

/// The key: the deployment's own, or the one that LiteLLM takes from the environment for the provider's own address.
fn key(cx: &mut Context, provider: &Provider, params: &Node, is_hosted: bool) -> Option<String> {
    let usual = provider.key;
    match params.get("api_key") {
        Some(node) => cx.secret(node, usual),
        None if provider.api == Api::Azure => Some(cx.refer(usual)),
        None if is_hosted && provider.base.starts_with("https://") => cx.text(&environ(usual, 0)),
        None => None,
    }
}

/// Splits a pattern: the prefix to remove upstream, if the names differ by that.
fn pattern(group: &str, target: &mut Target) -> Result<Option<String>, String> {
    let upstream = target.model.clone().unwrap_or_default();
    match (group.contains('*'), upstream.contains('*')) {
        (_, false) => return Ok(None),
        (false, true) => return Err("one name for the models of a pattern has no counterpart: list them".to_owned()),
        (true, true) => target.model = None,
    }
    match group.strip_suffix(&*upstream) {
        Some("") => Ok(None),
        Some(prefix) if !prefix.contains('*') => Ok(Some(prefix.to_owned())),
        _ => Err(format!("requests for `{group}` would need other names upstream (`{upstream}`): list the models")),
    }
}

fn speaks(mode: Option<&str>, target: &Target) -> Vec<Endpoint> {
    let name = target.model.as_deref().unwrap_or_default().to_ascii_lowercase();
    let is = |words: &[&str]| words.iter().any(|word| name.contains(word));
    match mode {
        Some("embedding") => vec![Endpoint::Embeddings],
        Some("image_generation" | "image_edit") => vec![Endpoint::Images],
        Some("audio_transcription" | "audio_speech") => vec![Endpoint::Audio],
        Some("rerank") => vec![Endpoint::Rerank],
        Some("moderation") => vec![Endpoint::Moderations],
        Some("completion") => vec![Endpoint::Completions],
        Some("responses") => vec![Endpoint::Responses],
        None if is(&["rerank"]) => vec![Endpoint::Rerank],
        None if is(&["embed", "bge-", "/e5-"]) => vec![Endpoint::Embeddings],
        None if is(&["whisper", "tts-", "-transcribe", "-tts"]) => vec![Endpoint::Audio],
        None if is(&["dall-e", "gpt-image"]) => vec![Endpoint::Images],
        None if is(&["-moderation"]) => vec![Endpoint::Moderations],
        _ => match target.api {
            Api::Anthropic => vec![Endpoint::Chat, Endpoint::Messages],
            Api::OpenAi if target.is_hosted && target.engine.url.contains("api.openai.com") => {
                let mut all = vec![Endpoint::Chat, Endpoint::Responses];
                // Behind a pattern there may be models of any kind.
                all.extend([Endpoint::Embeddings].into_iter().filter(|_| target.model.is_none()));
                all
            }
            _ => Vec::new(),
        },
    }
}
