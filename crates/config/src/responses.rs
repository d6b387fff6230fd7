//! Stored responses as written in the file.

use std::time::Duration;

use schemars::{JsonSchema, Schema, json_schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    patterns::{SIZE, whole},
    scalar::{Field, Scalar},
    units,
};

/// Responses and conversations that the gateway stores for callers of the Responses API before backends that speak only
/// chat, so that `store`, `previous_response_id`, `item_reference` and `conversation` work there.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoredResponses {
    /// The most memory for them, such as `64Mi` (the default), or `off` to store nothing. Above it, the key that stores
    /// most loses what it has not used for longest.
    pub store: Option<Field<StoreSize>>,
    /// The time for which they are stored after their last use. Default: `1h`.
    pub ttl: Option<Field<Duration>>,
}

/// A number of bytes, or `off`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StoreSize(pub Option<u64>);

impl Scalar for StoreSize {
    fn read(text: &str) -> Result<Self, Mistake> {
        if matches!(text, "off" | "0") { Ok(Self(None)) } else { units::size(text).map(|size| Self(Some(size))) }
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 0 },
            { "enum": ["off", false] },
            { "type": "string", "pattern": whole(SIZE) }
        ] })
    }
}
