//! The error of a request that could not be answered: who is to blame and whether a retry may help, decided where the
//! error is raised.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;

/// Kind: the route's own deadline for the whole answer expired. No engine is to blame.
pub const DEADLINE: &str = "deadline";
/// Kind: the connection failed before anything was sent.
pub const UNREACHABLE: &str = "upstream_unreachable";
/// Kind: the connection was lost after the request was sent and before an answer began. The request may have crashed
/// the engine.
pub const LOST: &str = "connection_lost";
/// Kind: the answer began and then stalled.
pub const STALLED: &str = "stream_stalled";
/// Kind: the engine does not implement the endpoint, as far as its answer shows.
pub const MISSING: &str = "endpoint_missing";
/// Kind: the engine refused what it, or its model, lacks: an object, an endpoint, a kind of input, a parameter. Another one
/// may serve the request.
pub const UNSUPPORTED: &str = "request_unsupported";
/// Kind: the backend's API cannot express the request, so that nothing was sent. Another one may serve it.
pub const INEXPRESSIBLE: &str = "request_inexpressible";
/// Kind: the account does not have an object of which it is not known where it is. Another one may have it.
pub const ABSENT: &str = "object_absent";
/// Kind: the provider rejected the operator's key.
pub const DENIED: &str = "upstream_auth";
/// Kind: the operator's account, credits or choice of a model is at fault, at a provider that accepts the key itself.
pub const ACCOUNT: &str = "upstream_account";
/// Kind: the engine has no room for the request now.
pub const FULL: &str = "upstream_full";
/// Kind: the provider limits the rate of the account.
pub const LIMITED: &str = "upstream_rate_limited";
/// Kind: the engine or its model is not ready at present.
pub const NOT_READY: &str = "upstream_not_ready";
/// Kind: the engine does not have the model that the policy names.
pub const MODEL_MISSING: &str = "model_missing";
/// Kind: the request ended because the gateway stopped.
pub const STOPPED: &str = "stopped";
/// Kind: a defect in the gateway ended the request.
pub const INTERNAL: &str = "internal";

/// The party that caused a fault.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The caller sent an invalid or impossible request.
    Client,
    /// A backend failed.
    Upstream,
    /// The gateway itself failed or refused.
    Gateway,
}

/// The kind of retry that may help.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same request fails everywhere.
    Never,
    /// Another backend may answer, or the same one later.
    OtherBackend,
    /// A pool with a longer context may answer.
    LongerContext,
}

/// An upstream answer that is passed on unchanged.
#[derive(Clone, Debug)]
pub struct Unmasked {
    /// Its headers, without hop-by-hop ones.
    pub headers: http::HeaderMap,
    /// Its body, byte for byte.
    pub body: Bytes,
}

/// The reason why a request could not be answered, in the terms of the OpenAI error object.
#[derive(Clone, Debug)]
pub struct Fault {
    /// HTTP status.
    pub status: http::StatusCode,
    /// A low-cardinality word for metrics and the journal.
    pub kind: &'static str,
    /// `error.type`
    pub class: &'static str,
    /// `error.code`
    pub code: Option<&'static str>,
    /// `error.param`: the field that is wrong.
    pub param: Option<Cow<'static, str>>,
    /// A description of the problem and its remedy.
    pub message: Cow<'static, str>,
    /// The party that caused the fault.
    pub blame: Blame,
    /// The kind of retry that may help.
    pub retry: Retry,
    /// The `Retry-After` to send to the client.
    pub retry_after: Option<Duration>,
    /// The upstream's own answer, if the caller should receive it unchanged.
    pub unmasked: Option<Box<Unmasked>>,
}

impl Fault {
    /// A fault of the caller. The message should name the wrong field and the remedy.
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

    /// A fault of a backend; another one may succeed.
    pub fn upstream(status: http::StatusCode, kind: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            class: "upstream_error",
            code: Some(kind),
            blame: Blame::Upstream,
            retry: Retry::OtherBackend,
            ..Self::client(status, kind, message)
        }
    }

    /// A rejection by the gateway itself.
    pub fn gateway(status: http::StatusCode, kind: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { class: "gateway_error", code: Some(kind), blame: Blame::Gateway, ..Self::client(status, kind, message) }
    }

    /// A rejection because the gateway has no room; the request may be sent again after a second.
    pub fn overloaded(message: impl Into<Cow<'static, str>>) -> Self {
        let retry_after = Some(Duration::from_secs(1));
        Self { retry_after, ..Self::gateway(http::StatusCode::SERVICE_UNAVAILABLE, "overloaded", message) }
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
