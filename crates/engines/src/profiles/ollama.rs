//! Ollama.

use crate::{LoadedReport, Profile, Refusal, Signs, Verdict};
use signalbox_types::EngineApi as Api;

/// Ollama.
pub(super) const PROFILE: Profile = Profile {
    name: "Ollama",
    signs: Signs { owners: &["library"], hosts: &[], headers: &[], routes: &["/api/version", "/api/ps"] },
    port: Some(11434),
    loaded: Some(LoadedReport::ApiPs),
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses, Api::Messages],
    refusals: &[
        Refusal::said(Verdict::Full, "server busy & maximum pending requests exceeded"),
        Refusal::said(
            Verdict::NotHere,
            "llm server loading model|model requires more system memory|error loading model|runner process",
        ),
    ],
    ..Profile::UNKNOWN
};
