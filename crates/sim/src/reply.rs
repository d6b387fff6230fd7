//! Responses of a simulated engine: OpenAI's objects, complete or as server-sent events.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::{Stream, stream};
use serde_json::{Value, json};

use super::{
    answer::Answer,
    api_request::ApiRequest,
    engine_task::{JobHandle, JobUpdate, Progress},
    problem::Problem,
};

/// A response in progress. Dropping it cancels the rest.
pub(super) struct Reply {
    ask: ApiRequest,
    answers: Vec<Answer>,
    handle: JobHandle,
    id: u64,
    created: u64,
    /// Cached prompt tokens of each answer; `None` until it is finished.
    cached: Vec<Option<u32>>,
    ended: bool,
}

impl Reply {
    /// The response to `ask`, whose jobs run at `handle` in the order of `answers`.
    pub(super) fn new(ask: ApiRequest, answers: Vec<Answer>, handle: JobHandle) -> Self {
        let cached = vec![None; answers.len()];
        Self { ask, answers, handle, id: fastrand::u64(..), created: unix_seconds(), cached, ended: false }
    }

    /// Waits for all answers and builds the response object.
    pub(super) async fn whole(mut self) -> Result<Value, Problem> {
        while let Some(update) = self.handle.next().await {
            self.record(update);
        }
        if self.cached.contains(&None) {
            return Err(Problem::Stopped);
        }
        let choices: Vec<Value> = (0..self.answers.len()).map(|index| self.choice(index)).collect();
        let object = if self.ask.chat { "chat.completion" } else { "text_completion" };
        Ok(self.object(object, &Value::Array(choices), Some(&self.usage())))
    }

    /// Events of the response, each as soon as its token is computed. An error cuts the connection, so that an incomplete answer does not look
    /// complete.
    pub(super) fn stream(self) -> impl Stream<Item = Result<Bytes, Problem>> {
        stream::unfold(self, |mut reply| async move { reply.next().await.map(|bytes| (bytes, reply)) })
    }

    async fn next(&mut self) -> Option<Result<Bytes, Problem>> {
        let mut frames = String::new();
        while frames.is_empty() {
            if self.ended {
                return None;
            }
            match self.handle.next().await {
                Some(update) => self.frames(update, &mut frames),
                None if self.cached.contains(&None) => {
                    self.ended = true;
                    return Some(Err(Problem::Stopped));
                }
                None => {
                    if self.ask.include_usage {
                        self.frame(&json!([]), Some(&self.usage()), &mut frames);
                    }
                    frames.push_str("data: [DONE]\n\n");
                    self.ended = true;
                }
            }
        }
        Some(Ok(frames.into()))
    }

    fn record(&mut self, update: JobUpdate) {
        if let (Progress::Finished { cached_tokens }, Some(cached)) =
            (update.progress, self.cached.get_mut(update.choice))
        {
            *cached = Some(cached_tokens);
        }
    }

    /// Appends the events that `update` causes.
    fn frames(&mut self, update: JobUpdate, frames: &mut String) {
        self.record(update);
        let Some(answer) = self.answers.get(update.choice) else { return };
        match update.progress {
            Progress::Token(index) => {
                if index == 0 && self.ask.chat {
                    let delta = match &answer.tool {
                        Some(name) => json!({"role": "assistant", "content": null, "tool_calls": [{
                            "index": 0, "id": self.call_id(update.choice), "type": "function",
                            "function": {"name": name, "arguments": ""}
                        }]}),
                        None => json!({"role": "assistant", "content": ""}),
                    };
                    self.delta(update.choice, &delta, None, frames);
                }
                let piece = answer.pieces.get(index);
                if !piece.is_empty() {
                    let delta = match answer.tool {
                        Some(_) => json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
                        None => json!({"content": piece}),
                    };
                    self.delta(update.choice, &delta, None, frames);
                }
            }
            Progress::Finished { .. } => self.delta(update.choice, &json!({}), Some(answer.finish), frames),
        }
    }

    /// Appends an event of one choice. For completions only the text of `delta` is used.
    fn delta(&self, index: usize, delta: &Value, finish: Option<&str>, frames: &mut String) {
        let choice = if self.ask.chat {
            json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": finish})
        } else {
            let text = delta["content"].as_str().unwrap_or_default();
            json!({"index": index, "text": text, "logprobs": null, "finish_reason": finish})
        };
        self.frame(&json!([choice]), None, frames);
    }

    fn frame(&self, choices: &Value, usage: Option<&Value>, frames: &mut String) {
        let object = if self.ask.chat { "chat.completion.chunk" } else { "text_completion" };
        frames.push_str("data: ");
        // With `include_usage` every event has the field; it is null in all but the last.
        let usage = usage.or(self.ask.include_usage.then_some(&Value::Null));
        frames.push_str(&self.object(object, choices, usage).to_string());
        frames.push_str("\n\n");
    }

    fn object(&self, object: &str, choices: &Value, usage: Option<&Value>) -> Value {
        let kind = if self.ask.chat { "chatcmpl" } else { "cmpl" };
        let mut value = json!({
            "id": format!("{kind}-sim-{:016x}", self.id),
            "object": object,
            "created": self.created,
            "model": self.ask.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            value["usage"] = usage.clone();
        }
        value
    }

    fn choice(&self, index: usize) -> Value {
        let Answer { pieces, tool, finish } = &self.answers[index];
        if !self.ask.chat {
            return json!({"index": index, "text": pieces.text(), "logprobs": null, "finish_reason": finish});
        }
        let message = match tool {
            None => json!({"role": "assistant", "content": pieces.text()}),
            Some(name) => json!({"role": "assistant", "content": null, "tool_calls": [{
                "id": self.call_id(index), "type": "function",
                "function": {"name": name, "arguments": pieces.text()}
            }]}),
        };
        json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish})
    }

    fn call_id(&self, index: usize) -> String {
        format!("call_sim{:016x}{index:02}", self.id)
    }

    /// Usage: each prompt counts once, whatever its number of answers; so do the cached tokens of its first answer.
    fn usage(&self) -> Value {
        let prompt: u64 = self.ask.prompts.iter().map(|prompt| u64::from(prompt.tokens)).sum();
        let completion: u64 = self.answers.iter().map(|answer| u64::from(answer.pieces.count())).sum();
        let cached: u64 = self.cached.iter().step_by(self.ask.n).flatten().map(|cached| u64::from(*cached)).sum();
        json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        })
    }
}

/// Seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
