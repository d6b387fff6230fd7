//! Chat answers as Response objects and their event streams.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{chunk, echo::Echo, error::Reported, items::Status, output::Output, text::Part};
use crate::{
    AnswerTranslator, Malformed,
    chat_answer::{CallDelta, Chunk, ContentPart, Delta, Usage},
    json::{inner, number, put, string, word},
    plain_text::PlainText,
    provider_state::{ProviderStates, StateBuilder},
};
use signalbox_protocol::{Finish, UsageReport, json::repaired};

/// Translates one chat answer, whole or streamed, into the Responses API.
pub struct Answer {
    echo: Echo,
    id: Box<str>,
    created: u64,
    /// Unix time in seconds.
    now: fn() -> u64,
    output: Output,
    /// The model that the upstream names, as JSON, for a request that names none.
    model: Option<Box<str>>,
    /// The service tier that the upstream names, as JSON.
    service_tier: Option<Box<str>>,
    usage: UsageReport,
    finish: Option<Finish>,
    /// The error with which the engine ended the answer.
    failed: Option<Reported>,
    begun: bool,
    /// True once a chunk had a choice.
    has_choice: bool,
    ended: bool,
    plain: PlainText,
}

/// The status of items for the end that the upstream announced.
fn status_of(finish: Finish) -> Status {
    if finish == Finish::Whole { Status::Completed } else { Status::Incomplete }
}

/// The state of a Response object.
enum State<'a> {
    InProgress,
    Finished(Finish),
    Failed(&'a Reported),
}

impl Answer {
    /// A translator for the answer of the request that `echo` belongs to. `id` begins with `resp_`; `now` gives
    /// Unix time in seconds, at the beginning and at the end.
    pub fn new(mut echo: Echo, id: impl Into<Box<str>>, now: fn() -> u64) -> Self {
        let id = id.into();
        let output = Output::new(&id, std::mem::take(&mut echo.names), echo.summary, echo.carried);
        Self {
            echo,
            id,
            created: now(),
            now,
            output,
            model: None,
            service_tier: None,
            usage: UsageReport::default(),
            finish: None,
            failed: None,
            plain: PlainText::default(),
            begun: false,
            has_choice: false,
            ended: false,
        }
    }

    /// With a place to keep what the provider wants back.
    pub(crate) fn keeping(mut self, states: Arc<dyn ProviderStates>) -> Self {
        self.output.state = StateBuilder::within(&*states);
        self.output.states = states;
        self
    }

