//! Backends that speak another API than the internal one: requests are translated on the way there, answers on the way
//! back, so that all steps see chat completions.

use bytes::Bytes;
use http::StatusCode;

use super::upstream_fault::garbage;
use crate::{
    policy::{Dialect, Engine, Secret},
    translation::{
        AnswerTranslator, Translated,
        anthropic::{self, Defaults},
    },
    types::{Endpoint, Fault, wall_clock},
};

/// Limit on an answer, in tokens, if the request has none: the API requires one. Every current model allows this many.
const MAX_TOKENS: u64 = 8192;

/// The API of a backend whose answers are translated.
#[derive(Copy, Clone)]
pub(super) enum UpstreamApi {
    /// Anthropic Messages.
    Messages,
}

/// The API to translate to, if an engine does not speak the one of the request.
pub(super) fn of(engine: &Engine, endpoint: Endpoint) -> Option<UpstreamApi> {
    (engine.dialect == Dialect::Anthropic && endpoint == Endpoint::Chat).then_some(UpstreamApi::Messages)
}

impl UpstreamApi {
    /// Path of the API.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
        }
    }

    /// Converts the body of a request.
    ///
    /// # Errors
    /// A fault of the caller, if the API cannot express a part of it.
    pub(super) fn request(self, body: &[u8]) -> Result<Bytes, Fault> {
        let Self::Messages = self;
        let translated = anthropic::from_chat(body, &Defaults { max_tokens: MAX_TOKENS });
        translated.map(|Translated { body, .. }| body.into()).map_err(|unsupported| {
            let message = format!("{} (the request is translated for this backend)", unsupported.message);
            Fault::field(unsupported.param, message).with_code("unsupported_parameter")
        })
    }

    /// Creates the translator of one answer. `include_usage`: the caller asked for usage at the end of a stream.
    pub(super) fn answer(self, include_usage: bool) -> Box<dyn AnswerTranslator> {
        match self {
            Self::Messages => Box::new(anthropic::Answer::new(wall_clock::seconds().unsigned_abs(), include_usage)),
        }
    }

    /// Converts a whole answer.
    ///
    /// # Errors
    /// A fault of the backend, if it is no answer of the API.
    pub(super) fn whole(self, body: &Bytes, keys: &[Secret]) -> Result<Bytes, Fault> {
        self.answer(false).whole(body).map(Bytes::from).map_err(|_| garbage(body, keys))
    }

    /// Converts the body of an error.
    pub(super) fn error(self, status: StatusCode, body: &[u8]) -> Bytes {
        match self {
            Self::Messages => anthropic::error(status.as_u16(), body).into(),
        }
    }
}
