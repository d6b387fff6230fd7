//! Renders a [`Fault`] as the error object of each API.

use bytes::Bytes;
use serde::Serialize;

use signalbox_types::{Endpoint, Fault};

#[derive(Serialize)]
struct OpenAi<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    message: &'a str,
    r#type: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

#[derive(Serialize)]
struct Anthropic<'a> {
    r#type: &'a str,
    error: AnthropicInner<'a>,
}

#[derive(Serialize)]
struct AnthropicInner<'a> {
    r#type: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details<'a>>,
}

/// By these, Anthropic's SDKs see that they must do without a feature.
#[derive(Serialize)]
struct Details<'a> {
    error_code: &'a str,
    unsupported: [&'a str; 1],
}

/// Code of a fault about Anthropic's threads, which the API's SDKs try first.
const NO_THREADS: &str = "thread_unsupported_request";

/// The body of an error response.
pub fn body(endpoint: Option<Endpoint>, fault: &Fault) -> Bytes {
    let rendered = if endpoint == Some(Endpoint::Messages) {
        let kind = match fault.status.as_u16() {
            400 | 413 | 422 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            503 | 529 => "overloaded_error",
            _ => "api_error",
        };
        serde_json::to_vec(&Anthropic {
            r#type: "error",
            error: AnthropicInner {
                r#type: kind,
                message: &fault.message,
                details: fault
                    .code
                    .filter(|code| *code == NO_THREADS)
                    .map(|error_code| Details { error_code, unsupported: ["thread"] }),
            },
        })
    } else {
        serde_json::to_vec(&OpenAi {
            error: Inner {
                message: &fault.message,
                r#type: fault.class,
                param: fault.param.as_deref(),
                code: fault.code,
            },
        })
    };
    // Serialising strings into memory cannot fail; an empty object is still valid JSON.
    rendered.unwrap_or_else(|_| b"{}".to_vec()).into()
}

/// An error event of the Responses API. Libraries differ in where they read it: beside the type, or in `error`. It has no
/// place in the numbers of the upstream's events.
fn of_responses(fault: &Fault) -> Bytes {
    #[derive(Serialize)]
    struct Event<'a> {
        r#type: &'a str,
        sequence_number: u64,
        code: &'a str,
        message: &'a str,
        param: Option<&'a str>,
        error: Inner<'a>,
    }
    let (message, param) = (&*fault.message, fault.param.as_deref());
    let error = Inner { message, r#type: fault.class, param, code: fault.code };
    let code = fault.code.unwrap_or(fault.kind);
    let event = Event { r#type: "error", sequence_number: 0, code, message, param, error };
    serde_json::to_vec(&event).unwrap_or_else(|_| b"{}".to_vec()).into()
}

/// The event that reports an error within a stream whose head was already sent.
pub fn event(endpoint: Endpoint, fault: &Fault) -> Bytes {
    let body = if endpoint == Endpoint::Responses { of_responses(fault) } else { body(Some(endpoint), fault) };
    let name: &[u8] = match endpoint {
        Endpoint::Messages | Endpoint::Responses => b"event: error\n",
        _ => b"",
    };
    [name, b"data: ", &body, b"\n\n"].concat().into()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn each_api_gets_its_own_shape() {
        let fault = Fault::field("model", "no such \"model\"").with_code("model_not_found");
        assert_eq!(
            body(Some(Endpoint::Chat), &fault),
            r#"{"error":{"message":"no such \"model\"","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#
        );
        assert_eq!(
            body(Some(Endpoint::Messages), &Fault { status: StatusCode::NOT_FOUND, ..fault }),
            r#"{"type":"error","error":{"type":"not_found_error","message":"no such \"model\""}}"#
        );
        assert_eq!(
            body(Some(Endpoint::Messages), &Fault::field("thread", "no threads").with_code(NO_THREADS)),
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"no threads","details":{"error_code":"thread_unsupported_request","unsupported":["thread"]}}}"#
        );
    }
}
