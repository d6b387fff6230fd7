//! LM Studio.

use crate::{Profile, Refusal, Signs, Verdict};
use signalbox_types::EngineApi as Api;

/// LM Studio.
pub(super) const PROFILE: Profile = Profile {
    name: "LM Studio",
    signs: Signs { owners: &["organization_owner"], hosts: &[], headers: &[], routes: &["/api/v0/models"] },
    port: Some(1234),
    endpoints: &[Api::Chat, Api::Completions, Api::Embeddings, Api::Responses, Api::Messages],
    refusals: &[
        Refusal::said(Verdict::TooLong, "tokens to keep|trying to keep the first & context"),
        Refusal::said(
            Verdict::NotHere,
            "no models loaded|model unloaded|model is unloaded|model has crashed|failed to load model",
        ),
    ],
    ..Profile::UNKNOWN
};
