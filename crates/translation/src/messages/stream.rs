//! Translates a chat stream event by event.
//!
//! Its state is bounded: the open block, the calls, and counters. Nothing is delayed but white space at the beginning of a
//! text or of thinking, which waits for the first word (the API rejects blocks of white space alone, and engines write
//! them around thinking and calls), and what comes while a call is not complete: blocks follow one another, while chat
//! engines may interleave the fragments of calls.

mod calls;

use std::{collections::VecDeque, sync::Arc};

use super::{
    chunk::Piece,
    effort::{ReasoningField, SIGNATURE_PREFIX, ThinkingDisplay},
    error::error_of_value,
    events::{self, Stop},
    raw::says_something,
    whole,
};
use crate::{
    AnswerTranslator, Malformed,
    call_fragments::Calls,
    chat_answer::{CallDelta, Choice, Chunk, Usage},
    json::{filled, inner, is_blank},
    plain_text::PlainText,
    provider_state::{NoStates, ProviderStates, StateBuilder},
};
use signalbox_protocol::{UsageReport, json::repaired};

/// The most white space that is withheld.
const MOST_BLANK: usize = 256;
/// Number of hidden pieces of thinking for each ping.
const DELTAS_PER_PING: u64 = 64;

/// Translates a chat answer to an answer of `/v1/messages`.
pub struct Answer {
    /// The estimate for the beginning of a stream, before the backend has counted.
    prompt_tokens: u64,
    /// The model that was asked for, escaped.
    model: Option<Box<str>>,
    display: ThinkingDisplay,
    usage: UsageReport,
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
    /// The call whose block is open, or begins once its name is known.
    current_call: Option<usize>,
    /// Output that came while that call was not complete.
    waiting: VecDeque<Waiting>,
    /// Bytes of the texts that wait.
    waiting_size: usize,
    /// True if a call became a block.
    called: bool,
    states: Arc<dyn ProviderStates>,
    /// State that the provider wants back with the calls.
    state: StateBuilder,
    refused: bool,
    stop: Option<Stop>,
    plain: PlainText,
}

