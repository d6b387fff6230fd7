//! Errors of a simulated engine, in the shape of OpenAI's.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use serde_json::json;

use super::job::Refusal;

/// Reasons for which a request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    /// The body cannot be parsed.
    #[error("The body of this request is not what the endpoint takes: {0}.")]
    Body(#[from] serde_json::Error),
    /// A field or a header has an invalid value.
    #[error("{message}")]
    Field { param: &'static str, message: String },
    /// The engine serves another model.
    #[error("The model `{asked}` does not exist. This simulated engine serves `{served}`.")]
    Model { asked: String, served: String },
    /// Prompt and answer exceed the context.
    #[error(
        "This model's maximum context length is {limit} tokens. However, your request takes {tokens} tokens: {prompt} of \
         the prompt and {answer} of the answer. Please shorten one of them."
    )]
    Context { limit: u64, tokens: u64, prompt: u64, answer: u64, param: &'static str },
    /// Unknown path.
    #[error("There is no such endpoint on a simulated engine.")]
    Path,
    /// The engine was stopped in the middle of the answer.
    #[error("The simulated engine was stopped.")]
    Stopped,
}

impl Problem {
    /// A field with an invalid value.
    pub(super) fn field(param: &'static str, message: impl Into<String>) -> Self {
        Self::Field { param, message: message.into() }
    }

    /// Refusal of the job that `param` asked for.
    pub(super) fn refused(refusal: Refusal, param: &'static str) -> Self {
        let Refusal::TooLong { tokens, limit } = refusal;
        Self::Context { limit, tokens, prompt: tokens, answer: 0, param }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Body(_) | Self::Field { .. } | Self::Context { .. } => StatusCode::BAD_REQUEST,
            Self::Model { .. } | Self::Path => StatusCode::NOT_FOUND,
            Self::Stopped => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (param, code) = match &self {
            Self::Field { param, .. } => (Some(*param), None),
            Self::Model { .. } => (Some("model"), Some("model_not_found")),
            Self::Context { param, .. } => (Some(*param), Some("context_length_exceeded")),
            Self::Body(_) | Self::Path | Self::Stopped => (None, None),
        };
        let class = if matches!(self, Self::Stopped) { "server_error" } else { "invalid_request_error" };
        let error = json!({"message": self.to_string(), "type": class, "param": param, "code": code});
        (self.status(), Json(json!({ "error": error }))).into_response()
    }
}
