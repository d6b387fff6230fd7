//! Translates a chat stream event by event.
//!
//! Its state is bounded: the open block, the ids of the calls, and counters. Nothing is delayed except white space at
//! the beginning of a text or of thinking, which waits for the first word: the API rejects blocks of white space alone,
//! and engines write them around thinking and calls.

use super::{
    calls::{Calls, Kind},
    chunk::{Arguments, Piece},
    effort::{ReasoningField, SIGNATURE_PREFIX},
    error::error_of_value,
    events::{self, Stop},
    raw::says_something,
    whole,
};
use crate::{
    AnswerTranslator, Malformed,
    chat_answer::{CallDelta, Choice, Chunk, Usage},
    json::{filled, inner, is_blank},
    plain_text::PlainText,
};

/// The most white space that is withheld.
const MOST_BLANK: usize = 256;
/// Number of hidden pieces of thinking for each ping.
const DELTAS_PER_PING: u64 = 64;

/// Translates a chat answer to an answer of `/v1/messages`.
pub struct Answer {
    /// The estimate for the beginning of a stream, before the backend has counted.
    prompt_tokens: u64,
    /// True if the caller is not shown the thinking.
    hides_thinking: bool,
    usage: Option<Usage>,
    /// Deltas with output, the estimate of output tokens of a backend that never counts.
    deltas: u64,
    phase: Phase,
    open: Open,
    /// The index of the open block, or of the next one.
    index: u64,
    /// Withheld white space, escaped.
    blank_text: String,
    blank_thinking: String,
    calls: Calls,
    refused: bool,
    stop: Option<Stop>,
    plain: PlainText,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Running,
    Ended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    None,
    Text,
    Thinking(ReasoningField),
    Call,
}

impl Answer {
    /// A translator for one answer. `prompt_tokens` is an estimate of the prompt's length, which a stream reports
    /// before the backend has counted it; the end of the stream corrects it.
    #[must_use]
    pub fn new(prompt_tokens: u64) -> Self {
        Self {
            prompt_tokens,
            hides_thinking: false,
            usage: None,
            deltas: 0,
            phase: Phase::Before,
            open: Open::None,
            index: 0,
            blank_text: String::new(),
            blank_thinking: String::new(),
            calls: Calls::default(),
            refused: false,
            stop: None,
            plain: PlainText::default(),
        }
    }

    /// With or without thinking blocks: the API has them only in answers to requests that ask for thinking.
    pub(crate) fn hide_thinking(self, hides_thinking: bool) -> Self {
        Self { hides_thinking, ..self }
    }

    fn estimate(&self) -> Usage {
        Usage { prompt: self.prompt_tokens, completion: self.deltas, ..Usage::default() }
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Some(usage) = chunk.usage.and_then(Usage::read) {
            self.usage = Some(usage);
        }
        // Azure sends a chunk before the answer that has neither an id nor a model nor a choice.
        let Some(choice) = &chunk.choices.0 else { return Ok(()) };
        if self.phase == Phase::Before {
            let usage = Usage { completion: 0, reasoning: None, ..self.usage.unwrap_or_else(|| self.estimate()) };
            let model = chunk.model.and_then(inner).unwrap_or_default();
            events::message_start(out, &whole::message_id(chunk.id), model, &usage);
            self.phase = Phase::Running;
        }
        self.choice(choice, out)
    }

