//! The APIs of callers that are translated, by endpoint.

use std::sync::Arc;

use super::{
    AnswerTranslator, ProviderStates, Translated, Unsupported,
    messages::{self, ThinkingDisplay},
    provider_state,
    responses::{self, HeldState},
};
use signalbox_types::Endpoint;

/// An API of callers that is translated to the internal one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CallerApi {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
}

/// Facts about an answer that are not in the request.
#[derive(Clone)]
pub struct AnswerContext {
    /// Expected tokens of the prompt, which some APIs report at the start of a stream.
    pub prompt_tokens: u64,
    /// Display of the model's thinking to a caller of Messages.
    pub thinking: ThinkingDisplay,
    /// State that providers want back with calls that this caller sends back.
    pub states: Arc<dyn ProviderStates>,
    /// The model that was asked for, which the answer names: agents take back their thinking only from that one.
    pub model: Option<String>,
    /// A new id.
    pub id: String,
    /// State of a Responses request that the gateway holds; `None` if it holds none.
    pub held: Option<Arc<HeldState>>,
    /// Gives Unix time in seconds: the time is needed at the beginning and at the end.
    pub now: fn() -> u64,
}

/// A caller's request in the internal API.
pub struct ChatRequest {
    /// The request as JSON.
    pub body: Vec<u8>,
    /// Hints that were dropped, by name.
    pub dropped: Vec<String>,
    /// True if it has signed thinking, which only an upstream of Anthropic's API takes.
    pub signed: bool,
    /// True if it carries what a provider wants back, which only that provider takes.
    pub carries_state: bool,
    /// Translates its answer back.
    pub answer: Box<dyn AnswerTranslator>,
}

impl CallerApi {
    /// The API of an endpoint, if it is one of them.
    pub const fn of(endpoint: Endpoint) -> Option<Self> {
        match endpoint {
            Endpoint::Messages => Some(Self::Messages),
            Endpoint::Responses => Some(Self::Responses),
            _ => None,
        }
    }

    /// The endpoint of its API.
    pub const fn endpoint(self) -> Endpoint {
        match self {
            Self::Messages => Endpoint::Messages,
            Self::Responses => Endpoint::Responses,
        }
    }

    /// Converts a request. `context` has what only the gateway knows of the answer.
    ///
    /// # Errors
    /// [`Unsupported`] if chat completions cannot express a part of it.
    pub fn to_chat(self, body: &[u8], context: &AnswerContext) -> Result<ChatRequest, Unsupported> {
        match self {
            Self::Messages => {
                let Translated { body, dropped } = messages::to_chat(body, &*context.states)?;
                let answer = messages::Answer::new(context.prompt_tokens).keeping(context.states.clone());
                let answer = answer.named(context.model.as_deref());
                Ok(ChatRequest {
                    carries_state: provider_state::is_carried(&body),
                    body,
                    dropped,
                    signed: false,
                    answer: Box::new(answer.displaying(context.thinking)),
                })
            }
            Self::Responses => {
                let (Translated { body, dropped }, echo) =
                    responses::to_chat_held(body, context.held.as_deref(), &*context.states)?;
                let answer = responses::Answer::new(echo, &*context.id, context.now).keeping(context.states.clone());
                Ok(ChatRequest {
                    signed: responses::has_signed_thinking(&body),
                    carries_state: provider_state::is_carried(&body),
                    body,
                    dropped,
                    answer: Box::new(answer),
                })
            }
        }
    }

    /// The body of an answer to a request for the number of a prompt's tokens.
    pub fn token_count(self, tokens: u64) -> Vec<u8> {
        match self {
            Self::Messages => format!(r#"{{"input_tokens":{tokens}}}"#),
            Self::Responses => format!(r#"{{"object":"response.input_tokens","input_tokens":{tokens}}}"#),
        }
        .into_bytes()
    }

    /// Converts the body of an upstream's error.
    pub fn error(self, status: u16, body: &[u8]) -> Vec<u8> {
        match self {
            Self::Messages => messages::error(status, body),
            Self::Responses => responses::error(status, body),
        }
    }
}
