//! The form of the answer: text, JSON of a schema, or any JSON object.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::request::Request;
use crate::{
    Dropped, Unsupported,
    json::{self, Str},
    unsupported,
};

/// Stands at the end of the system prompt, since Messages has no mode for JSON without a schema. Chat completions
/// requires that the prompt asks for JSON by itself, so this adds only the form.
const OBJECT: &str = "Answer with one JSON object only, without a code fence and without any other text.";

/// The requested form of the answer.
pub(super) enum Format<'a> {
    /// Free text.
    Text,
    /// A JSON object.
    Object,
    /// JSON that follows a schema.
    Schema(&'a RawValue),
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
    #[serde(borrow)]
    json_schema: Option<Schema<'a>>,
}

#[derive(Deserialize)]
struct Schema<'a> {
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
}

impl<'a> Format<'a> {
    /// Reads the member `response_format`.
    pub(super) fn read(request: &Request<'a>) -> Result<Self, Unsupported> {
        let Some(format) = request.response_format else { return Ok(Self::Text) };
        let raw: Raw<'a> = json::read(format)
            .map_err(|error| unsupported("response_format", format!("the format is not valid: {error}")))?;
        match &*raw.r#type.0 {
            "text" => Ok(Self::Text),
            "json_object" => Ok(Self::Object),
            "json_schema" => Ok(raw.json_schema.and_then(|schema| schema.schema).map_or(Self::Object, Self::Schema)),
            other => {
                let message = format!("the upstream has no format `{other}`: use json_schema, json_object or text");
                Err(unsupported("response_format.type", message))
            }
        }
    }

    /// The instruction that stands in for a format without a schema; the guarantee is reported as dropped.
    pub(super) fn instruction(&self, dropped: &mut Dropped) -> Option<&'static str> {
        if !matches!(self, Self::Object) {
            return None;
        }
        dropped.add("response_format.type");
        Some(OBJECT)
    }
}