    /// Appends the Response object.
    fn response(&self, state: &State<'_>, out: &mut Vec<u8>) {
        put(out, &[r#"{"id":"#]);
        string(out, &format!("resp_{}", self.id));
        put(out, &[r#","object":"response","created_at":"#]);
        number(out, self.created);
        let (status, reason) = match state {
            State::InProgress => ("in_progress", None),
            State::Finished(Finish::Whole) => ("completed", None),
            State::Finished(Finish::Length) => ("incomplete", Some("max_output_tokens")),
            State::Finished(Finish::Filter) => ("incomplete", Some("content_filter")),
            State::Finished(Finish::Failed | Finish::Aborted) | State::Failed(_) => ("failed", None),
        };
        put(out, &[r#","status":""#, status, r#"","completed_at":"#]);
        if status == "completed" {
            number(out, (self.now)().max(self.created));
        } else {
            put(out, &["null"]);
        }
        put(out, &[r#","error":"#]);
        match state {
            State::Failed(reported) => reported.write_response(out),
            _ => put(out, &["null"]),
        }
        put(out, &[r#","incomplete_details":"#]);
        match reason {
            Some(reason) => put(out, &[r#"{"reason":""#, reason, "\"}"]),
            None => put(out, &["null"]),
        }
        put(out, &[r#","model":"#, self.named_model(), r#","output":["#]);
        if !matches!(state, State::InProgress) {
            self.output.items.write(out);
        }
        put(out, &["],"]);
        out.extend_from_slice(&self.echo.members);
        let tier = self.service_tier.as_deref().unwrap_or(&self.echo.service_tier);
        put(out, &[r#","service_tier":"#, tier, r#","usage":"#]);
        match Usage::of(&self.usage).filter(|_| !matches!(state, State::InProgress)) {
            Some(usage) => write_usage(usage, out),
            None => put(out, &["null"]),
        }
        out.push(b'}');
    }

    /// The model that was asked for, as JSON; else the upstream's.
    fn named_model(&self) -> &str {
        let asked = &*self.echo.model;
        if asked == "\"\"" { self.model.as_deref().unwrap_or(asked) } else { asked }
    }

    /// Appends an event that carries the Response object.
    fn snapshot(&mut self, name: &str, state: &State<'_>, out: &mut Vec<u8>) {
        let mut object = Vec::with_capacity(self.echo.members.len() + 512);
        self.response(state, &mut object);
        self.output.items.events.send(out, ["response.", name], |_, out| {
            put(out, &[r#""response":"#]);
            out.extend_from_slice(&object);
        });
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.snapshot("created", &State::InProgress, out);
            self.snapshot("in_progress", &State::InProgress, out);
        }
    }

    /// Reads what a chunk says about the whole answer.
    fn note(&mut self, chunk: &Chunk<'_>) {
        if self.model.is_none() {
            self.model = chunk.model.filter(|raw| !word(Some(raw)).is_empty()).map(|raw| raw.get().into());
        }
        if let Some(tier) = chunk.service_tier.filter(|raw| inner(raw).is_some())
            && self.service_tier.is_none()
        {
            self.service_tier = Some(tier.get().into());
        }
        if let Some(usage) = chunk.usage() {
            self.usage.update(&usage);
        }
    }

    /// Adds the content of the first choice.
    fn add(&mut self, chunk: Chunk<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Some(mut choice) = chunk.choices.0 else { return Ok(()) };
        self.has_choice = true;
        let (message, is_whole) = match choice.delta.take() {
            None => (choice.message.map(chunk::message).transpose()?, true),
            delta => (delta, false),
        };
        if let Some(message) = message {
            let logprobs = if choice.logprobs.is_some() { choice.logprobs() } else { "" };
            self.message(message, is_whole, logprobs, out)?;
        }
        if let Some(error) = choice.failure() {
            self.output.close(Status::Incomplete, out)?;
            self.failed = Some(Reported::of_text(&error));
            return Ok(());
        }
        if let Some(reason) = choice.finish() {
            let finish = Finish::read(reason);
            self.output.close(status_of(finish), out)?;
            self.finish = Some(finish);
        }
        Ok(())
    }

    fn message(
        &mut self,
        message: Delta<'_>,
        is_whole: bool,
        logprobs: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        self.output.state.note_message(&message);
        let (field, thought) = message.thought();
        self.output.reasoning(field, thought, out)?;
        for block in message.thinking() {
            self.output.signed(&block, !thought.is_empty(), out)?;
        }
        if let Some(content) = message.content {
            self.content(content, logprobs, out)?;
        }
        self.output.message(Part::Refusal, word(message.refusal), "", out)?;
        if let Some(annotations) = message.annotations {
            self.output.annotate(annotations, out)?;
        }
        for call in message.tool_calls.into_iter().flatten() {
            self.output.call(&call, is_whole, out)?;
        }
        match message.function_call {
            Some(function) => self.output.call(&CallDelta::legacy(function), is_whole, out),
            None => Ok(()),
        }
    }

    /// Adds content: a string, or the list of text and thinking parts that some engines send.
    fn content(&mut self, content: &RawValue, logprobs: &str, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Some(text) = inner(content) {
            return self.output.message(Part::Output, text, logprobs, out);
        }
        let parts: Vec<ContentPart<'_>> = serde_json::from_str(content.get())
            .map_err(|error| Malformed(format!("the content of the upstream's answer is malformed: {error}")))?;
        for part in parts {
            if let Some(thinking) = part.thinking {
                let list: Vec<ContentPart<'_>> = serde_json::from_str(thinking.get()).unwrap_or_default();
                self.output.reasoning("reasoning_content", word(Some(thinking)), out)?;
                for thought in list {
                    self.output.reasoning("reasoning_content", word(thought.text), out)?;
                }
            }
            self.output.message(Part::Output, word(part.text), "", out)?;
        }
        Ok(())
    }

    /// Ends the stream after `[DONE]`.
    fn done(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if !self.has_choice {
            return Err(Malformed("the upstream ended the stream without an answer".to_owned()));
        }
        let finish = self.finish.unwrap_or(Finish::Whole);
        self.begin(out);
        self.output.close(status_of(finish), out)?;
        let name = if finish == Finish::Whole { "completed" } else { "incomplete" };
        self.snapshot(name, &State::Finished(finish), out);
        self.ended = true;
        Ok(())
    }
}

impl AnswerTranslator for Answer {
    /// After an error or the end, further events are ignored. A malformed event may follow events that are complete.
    fn event(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let data = data.trim_ascii();
        if self.ended {
            return Ok(());
        }
        if data == b"[DONE]" {
            return self.done(out);
        }
        if let Some(text) = self.plain.read(data) {
            return self.output.message(Part::Output, text, "", out);
        }
        let chunk = match chunk::read(data) {
            Ok(chunk) => chunk,
            Err(error) => return repaired(data).map_or(Err(error), |text| self.event(&text, out)),
        };
        let plain = chunk.plain_text();
        self.note(&chunk);
        self.begin(out);
        if let Some(error) = chunk.error() {
            self.snapshot("failed", &State::Failed(&Reported::read(error, None)), out);
            self.ended = true;
            return Ok(());
        }
        self.add(chunk, out)?;
        if let Some(failed) = self.failed.take() {
            self.snapshot("failed", &State::Failed(&failed), out);
            self.ended = true;
            return Ok(());
        }
        if let Some(text) = plain {
            self.plain.learn(data, text);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        let before = out.len();
        if !self.ended && self.finish.is_some() && self.event(b"[DONE]", out).is_err() {
            out.truncate(before);
        }
    }

    fn served_by(&mut self, pool: &str) {
        self.output.state.served_by(pool);
    }

    fn whole(&mut self, body: &[u8]) -> Result<Vec<u8>, Malformed> {
        let text = repaired(body);
        let chunk = chunk::read(text.as_deref().unwrap_or(body))?;
        if let Some(error) = chunk.error() {
            return Err(Malformed(Reported::read(error, None).message));
        }
        if chunk.choices.0.as_ref().is_none_or(|choice| choice.message.is_none()) {
            return Err(Malformed("the upstream's answer has no message".to_owned()));
        }
        self.note(&chunk);
        self.output.items.events.quiet = true;
        self.add(chunk, &mut Vec::new())?;
        if let Some(failed) = self.failed.take() {
            let mut out = Vec::with_capacity(body.len() + self.echo.members.len() + 512);
            self.response(&State::Failed(&failed), &mut out);
            return Ok(out);
        }
        // A whole answer without a reason is complete: its body arrived.
        let finish = self.finish.unwrap_or(Finish::Whole);
        self.output.close(status_of(finish), &mut Vec::new())?;
        let mut out = Vec::with_capacity(body.len() + self.echo.members.len() + 512);
        self.response(&State::Finished(finish), &mut out);
        self.ended = true;
        Ok(out)
    }
}

fn write_usage(usage: Usage, out: &mut Vec<u8>) {
    for (name, value, end) in [
        (r#"{"input_tokens":"#, usage.prompt, ","),
        (r#""input_tokens_details":{"cached_tokens":"#, usage.cached, ","),
        // Clients with the newest types require it.
        (r#""cache_write_tokens":"#, usage.written, "},"),
        (r#""output_tokens":"#, usage.completion, ","),
        (r#""output_tokens_details":{"reasoning_tokens":"#, usage.reasoning.unwrap_or(0), "},"),
        (r#""total_tokens":"#, usage.total, "}"),
    ] {
        put(out, &[name]);
        number(out, value);
        put(out, &[end]);
    }
}
