//! The names of answers that several gateways share.

use crate::{cache::Keys, policy};

/// The keys by which gateways with the same `cache.shared.key` name answers.
pub(crate) fn keys(spec: &policy::Shared) -> Keys {
    Keys::new(blake3::derive_key("signalbox 2026 keys of the shared cache", spec.key.0.as_bytes()))
}