/// Output that follows a call.
enum Waiting {
    Call(usize),
    Text(String),
    Thinking(String, ReasoningField),
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
            model: None,
            display: ThinkingDisplay::Shown,
            usage: UsageReport::default(),
            deltas: 0,
            phase: Phase::Before,
            open: Open::None,
            index: 0,
            blank_text: String::new(),
            blank_thinking: String::new(),
            calls: Calls::default(),
            current_call: None,
            waiting: VecDeque::new(),
            waiting_size: 0,
            called: false,
            states: Arc::new(NoStates),
            state: StateBuilder::default(),
            refused: false,
            stop: None,
            plain: PlainText::default(),
        }
    }

    /// With a place to keep what the provider wants back.
    pub(crate) fn keeping(self, states: Arc<dyn ProviderStates>) -> Self {
        Self { state: StateBuilder::within(&*states), states, ..self }
    }

    /// With the name of the model that was asked for, in place of the backend's.
    pub(crate) fn named(self, model: Option<&str>) -> Self {
        let quoted = model.and_then(|model| serde_json::to_string(model).ok());
        Self { model: quoted.map(|quoted| quoted[1..quoted.len() - 1].into()), ..self }
    }

    /// With thinking blocks of this kind: the API has them only in answers to requests that ask for thinking.
    pub(crate) fn displaying(self, display: ThinkingDisplay) -> Self {
        Self { display, ..self }
    }

    /// The backend's counts, or an estimate.
    fn counted(&self) -> Usage {
        Usage::of(&self.usage).unwrap_or_default().or_estimate(self.prompt_tokens, self.deltas)
    }

    fn chunk(&mut self, chunk: &Chunk<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Some(usage) = chunk.usage() {
            self.usage.update(&usage);
        }
        // Azure sends a chunk before the answer that has neither an id nor a model nor a choice.
        let Some(choice) = &chunk.choices.0 else { return Ok(()) };
        if self.phase == Phase::Before {
            let usage = Usage { completion: 0, reasoning: None, ..self.counted() };
            let model = self.model.as_deref().or_else(|| chunk.model.and_then(inner)).unwrap_or_default();
            events::message_start(out, &whole::message_id(chunk.id), model, &usage);
            self.phase = Phase::Running;
        }
        self.choice(choice, out)
    }

    fn choice(&mut self, choice: &Choice<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if let Some(delta) = &choice.delta {
            self.refused |= filled(delta.refusal).is_some();
            self.state.note_message(delta);
            let mut shown = Ok(());
            delta.pieces(&mut |piece| {
                if shown.is_ok() {
                    shown = self.piece(&piece, out);
                }
            });
            shown?;
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
        if let Some(error) = choice.failure() {
            events::error(out, &error_of_value(&error));
            self.phase = Phase::Ended;
            return Ok(());
        }
        self.close(out)?;
        // Some engines repeat the end, with less in it.
        if self.stop.is_none() {
            self.stop = Some(Stop::new(finish, choice.stop_sequence(), self.called, self.refused));
        }
        Ok(())
    }

    fn piece(&mut self, piece: &Piece<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.deltas += 1;
        let (text, open) = match *piece {
            Piece::Text(text) => (text, Open::Text),
            Piece::Thinking(text, field) => (text, Open::Thinking(field)),
        };
        let thinking = matches!(open, Open::Thinking(_));
        let fits = match self.open {
            Open::Thinking(_) => thinking,
            other => other == open,
        };
        if let Open::Thinking(field) = open {
            self.state.note_reasoning(field.name(), text);
        }
        if thinking && self.display != ThinkingDisplay::Shown {
            if self.deltas % DELTAS_PER_PING == 1 {
                events::ping(out);
            }
            if self.display == ThinkingDisplay::Hidden || fits || is_blank(text) {
                return Ok(());
            }
            if self.must_wait() {
                return self.wait("", open);
            }
            self.end_call(out)?;
            self.show("", open, out);
            return Ok(());
        }
        let blank = if thinking { &mut self.blank_thinking } else { &mut self.blank_text };
        if !fits && is_blank(text) && blank.len() + text.len() <= MOST_BLANK {
            blank.push_str(text);
            return Ok(());
        }
        if self.must_wait() {
            return self.wait(text, open);
        }
        self.end_call(out)?;
        self.show(text, open, out);
        Ok(())
    }

    /// Shows text or thinking, in the open block if that is of its kind.
    fn show(&mut self, text: &str, open: Open, out: &mut Vec<u8>) {
        let thinking = matches!(open, Open::Thinking(_));
        let fits = match self.open {
            Open::Thinking(_) => thinking,
            other => other == open,
        };
        let blank = if thinking { &mut self.blank_thinking } else { &mut self.blank_text };
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
        if !thinking {
            events::text_delta(out, self.index, &[&withheld, text]);
        } else if self.display == ThinkingDisplay::Shown {
            events::thinking_delta(out, self.index, &[&withheld, text]);
        }
    }

    /// Ends the open block, and shows all that waits.
    fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.end_call(out)?;
        while !self.waiting.is_empty() {
            self.next(out)?;
        }
        self.end_call(out)?;
        self.stop_block(out);
        self.state.keep(&*self.states);
        Ok(())
    }

    fn stop_block(&mut self, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None => return,
            Open::Thinking(field) => events::signature_delta(out, self.index, &[SIGNATURE_PREFIX, field.name()]),
            Open::Text | Open::Call => {}
        }
        events::block_stop(out, self.index);
        self.index += 1;
    }

    /// Ends the stream. After `[DONE]` the answer is whole, also where no finish reason was given.
    fn done(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        if self.phase == Phase::Before {
            return Err(Malformed("the backend ended the stream without an answer".to_owned()));
        }
        let given = self.stop.take();
        let stop = &given.unwrap_or_else(|| Stop::new("stop", None, self.called, self.refused));
        events::message_end(out, stop, &self.counted());
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
            return self.piece(&Piece::Text(text), out);
        }
        let chunk: Chunk<'_> = match serde_json::from_slice(data) {
            Ok(chunk) => chunk,
            Err(error) => {
                let Some(text) = repaired(data) else {
                    return Err(Malformed(format!("an event is not a chat chunk: {error}")));
                };
                return self.event(&text, out);
            }
        };
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

    fn end(&mut self, out: &mut Vec<u8>) {
        let before = out.len();
        if self.phase == Phase::Running && self.stop.is_some() && self.event(b"[DONE]", out).is_err() {
            out.truncate(before);
        }
    }

    fn whole(&mut self, body: &[u8]) -> Result<Vec<u8>, Malformed> {
        let text = repaired(body);
        let body = text.as_deref().unwrap_or(body);
        let out = whole::translate(body, self.prompt_tokens, self.model.as_deref(), self.display, &mut self.state)?;
        self.state.keep(&*self.states);
        Ok(out)
    }

    fn served_by(&mut self, pool: &str) {
        self.state.served_by(pool);
    }
}
