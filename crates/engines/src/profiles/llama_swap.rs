//! llama-swap.

use crate::{LoadedReport, Profile, Signs};
use signalbox_types::EngineApi as Api;

/// llama-swap.
pub(super) const PROFILE: Profile = Profile {
    name: "llama-swap",
    signs: Signs { owners: &["llama-swap"], hosts: &[], headers: &[], routes: &["/running", "/upstream"] },
    loaded: Some(LoadedReport::Running),
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses, Api::Messages, Api::Tokenize],
    ..Profile::UNKNOWN
};