    fn choice(&mut self, choice: &Choice<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Some(delta) = &choice.delta {
            self.refused |= filled(delta.refusal).is_some();
            delta.pieces(&mut |piece| self.piece(&piece, out));
            for call in delta.tool_calls.iter().flatten() {
                self.call(call, out)?;
            }
            if let Some(function) = delta.function_call {
                // Its pieces are those of one call.
                let index = serde_json::from_str("0").ok();
                self.call(&CallDelta { index, ..CallDelta::legacy(function) }, out)?;
            }
        }
        let Some(finish) = choice.finish() else { return Ok(()) };
        if matches!(finish, "error" | "abort") {
            return Err(Malformed(format!("the backend ended the answer with the finish reason `{finish}`")));
        }
        self.close(out)?;
        // Some engines repeat the end, with less in it.
        if self.stop.is_none() {
            self.stop = Some(Stop::new(finish, choice.stop_sequence(), self.calls.any(), self.refused));
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) {
        self.deltas += 1;
        let (text, open) = match *piece {
            Piece::Text(text) => (text, Open::Text),
            Piece::Thinking(text, field) => (text, Open::Thinking(field)),
        };
        let thinking = matches!(open, Open::Thinking(_));
        if thinking && self.hides_thinking {
            if self.deltas % DELTAS_PER_PING == 1 {
                events::ping(out);
            }
            return;
        }
        let fits = match self.open {
            Open::Thinking(_) => thinking,
            other => other == open,
        };
        let blank = if thinking { &mut self.blank_thinking } else { &mut self.blank_text };
        if !fits && is_blank(text) && blank.len() + text.len() <= MOST_BLANK {
            blank.push_str(text);
            return;
        }
        let withheld = std::mem::take(blank);
        if !fits {
            self.stop_block(out);
            self.open = open;
            if thinking {
                events::thinking_start(out, self.index);
            } else {
                events::text_start(out, self.index);
            }
        }
        if thinking {
            events::thinking_delta(out, self.index, &[&withheld, text]);
        } else {
            events::text_delta(out, self.index, &[&withheld, text]);
        }
    }

    fn call(&mut self, delta: &CallDelta<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let id = filled(delta.id);
        let arguments = delta.arguments();
        match self.calls.kind(delta, id) {
            Kind::Same => {}
            Kind::Late if arguments.is_none_or(Arguments::is_blank) => return Ok(()),
            Kind::Late => {
                return Err(Malformed("the backend continued a tool call after the next part began".to_owned()));
            }
            Kind::New if self.calls.full() => return Err(Malformed("the backend made too many tool calls".to_owned())),
            Kind::New => {
                self.close(out)?;
                self.calls.begin(delta);
            }
        }
        self.deltas += 1;
        if let Some((id, name)) = self.calls.identify(delta, id) {
            self.stop_block(out);
            self.open = Open::Call;
            events::tool_start(out, self.index, &id, &name);
            let early = self.calls.current.as_mut().map(super::calls::Current::take_early);
            if let Some(early) = early.filter(|early| !early.is_empty()) {
                events::json_delta(out, self.index, &early);
            }
        }
        let (Some(current), Some(arguments)) = (&mut self.calls.current, arguments) else { return Ok(()) };
        let arguments = arguments.escaped();
        current.note(&arguments);
        if current.started {
            events::json_delta(out, self.index, &arguments);
        } else if !current.keep(&arguments) {
            return Err(Malformed("the backend sent arguments of a tool call without its name".to_owned()));
        }
        Ok(())
    }

    /// Ends the open block and the current call.
    fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Some(current) = self.calls.current.take()
            && !current.started
        {
            if !current.is_empty() {
                return Err(Malformed("the backend made a tool call without a name".to_owned()));
            }
            self.calls.forget();
        }
        self.stop_block(out);
        Ok(())
    }

    fn stop_block(&mut self, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => return,
            Open::Thinking(field) => events::signature_delta(out, self.index, &[SIGNATURE_PREFIX, field.name()]),
            Open::Text => {}
            Open::Call => self.calls.current = None,
        }
        events::block_stop(out, self.index);
        self.index += 1;
    }

    fn done(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Some(stop) = &self.stop else {
            return Err(Malformed("the backend ended the stream without a finish reason".to_owned()));
        };
        let usage = self.usage.unwrap_or_else(|| self.estimate());
        events::message_end(out, stop, &usage);
        self.phase = Phase::Ended;
        Ok(())
    }
}

impl AnswerTranslator for Answer {
    fn event(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let data = data.trim_ascii();
        if data.is_empty() || self.phase == Phase::Ended {
            return Ok(());
        }
        if data == b"[DONE]" {
            // Content after a finish reason has begun a block again.
            self.close(out)?;
            return self.done(out);
        }
        if let Some(text) = self.plain.read(data) {
            self.piece(&Piece::Text(text), out);
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_slice(data)
            .map_err(|error| Malformed(format!("an event is not a chat chunk: {error}")))?;
        let error = chunk.error.filter(|error| says_something(error));
        if error.is_some() || chunk.object.is_some_and(|object| object.get() == "\"error\"") {
            let text = error.map_or_else(|| std::str::from_utf8(data).unwrap_or_default(), |error| error.get());
            events::error(out, &error_of_value(text));
            self.phase = Phase::Ended;
            return Ok(());
        }
        self.chunk(&chunk, out)?;
        if let Some(text) = chunk.plain_text() {
            self.plain.learn(data, text);
        }
        Ok(())
    }

    fn whole(&mut self, body: &[u8]) -> Result<Vec<u8>, Malformed> {
        whole::translate(body, self.prompt_tokens, self.hides_thinking)
    }
}
