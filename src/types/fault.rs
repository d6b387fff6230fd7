//! Why a request could not be answered: whose fault it is, and whether another try may help, decided where it is raised.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;

/// The kind of a fault that the route's own limit on the whole answer caused: no engine is to blame.
pub const DEADLINE: &str = "deadline";
/// The kind of a fault that came before anything was sent.
pub const UNREACHABLE: &str = "upstream_unreachable";
/// The kind of a fault that came after the request had left and before an answer began: the request may be what brought the engine down.
pub const LOST: &str = "connection_lost";
/// The kind of the fault of an answer that has begun and fell silent.
pub const STALLED: &str = "stream_stalled";
/// The kind of a fault that an engine gives because it does not implement the endpoint.
pub const MISSING: &str = "endpoint_missing";
/// The kind of a fault that a provider gives because it refuses the operator's key.
pub const DENIED: &str = "upstream_auth";
/// The kind of a fault that an engine gives because it does not have the model that the policy names.
pub const MODEL_MISSING: &str = "model_missing";
/// The kind of what ended because the gateway did.
pub const STOPPED: &str = "stopped";
/// The kind of what a defect of the gateway ended.
pub const INTERNAL: &str = "internal";

/// Whose fault it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The caller asked for something that cannot be had.
    Client,
    /// A backend failed.
    Upstream,
    /// The gateway itself failed or refused.
    Gateway,
}

/// Whether another try may help.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request fails everywhere.
    Never,
    /// Another backend may answer, or the same one later.
    OtherBackend,
    /// A pool with a longer context may answer.
    LongerContext,
}

/// An answer from upstream that is passed on as it came.
#[derive(Clone, Debug)]
pub struct Unmasked {
    /// Its headers, hop-by-hop ones removed.
    pub headers: http::HeaderMap,
    /// Its body, byte for byte.
    pub body: Bytes,
}

/// Why a request could not be answered, in the terms of the OpenAI error object.
#[derive(Clone, Debug)]
pub struct Fault {
    /// HTTP status.
    pub status: http::StatusCode,
    /// A word of low cardinality for metrics and the journal.
    pub kind: &'static str,
    /// `error.type`
    pub class: &'static str,
    /// `error.code`
    pub code: Option<&'static str>,
    /// `error.param`: the field that is wrong.
    pub param: Option<Cow<'static, str>>,
    /// What is wrong and how to mend it.
    pub message: Cow<'static, str>,
    /// Whose fault it is.
    pub blame: Blame,
    /// Whether another try may help.
    pub retry: Retry,
    /// What to tell the client about when to come back.
    pub retry_after: Option<Duration>,
    /// The upstream's own answer, where the caller should see it unmasked.
    pub unmasked: Option<Box<Unmasked>>,
}

impl Fault {
    /// A fault of the caller's: the message says which field is wrong and how to mend it.
    pub fn client(status: http::StatusCode, kind: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            status,
            kind,
            class: "invalid_request_error",
            code: None,
            param: None,
            message: message.into(),
            blame: Blame::Client,
            retry: Retry::Never,
            retry_after: None,
            unmasked: None,
        }
    }

    /// A 400 naming the field `param`.
    pub fn field(param: impl Into<Cow<'static, str>>, message: impl Into<Cow<'static, str>>) -> Self {
        Self { param: Some(param.into()), ..Self::client(http::StatusCode::BAD_REQUEST, "invalid_request", message) }
    }

    /// A fault of a backend's; another one may do better.
    pub fn upstream(status: http::StatusCode, kind: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            class: "upstream_error",
            code: Some(kind),
            blame: Blame::Upstream,
            retry: Retry::OtherBackend,
            ..Self::client(status, kind, message)
        }
    }

    /// A refusal of the gateway's own.
    pub fn gateway(status: http::StatusCode, kind: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { class: "gateway_error", code: Some(kind), blame: Blame::Gateway, ..Self::client(status, kind, message) }
    }

    /// With `error.code`.
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// With `error.type`.
    #[must_use]
    pub fn with_class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}
