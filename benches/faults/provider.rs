//! The models of the scripted engines: a deterministic text per request, so that whole answers are distinguished from cut, doubled and
//! mixed ones.

use std::time::Duration;

use serde_json::{Value, json};

use crate::mock::{Plan, Seen};

/// A request, reduced to what the models depend on.
#[expect(clippy::struct_excessive_bools, reason = "they are members of the request")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Ask {
    pub(crate) model: String,
    /// The request's name, from its prompt.
    pub(crate) case: String,
    /// The length of the model's own answer.
    pub(crate) tokens: usize,
    pub(crate) stream: bool,
    /// True for `stream_options.include_usage`.
    usage: bool,
    most: Option<usize>,
    /// Text of a final assistant message.
    pub(crate) prefill: Option<String>,
    /// True with vLLM's two fields for continuing the last message.
    flagged: bool,
    /// True if a chat template would fail on a message.
    pub(crate) malformed: bool,
    pub(crate) path: String,
}

/// Treatment of a final assistant message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prefill {
    /// The model continues its text.
    Native,
    /// The model continues it if `continue_final_message` is set, as vLLM does, and otherwise starts a new turn.
    Flagged,
    /// The engine rejects the request.
    Rejected,
}

/// Speed of a model.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pace {
    pub(crate) first: Duration,
    pub(crate) gap: Duration,
}

impl Pace {
    pub(crate) const fn millis(first: u64, gap: u64) -> Self {
        Self { first: Duration::from_millis(first), gap: Duration::from_millis(gap) }
    }
}

/// The text of the user's message of a request.
pub(crate) fn prompt(case: &str, tokens: usize) -> String {
    format!("case={case} tokens={tokens} please")
}

/// One token of a model's answer. Lengths differ, so that the number of tokens does not follow from the bytes.
pub(crate) fn word(model: &str, case: &str, at: usize) -> String {
    format!("{model}/{case}/{at}{} ", &"aaaaaaaaaaaa"[..at * 7 % 12])
}

/// The tokens that a prompt has for a model.
pub(crate) fn prompt_tokens(model: &str) -> usize {
    5 + model.len()
}

impl Ask {
    pub(crate) fn of(seen: &Seen) -> Self {
        let body = seen.json();
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let mut texts = messages.iter().filter_map(|message| message["content"].as_str());
        let user = texts.find(|text| text.starts_with("case=")).unwrap_or_default();
        let named =
            |name: &str| user.split(' ').find_map(|part| part.strip_prefix(name)).unwrap_or_default().to_owned();
        let last = messages.last().filter(|last| last["role"] == "assistant");
        let most = body["max_tokens"].as_u64().or(body["max_completion_tokens"].as_u64());
        Self {
            model: seen.model().to_owned(),
            case: named("case="),
            tokens: named("tokens=").parse().unwrap_or(1),
            stream: body["stream"] == true,
            usage: body["stream_options"]["include_usage"] == true,
            most: most.map(|most| most as usize),
            prefill: last.map(|last| last["content"].as_str().unwrap_or_default().to_owned()),
            flagged: body["continue_final_message"] == true && body["add_generation_prompt"] == false,
            malformed: messages.iter().any(|message| message["role"].as_str().is_none()),
            path: seen.path.clone(),
        }
    }

    /// The remaining pieces of text, and the finish reason.
    fn pieces(&self, prefill: Prefill) -> (Vec<String>, &'static str) {
        let all: Vec<String> = (0..self.tokens).map(|at| word(&self.model, &self.case, at)).collect();
        let goes_on = prefill == Prefill::Native || self.flagged;
        let mut rest = match &self.prefill {
            Some(said) if goes_on => {
                let whole = all.concat();
                match whole.strip_prefix(said.as_str()) {
                    // Byte for byte, from within a token if need be.
                    Some(rest) => rest.split_inclusive(' ').map(str::to_owned).collect(),
                    // Another model's text: continue after as many tokens.
                    None => all.into_iter().skip(said.split_whitespace().count()).collect(),
                }
            }
            _ => all,
        };
        match self.most {
            Some(most) if most < rest.len() => {
                rest.truncate(most);
                (rest, "length")
            }
            _ => (rest, "stop"),
        }
    }

    /// The events of the whole answer: the role, the tokens, the finish, the usage where it is asked for. Without `[DONE]`.
    pub(crate) fn events(&self, prefill: Prefill) -> Vec<String> {
        let (pieces, finish) = self.pieces(prefill);
        let id = format!("chatcmpl-{:08x}", fastrand::u32(..));
        let chunk = |choices: Value, usage: Option<Value>| {
            let mut chunk = json!({ "id": id, "object": "chat.completion.chunk", "created": 1_700_000_000,
                "model": self.model, "choices": choices });
            if let Some(usage) = usage {
                chunk["usage"] = usage;
            }
            chunk.to_string()
        };
        let delta = |delta: Value, finish: Value| json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        let mut events = vec![chunk(delta(json!({ "role": "assistant", "content": "" }), Value::Null), None)];
        events.extend(pieces.iter().map(|piece| chunk(delta(json!({ "content": piece }), Value::Null), None)));
        events.push(chunk(delta(json!({}), finish.into()), None));
        if self.usage {
            events.push(chunk(json!([]), Some(self.used(pieces.len()))));
        }
        events
    }

    fn used(&self, completion: usize) -> Value {
        let before = self.prefill.as_ref().map_or(0, |said| said.split_whitespace().count());
        let prompt = prompt_tokens(&self.model) + before;
        json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion })
    }

    /// A complete answer at a pace.
    pub(crate) fn answer(&self, pace: Pace, prefill: Prefill) -> Plan {
        if self.prefill.is_some() && prefill == Prefill::Rejected {
            return refusal("prefill_not_supported", "this model does not support assistant message prefill");
        }
        if self.stream {
            let events = self.events(prefill);
            return spoken(Plan::stream().pause(pace.first), &events, pace.gap).done();
        }
        let (pieces, finish) = self.pieces(prefill);
        let body = json!({ "id": "chatcmpl-whole", "object": "chat.completion", "created": 1_700_000_000, "model": self.model,
            "choices": [{ "index": 0, "message": { "role": "assistant", "content": pieces.concat() }, "finish_reason": finish }],
            "usage": self.used(pieces.len()) });
        Plan::json(200, &body).after(pace.first + pace.gap * pieces.len() as u32)
    }

    /// The first `tokens` of an answer at a pace, and no ending yet.
    pub(crate) fn beginning(&self, tokens: usize, pace: Pace) -> Plan {
        let events = self.events(Prefill::Native);
        spoken(Plan::stream().pause(pace.first), &events[..events.len().min(tokens + 1)], pace.gap)
    }
}

fn spoken(plan: Plan, events: &[String], gap: Duration) -> Plan {
    events.iter().enumerate().fold(plan, |plan, (at, event)| {
        // The role and the first token come together.
        let plan = if at < 2 { plan } else { plan.pause(gap) };
        plan.event(event)
    })
}

/// A refusal of the request itself, with a code.
pub(crate) fn refusal(code: &str, message: &str) -> Plan {
    let error =
        json!({ "error": { "message": message, "type": "invalid_request_error", "param": null, "code": code } });
    Plan::json(400, &error)
}
