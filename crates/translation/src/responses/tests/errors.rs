//! Errors as answers and within streams.

use serde_json::{Value, json};

use super::{Answer, check_order, echo, events, names, samples, stream};
use crate::{AnswerTranslator as _, responses::error};

#[test]
fn usual_errors_are_kept_and_others_are_rewritten() {
    let usual = br#"{"error": {"message":"no", "type":"x","param":null,"code":"context_length_exceeded"}}"#;
    assert_eq!(error(400, usual), usual);
    let rewritten = |status: u16, body: &str| {
        serde_json::from_slice::<Value>(&error(status, body.as_bytes())).unwrap()["error"].clone()
    };
    for (status, body, message, kind) in [
        (
            404,
            r#"{"object":"error","message":"no model","type":"NotFoundError","code":404}"#,
            "no model",
            "NotFoundError",
        ),
        (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, "field required", "invalid_request_error"),
        (401, r#"{"detail":"bad key"}"#, "bad key", "authentication_error"),
        (429, r#"{"error":"slow down"}"#, "slow down", "rate_limit_error"),
        (500, r#"[{"error":{"message":"boom","code":500,"status":"INTERNAL"}}]"#, "boom", "server_error"),
        (502, "<html>Bad Gateway</html>", "<html>Bad Gateway</html>", "server_error"),
        (503, "", "the upstream answered with status 503", "server_error"),
    ] {
        let found = rewritten(status, body);
        assert_eq!((found["message"].as_str(), found["type"].as_str()), (Some(message), Some(kind)), "{body}");
        assert!(found["code"].is_null(), "{found}");
    }
}

#[test]
fn an_error_in_a_stream_fails_the_response() {
    let events = stream(
        &samples::small(),
        &[
            samples::delta(&json!({"content": "par"})),
            json!({"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}),
            samples::delta(&json!({"content": "tial"})),
            samples::done(),
        ],
    );
    check_order(&events);
    let (name, data) = events.last().unwrap();
    assert_eq!(name, "response.failed");
    assert_eq!(data["response"]["status"], "failed");
    assert_eq!(data["response"]["error"], json!({"code": "context_length_exceeded", "message": "too long"}));
    for (error, code) in [
        (json!({"message": "m", "code": 429}), "rate_limit_exceeded"),
        (json!({"message": "m", "code": 400}), "invalid_prompt"),
        (json!({"message": "m", "type": "overloaded_error"}), "server_is_overloaded"),
        (json!("text"), "server_error"),
    ] {
        let events = stream(&samples::small(), &[json!({ "error": error })]);
        assert_eq!(names(&events), ["created", "in_progress", "failed"]);
        assert_eq!(events[2].1["response"]["error"]["code"], code);
    }
}

#[test]
fn a_cut_stream_has_no_end() {
    let mut answer = Answer::new(echo(&samples::small()), "resp_7", || 0);
    let mut out = Vec::new();
    answer.event(samples::delta(&json!({"content": "a"})).to_string().as_bytes(), &mut out).unwrap();
    answer.end(&mut out);
    assert!(answer.event(b"{", &mut out).is_err());
    answer.event(br#"{"error":{"message":"cut"}}"#, &mut out).unwrap();
    let events = events(&out);
    check_order(&events);
    assert_eq!(names(&events).last(), Some(&"failed"));
}

#[test]
fn answers_that_are_no_answers_are_malformed() {
    for body in [
        r#"{"error":{"message":"x"}}"#,
        r#"{"choices":[]}"#,
        "{}",
        "<html>",
        r#"{"choices":[{"message":{"content":7}}]}"#,
    ] {
        assert!(Answer::new(echo(&samples::small()), "resp_7", || 0).whole(body.as_bytes()).is_err(), "{body}");
    }
}
