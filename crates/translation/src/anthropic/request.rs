//! Reads the body of a chat completions request in one pass, values that are copied as raw JSON.

use std::{borrow::Cow, fmt};

use crate::{
    Unsupported,
    json::{self, Str},
    unsupported,
};
use serde::{
    Deserialize, Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// A chat completions request. `null` counts as absent.
#[derive(Default)]
pub(super) struct Request<'a> {
    pub(super) model: Option<&'a RawValue>,
    pub(super) messages: Option<Vec<Message<'a>>>,
    pub(super) tools: Option<Vec<Tool<'a>>>,
    pub(super) tool_choice: Option<&'a RawValue>,
    pub(super) parallel_tool_calls: Option<&'a RawValue>,
    pub(super) max_tokens: Option<&'a RawValue>,
    pub(super) max_completion_tokens: Option<&'a RawValue>,
    pub(super) stop: Option<&'a RawValue>,
    pub(super) temperature: Option<&'a RawValue>,
    pub(super) top_p: Option<&'a RawValue>,
    pub(super) top_k: Option<&'a RawValue>,
    pub(super) response_format: Option<&'a RawValue>,
    pub(super) reasoning_effort: Option<&'a RawValue>,
    pub(super) reasoning: Option<&'a RawValue>,
    pub(super) thinking: Option<&'a RawValue>,
    pub(super) output_config: Option<&'a RawValue>,
    pub(super) user: Option<&'a RawValue>,
    pub(super) safety_identifier: Option<&'a RawValue>,
    pub(super) metadata: Option<&'a RawValue>,
    pub(super) service_tier: Option<&'a RawValue>,
    /// All other members, by their name and quoted name.
    pub(super) others: Vec<(Cow<'a, str>, &'a RawValue, &'a RawValue)>,
}

/// A message. Members of every role are optional, and judged where the role is known.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) role: Str<'a>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(borrow)]
    pub(super) tool_call_id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) thinking_blocks: Option<Vec<Thinking<'a>>>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) audio: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) is_error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cache_control: Option<&'a RawValue>,
}

/// A call that the assistant made.
#[derive(Deserialize)]
pub(super) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) r#type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<CalledFunction<'a>>,
    #[serde(borrow)]
    pub(super) cache_control: Option<&'a RawValue>,
}

/// The function of a call.
#[derive(Deserialize)]
pub(super) struct CalledFunction<'a> {
    #[serde(borrow)]
    pub(super) name: &'a RawValue,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

/// A thinking block of an earlier answer, or a piece of one.
#[derive(Deserialize)]
pub(super) struct Thinking<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Str<'a>>,
    #[serde(borrow, rename = "thinking")]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) data: Option<&'a RawValue>,
}

/// A tool definition.
#[derive(Deserialize)]
pub(super) struct Tool<'a> {
    #[serde(borrow)]
    pub(super) r#type: Option<Str<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
    #[serde(borrow)]
    pub(super) cache_control: Option<&'a RawValue>,
}

/// The function of a tool definition.
#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: &'a RawValue,
    #[serde(borrow)]
    pub(super) description: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) strict: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) cache_control: Option<&'a RawValue>,
}

impl<'a> Request<'a> {
    /// Reads a body.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Unsupported> {
        let mut request = Self::default();
        let mut at = Cow::Borrowed("");
        let mut reader = serde_json::Deserializer::from_slice(body);
        let read = reader.deserialize_map(Members { request: &mut request, at: &mut at });
        match read.and_then(|()| reader.end()) {
            Ok(()) => Ok(request),
            Err(error) => Err(unsupported(at, format!("the request is not valid: {error}"))),
        }
    }

    /// The decoded name of the model.
    pub(super) fn model_name(&self) -> Result<Cow<'a, str>, Unsupported> {
        self.model.and_then(json::text).ok_or_else(|| unsupported("model", "`model` must be a string"))
    }

    /// The member that keeps a value as raw JSON.
    fn slot(&mut self, name: &str) -> Option<&mut Option<&'a RawValue>> {
        Some(match name {
            "model" => &mut self.model,
            "tool_choice" => &mut self.tool_choice,
            "parallel_tool_calls" => &mut self.parallel_tool_calls,
            "max_tokens" => &mut self.max_tokens,
            "max_completion_tokens" => &mut self.max_completion_tokens,
            "stop" => &mut self.stop,
            "temperature" => &mut self.temperature,
            "top_p" => &mut self.top_p,
            "top_k" => &mut self.top_k,
            "response_format" => &mut self.response_format,
            "reasoning_effort" => &mut self.reasoning_effort,
            "reasoning" => &mut self.reasoning,
            "thinking" => &mut self.thinking,
            "output_config" => &mut self.output_config,
            "user" => &mut self.user,
            "safety_identifier" => &mut self.safety_identifier,
            "metadata" => &mut self.metadata,
            "service_tier" => &mut self.service_tier,
            _ => return None,
        })
    }
}

struct Members<'r, 'a> {
    request: &'r mut Request<'a>,
    /// The member that is being read, for the error message.
    at: &'r mut Cow<'a, str>,
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            let name = json::text(key).ok_or_else(|| serde::de::Error::custom("a name is not a valid string"))?;
            self.at.clone_from(&name);
            match &*name {
                "messages" => self.request.messages = map.next_value()?,
                "tools" => self.request.tools = map.next_value()?,
                name => {
                    let value: &'de RawValue = map.next_value()?;
                    let value = (value.get() != "null").then_some(value);
                    if let Some(slot) = self.request.slot(name) {
                        *slot = value;
                    } else if let Some(value) = value {
                        let name = self.at.clone();
                        self.request.others.push((name, key, value));
                    }
                }
            }
        }
        *self.at = Cow::Borrowed("");
        Ok(())
    }
}
