//! The requirements of a request on its answer: JSON, a schema, tools, a length limit.

use serde::Deserialize;
use serde_json::Value;

use super::RequestBody;

/// The longest list of tools, and the longest schema, that is read, in bytes: as a tree it takes many times that.
const MAX_SCHEMA_BYTES: usize = 1 << 20;

/// The requirements of a request on its answer.
#[derive(Clone, Debug, Default)]
pub struct AnswerRequirements {
    pub(super) format: Format,
    /// The offered tools; `None` if the request offers none, or some have an unknown shape.
    pub(super) tools: Option<Vec<Tool>>,
    /// True if one of the tools must be called.
    pub(super) must_call: bool,
    /// True if the client limits the answer's length.
    pub(super) limited: bool,
}

/// The required format of the text.
#[derive(Clone, Debug, Default)]
pub(super) enum Format {
    #[default]
    Any,
    /// A JSON object.
    Object,
    /// A JSON document with this schema.
    Schema(Value),
}

/// A tool that may be called.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub(super) name: String,
    /// The schema of its arguments, if it has one.
    pub(super) parameters: Option<Value>,
}

#[derive(Deserialize)]
struct RawFormat {
    r#type: String,
    json_schema: Option<NamedSchema>,
}

#[derive(Deserialize)]
struct NamedSchema {
    schema: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    r#type: &'a str,
}

#[derive(Deserialize)]
struct RawTool {
    function: RawFunction,
}

#[derive(Deserialize)]
struct RawFunction {
    name: String,
    parameters: Option<Value>,
}

impl AnswerRequirements {
    /// Reads the requirements from a request. A member of an unknown shape, or one that is too long, is ignored.
    pub fn read(body: &RequestBody) -> Self {
        let member = |name: &str| body.member(name).filter(|raw| *raw != b"null" && raw.len() <= MAX_SCHEMA_BYTES);
        let format = member("response_format").and_then(|raw| serde_json::from_slice::<RawFormat>(raw).ok());
        let format = match format {
            Some(RawFormat { r#type, json_schema }) if r#type == "json_schema" => {
                json_schema.and_then(|named| named.schema).map_or(Format::Object, Format::Schema)
            }
            Some(RawFormat { r#type, .. }) if r#type == "json_object" => Format::Object,
            _ => Format::Any,
        };
        let tools = member("tools").and_then(|raw| serde_json::from_slice::<Vec<RawTool>>(raw).ok());
        let tools = tools.map(|tools| {
            let tool = |RawTool { function: RawFunction { name, parameters } }| Tool { name, parameters };
            tools.into_iter().map(tool).collect()
        });
        let must_call = member("tool_choice").is_some_and(|choice| {
            choice == br#""required""#
                || serde_json::from_slice::<Choice<'_>>(choice).is_ok_and(|it| it.r#type == "function")
        });
        Self { format, must_call: must_call && tools.is_some(), tools, limited: body.max_tokens.is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_types::Endpoint;

    fn wanted(more: &str) -> AnswerRequirements {
        let body = format!(r#"{{"model":"m","messages":[1]{more}}}"#);
        AnswerRequirements::read(&RequestBody::json(Endpoint::Chat, body.into()).unwrap())
    }

    #[test]
    fn forms_tools_and_limits_are_read() {
        assert!(matches!(wanted(r#","response_format":{"type":"json_object"}"#).format, Format::Object));
        let schema =
            r#","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"array"}}}"#;
        assert!(matches!(wanted(schema).format, Format::Schema(schema) if schema["type"] == "array"));
        let tools =
            r#","tools":[{"type":"function","function":{"name":"f","parameters":{}}},{"function":{"name":"g"}}]"#;
        let read = wanted(tools);
        let names: Vec<_> = read.tools.iter().flatten().map(|it| (&*it.name, it.parameters.is_some())).collect();
        assert_eq!((names, read.must_call), (vec![("f", true), ("g", false)], false));
        for must in [r#""required""#, r#"{"type":"function","function":{"name":"f"}}"#] {
            assert!(wanted(&format!("{tools},\"tool_choice\":{must}")).must_call);
        }
        assert!(wanted(r#","max_completion_tokens":5"#).limited);
    }

    #[test]
    fn unknown_shapes_are_ignored() {
        for odd in [
            "",
            r#","response_format":{"type":"text"}"#,
            r#","response_format":"json""#,
            r#","response_format":null,"tools":null,"tool_choice":"auto""#,
            r#","tools":[{"type":"web_search"}],"tool_choice":"required""#,
            r#","tool_choice":{"type":"allowed_tools"}"#,
        ] {
            let AnswerRequirements { format, tools, must_call, limited } = wanted(odd);
            assert!(matches!(format, Format::Any) && tools.is_none() && !must_call && !limited, "{odd}");
        }
    }
}
