use serde_json::{Value, json};

use super::super::error;

fn found(status: u16, body: &str) -> (String, String) {
    let body: Value = serde_json::from_slice(&error(status, body.as_bytes())).unwrap();
    assert_eq!(body["type"], "error");
    let text = |name: &str| body["error"][name].as_str().unwrap().to_owned();
    (text("type"), text("message"))
}

#[test]
fn errors_of_every_shape_are_read() {
    for (status, body, kind, message) in [
        (
            400,
            r#"{"error":{"message":"bad \"x\"","type":"invalid_request_error","param":null,"code":null}}"#,
            "invalid_request_error",
            "bad \"x\"",
        ),
        (
            400,
            r#"{"object":"error","message":"m","type":"BadRequestError","param":null,"code":400}"#,
            "invalid_request_error",
            "m",
        ),
        (
            422,
            r#"{"detail":[{"loc":["body","x"],"msg":"field required","type":"missing"}]}"#,
            "invalid_request_error",
            "field required",
        ),
        (
            404,
            r#"{"error":{"message":"no model","type":"invalid_request_error","code":"model_not_found"}}"#,
            "not_found_error",
            "no model",
        ),
        (404, r#"{"detail":"Not Found"}"#, "not_found_error", "Not Found"),
        (429, r#"{"error":"slow down"}"#, "rate_limit_error", "slow down"),
        (500, r#"[{"error":{"code":500,"message":"m","status":"INTERNAL"}}]"#, "api_error", "m"),
        (401, r#"{"type":"error","error":{"type":"permission_error","message":"m"}}"#, "permission_error", "m"),
        (502, "<html>Bad Gateway</html>", "api_error", "<html>Bad Gateway</html>"),
        (503, "", "overloaded_error", "the backend answered with status 503 and no message"),
        (504, "{}", "timeout_error", "{}"),
        (413, "too big", "request_too_large", "too big"),
    ] {
        assert_eq!(found(status, body), (kind.to_owned(), message.to_owned()), "{body}");
    }
    found(500, &"[".repeat(500));
}

#[test]
fn a_full_context_is_worded_as_claude_code_expects() {
    for (message, want) in [
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens. Please reduce the length of the messages.",
            "prompt is too long: 10000 tokens > 8192 maximum",
        ),
        (
            "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens (8000 in the messages, 32000 in the completion).",
            "input length and `max_tokens` exceed context limit: 8000 + 32000 > 32768",
        ),
        (
            "This model's maximum context length is 32768 tokens. However, you requested 72000 tokens (40000 in the messages, 32000 in the completion).",
            "prompt is too long: 40000 tokens > 32768 maximum",
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 40960 tokens and your request has 20000 input tokens (32000 > 40960 - 20000).",
            "input length and `max_tokens` exceed context limit: 20000 + 32000 > 40960",
        ),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 100 output tokens and your prompt contains at least 3997 input tokens, for a total of at least 4097 tokens.",
            "input length and `max_tokens` exceed context limit: 3997 + 100 > 4096",
        ),
        (
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 4500 tokens from the input messages and 500 tokens for the completion.",
            "prompt is too long: 4500 tokens > 4096 maximum",
        ),
        (
            "request (54499 tokens) exceeds the available context size (32768 tokens), try increasing it",
            "prompt is too long: 54499 tokens > 32768 maximum",
        ),
        ("Input exceeds the context window of this model.", "prompt is too long (Input exceeds"),
    ] {
        let body = json!({"error": {"message": message, "type": "x", "code": 400}}).to_string();
        let (kind, got) = found(400, &body);
        assert_eq!(kind, "invalid_request_error");
        assert!(got.starts_with(want), "{got}");
        assert!(got.contains(message), "the engine's words are kept");
    }
    let body = json!({"error": {"code": 400, "message": "the request exceeds", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}}).to_string();
    assert_eq!(found(400, &body).1, "prompt is too long: 9 tokens > 8 maximum (the request exceeds)");
    assert_eq!(
        found(400, r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#).1,
        "prompt is too long: 9 tokens > 8 maximum"
    );
}
