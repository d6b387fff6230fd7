//! Backends that speak another API than the internal one: requests are translated on the way there, answers on the way
//! back, so that all steps see chat completions. Requests that pass natively keep their bytes, except that the thinking of
//! chat backends does not go to Anthropic, and that ids of calls become those that a provider accepts.

use bytes::Bytes;
use http::StatusCode;

use super::{call_ids, upstream_fault::garbage};
use signalbox_fleet::Learned;
use signalbox_policy::{Dialect, Engine, Secret};
use signalbox_protocol::LONG_BODY;
use signalbox_translation::{
    AnswerTranslator, Translated,
    anthropic::{self, Defaults},
    messages, responses,
};
use signalbox_types::{Endpoint, Fault, Retry, fault::INEXPRESSIBLE, wall_clock};

/// Limit on an answer, in tokens, if the request has none: the API requires one. Every current model allows this many.
const MAX_TOKENS: u64 = 8192;

/// A request's body for a backend, and the names of the hints that were dropped from it.
type Converted = (Bytes, Vec<String>);

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

/// The body of a request to an engine, in the API that it speaks, and the names of the hints that this API cannot express.
/// A long one is converted on a blocking thread, since it would hold up a worker. `signed_thinking`: the body has some, which
/// chat backends do not know.
///
/// # Errors
/// A fault of the caller, if the engine's API cannot express a part of it.
pub(super) async fn body(
    (engine, learned): (&Engine, &Learned),
    endpoint: Endpoint,
    body: Bytes,
    signed_thinking: bool,
) -> Result<Converted, Fault> {
    let conversion = match (&engine.dialect, endpoint) {
        (Dialect::Anthropic, Endpoint::Chat) => Conversion::Messages,
        (Dialect::Anthropic, Endpoint::Messages) => Conversion::WithoutOwnThinking,
        (_, Endpoint::Chat) => {
            let call_ids = Some(call_ids::Rule::of_backend(engine, learned)).filter(|rule| rule.concerns(&body));
            if call_ids.is_none() && !signed_thinking {
                return Ok((body, Vec::new()));
            }
            Conversion::Chat { signed_thinking, call_ids }
        }
        _ => return Ok((body, Vec::new())),
    };
    if body.len() <= LONG_BODY {
        return conversion.apply(body);
    }
    let failed = |_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "translating the body failed");
    tokio::task::spawn_blocking(move || conversion.apply(body)).await.map_err(failed)?
}

/// The conversion that a body needs for its backend.
enum Conversion {
    /// To Anthropic Messages.
    Messages,
    /// Messages without the thinking of chat backends.
    WithoutOwnThinking,
    /// Chat without what the backend rejects.
    Chat { signed_thinking: bool, call_ids: Option<call_ids::Rule> },
}

impl Conversion {
    fn apply(self, body: Bytes) -> Result<Converted, Fault> {
        let body = match self {
            Self::Messages => return UpstreamApi::Messages.request(&body),
            Self::WithoutOwnThinking => messages::without_own_thinking(&body).map_or(body, Bytes::from),
            Self::Chat { signed_thinking, call_ids } => {
                let plain = signed_thinking.then(|| responses::without_signed_thinking(&body)).flatten();
                let body = plain.map_or(body, Bytes::from);
                match call_ids {
                    Some(rule) => rule.apply(body),
                    None => body,
                }
            }
        };
        Ok((body, Vec::new()))
    }
}

impl UpstreamApi {
    /// Path of the API.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
        }
    }

    /// Endpoint of the API.
    pub(super) fn endpoint(self) -> Endpoint {
        match self {
            Self::Messages => Endpoint::Messages,
        }
    }

    /// Converts the body of a request. Returns the names of dropped hints with it.
    ///
    /// # Errors
    /// A fault of the caller, if the API cannot express a part of it.
    fn request(self, body: &[u8]) -> Result<Converted, Fault> {
        let Self::Messages = self;
        let translated = anthropic::from_chat(body, &Defaults { max_tokens: MAX_TOKENS });
        translated.map(|Translated { body, dropped }| (body.into(), dropped)).map_err(|unsupported| {
            let message = format!("{} (the request is translated for this backend)", unsupported.message);
            let fault = Fault::field(unsupported.param, message).with_code("unsupported_parameter");
            Fault { kind: INEXPRESSIBLE, retry: Retry::OtherBackend, ..fault }
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
