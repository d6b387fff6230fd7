//! The name of the model in an answer, which may have to be the one that was asked for.
//!
//! Claude Code sends thinking back only if the answer names the model that it asked for; others count usage by that name.

use serde::Deserialize;
use serde_json::value::RawValue;

use signalbox_types::Endpoint;

/// The members that name the model, at the top or in the object that an event carries.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

/// An answer of `endpoint`, whole or the data of an event, that names the model `asked`. `None` if it names none, or that
/// one already. All other bytes stay as they are.
pub fn with_model(endpoint: Endpoint, json: &[u8], asked: &str) -> Option<Vec<u8>> {
    memchr::memmem::find(json, b"\"model\"")?;
    let top: Named<'_> = serde_json::from_slice(json).ok()?;
    let inner = match endpoint {
        Endpoint::Messages => top.message,
        Endpoint::Responses => top.response,
        _ => None,
    };
    let inner: Option<Named<'_>> = inner.and_then(|inner| serde_json::from_str(inner.get()).ok());
    let named = inner.and_then(|inner| inner.model).or(top.model).filter(|named| named.get().starts_with('"'))?;
    let wanted = serde_json::to_string(asked).ok()?;
    if named.get() == wanted {
        return None;
    }
    let start = named.get().as_ptr().addr() - json.as_ptr().addr();
    Some([&json[..start], wanted.as_bytes(), &json[start + named.get().len()..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_replaced_where_the_api_has_it_and_nothing_else() {
        let named = |endpoint, json: &str| {
            with_model(endpoint, json.as_bytes(), "a\"b").map(|json| String::from_utf8(json).unwrap())
        };
        for (endpoint, json, want) in [
            (Endpoint::Chat, r#"{"model" : "m","x":{"model":"m"}}"#, Some(r#"{"model" : "a\"b","x":{"model":"m"}}"#)),
            (
                Endpoint::Messages,
                r#"{"type":"message_start","message":{"x":1e400,"model":"m"}}"#,
                Some(r#"{"type":"message_start","message":{"x":1e400,"model":"a\"b"}}"#),
            ),
            (Endpoint::Messages, r#"{"type":"message","model":"m"}"#, Some(r#"{"type":"message","model":"a\"b"}"#)),
            (
                Endpoint::Responses,
                r#"{"type":"response.created","response":{"model":"m"}}"#,
                Some(r#"{"type":"response.created","response":{"model":"a\"b"}}"#),
            ),
            (Endpoint::Messages, r#"{"type":"content_block_delta","delta":{"text":"\"model\""}}"#, None),
            (Endpoint::Chat, r#"{"model":"a\"b"}"#, None),
            (Endpoint::Chat, r#"{"model":null}"#, None),
            (Endpoint::Chat, "[\"model\"]", None),
        ] {
            assert_eq!(named(endpoint, json).as_deref(), want, "{json}");
        }
    }
}
