//! The `defaults` of a backend that an endpoint takes. Most are fields of chat, and strict providers reject a field that an
//! endpoint does not have.

use std::borrow::Cow;

use bytes::Bytes;

use signalbox_fleet::Pool;
use signalbox_policy::Backend;
use signalbox_types::Endpoint;

/// The defaults of `backend` for requests to `endpoint`. In a pool that generates nothing, all are meant for what it does.
pub(super) fn of<'a>(pool: &Pool, backend: &'a Backend, endpoint: Endpoint) -> Cow<'a, [(String, Bytes)]> {
    let all = &*backend.defaults;
    let is_mixed = Endpoint::ALL.into_iter().any(|other| other.generates() && pool.speaks(other));
    if all.is_empty() || !is_mixed || all.iter().all(|(name, _)| takes(endpoint, name)) {
        return Cow::Borrowed(all);
    }
    all.iter().filter(|(name, _)| takes(endpoint, name)).cloned().collect()
}

/// True if `endpoint` has a field of this name. Fields that no endpoint is known for belong to generation.
fn takes(endpoint: Endpoint, name: &str) -> bool {
    if endpoint.generates() {
        let has = |other: &Endpoint| !SHARED.contains(&name) && fields(*other).contains(&name);
        return !Endpoint::ALL.iter().any(has);
    }
    fields(endpoint).contains(&name)
}

/// Fields that endpoints which generate have too.
const SHARED: [&str; 11] = [
    "background",
    "instructions",
    "language",
    "n",
    "priority",
    "response_format",
    "seed",
    "top_k",
    "truncate_prompt_tokens",
    "truncation",
    "user",
];

/// The optional fields of an endpoint that generates nothing, at OpenAI, hosted providers and engines.
const fn fields(endpoint: Endpoint) -> &'static [&'static str] {
    match endpoint {
        Endpoint::Embeddings => &[
            "dimensions",
            "embedding_types",
            "encoding_format",
            "input_type",
            "late_chunking",
            "normalize",
            "normalized",
            "output_dimension",
            "output_dtype",
            "priority",
            "task",
            "truncate",
            "truncate_prompt_tokens",
            "truncation",
            "user",
        ],
        Endpoint::Rerank => &[
            "max_chunks_per_doc",
            "max_tokens_per_doc",
            "priority",
            "raw_scores",
            "return_documents",
            "top_k",
            "top_n",
            "truncate",
            "truncate_prompt_tokens",
            "truncation",
            "user",
        ],
        Endpoint::Score | Endpoint::Classify | Endpoint::Pooling => {
            &["activation", "add_special_tokens", "normalize", "priority", "softmax", "truncate_prompt_tokens", "user"]
        }
        Endpoint::Images => &[
            "background",
            "guidance_scale",
            "height",
            "moderation",
            "n",
            "negative_prompt",
            "num_inference_steps",
            "output_compression",
            "output_format",
            "quality",
            "response_format",
            "seed",
            "size",
            "steps",
            "style",
            "user",
            "width",
        ],
        Endpoint::Audio => &["instructions", "language", "response_format", "speed", "stream_format", "voice"],
        Endpoint::Videos => &["quality", "seconds", "size"],
        Endpoint::Chat
        | Endpoint::Completions
        | Endpoint::Responses
        | Endpoint::Messages
        | Endpoint::Tokenize
        | Endpoint::Moderations
        | Endpoint::Files
        | Endpoint::Batches
        | Endpoint::VectorStores
        | Endpoint::FineTuning => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_endpoint_takes_its_own_fields() {
        let of = |endpoint: Endpoint| {
            let names = ["temperature", "dimensions", "top_n", "size", "voice", "seed", "user", "x-vendor"];
            names.into_iter().filter(|name| takes(endpoint, name)).collect::<Vec<_>>()
        };
        assert_eq!(of(Endpoint::Chat), ["temperature", "seed", "user", "x-vendor"]);
        assert_eq!(of(Endpoint::Embeddings), ["dimensions", "user"]);
        assert_eq!(of(Endpoint::Rerank), ["top_n", "user"]);
        assert_eq!(of(Endpoint::Images), ["size", "seed", "user"]);
        assert_eq!(of(Endpoint::Audio), ["voice"]);
        assert!(of(Endpoint::Moderations).is_empty());
    }
}
