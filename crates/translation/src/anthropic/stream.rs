//! Translates the events of a stream, one at a time.
//!
//! The state is bounded: the head of a chunk, the open blocks and counters. A signed thinking block reaches the client in
//! pieces: `thinking_blocks` entries with an `index`, which clients that join indexed lists turn into whole blocks, and
//! which [`super::from_chat`] joins for clients that only collect them.

use serde_json::value::RawValue;

use super::{
    Malformed,
    block::{self, Block},
    error,
    event::{Delta, Event, Start},
    raw, usage,
};
use crate::{call_arguments::CallArguments, json};
use signalbox_protocol::UsageReport;

/// The most blocks that may be open at once. Messages opens one at a time.
const MOST_OPEN: usize = 64;

/// A block that has begun and not ended.
#[derive(Debug)]
struct Open {
    index: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Text,
    /// Thinking with its number among the thinking blocks.
    Thinking(u64),
    /// A call with its number among the calls.
    Call {
        number: u64,
        arguments: CallArguments,
    },
    /// The same, all of whose arguments came with the start of the block.
    WholeCall,
    /// A block without a counterpart.
    Other,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Started,
    /// The stop reason was seen.
    Finished,
    /// The end or an error was written.
    Ended,
}

/// The state of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    created: u64,
    include_usage: bool,
    state: State,
    /// The beginning of every chunk, up to the members of its delta.
    head: Vec<u8>,
    open: Vec<Open>,
    /// True once a block has begun.
    has_block: bool,
    calls: u64,
    thoughts: u64,
    usage: UsageReport,
}

impl Stream {
    pub(super) fn new(created: u64, include_usage: bool) -> Self {
        let (state, head, open, usage) = (State::Waiting, Vec::new(), Vec::new(), UsageReport::default());
        Self { created, include_usage, state, head, open, has_block: false, calls: 0, thoughts: 0, usage }
    }

    /// Appends the chunks for an event. Nothing follows the end or an error.
    pub(super) fn event(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        if self.state == State::Ended {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.complete(out);
            return Ok(());
        }
        let event: Event<'_> = serde_json::from_slice(data).map_err(|error| Malformed(error.to_string()))?;
        if let Some(raw) = event.error {
            self.state = State::Ended;
            out.extend_from_slice(b"data: ");
            error::event(raw, event.request_id, out);
            out.extend_from_slice(b"\n\n");
            return Ok(());
        }
        let kind = event.r#type.as_ref().map_or("", |kind| &*kind.0);
        match (kind, self.state) {
            ("message_start", State::Waiting) => self.start(event.message.as_ref(), out),
            ("message_start", _) => return Err(Malformed("a second message_start".to_owned())),
            ("content_block_start" | "content_block_delta" | "message_delta" | "message_stop", State::Waiting) => {
                return Err(Malformed(format!("{kind} before message_start")));
            }
            ("content_block_start" | "content_block_delta", State::Finished) => {
                return Err(Malformed(format!("{kind} after the stop reason")));
            }
            ("content_block_start", _) => {
                let block = event.content_block.ok_or_else(|| Malformed("a block without content_block".to_owned()))?;
                self.block_start(event.index.unwrap_or(0), &block, out)?;
            }
            ("content_block_delta", _) => {
                if let Some(delta) = &event.delta {
                    self.block_delta(event.index.unwrap_or(0), delta, out)?;
                }
            }
            ("content_block_stop", _) => self.block_stop(event.index.unwrap_or(0), out),
            ("message_delta", _) => {
                self.count(event.usage);
                if let Some(delta) = &event.delta {
                    self.message_delta(delta, out);
                }
            }
            ("message_stop", State::Started) if !self.has_block => {
                return Err(Malformed("the answer ended without a stop reason".to_owned()));
            }
            ("message_stop", _) => self.complete(out),
            ("error", _) => return Err(Malformed("an error event without `error`".to_owned())),
            ("", _) => return Err(Malformed("an event without `type`".to_owned())),
            // A ping, or an event that the API adds later.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, message: Option<&Start<'_>>, out: &mut Vec<u8>) {
        self.state = State::Started;
        let (id, model) = message.map_or((None, None), |message| (message.id, message.model));
        self.count(message.and_then(|message| message.usage));
        self.head.extend_from_slice(b"data: {\"id\":");
        raw::joined(&mut self.head, id);
        self.head.extend_from_slice(b",\"object\":\"chat.completion.chunk\",\"created\":");
        json::number(&mut self.head, self.created);
        self.head.extend_from_slice(b",\"model\":");
        raw::joined(&mut self.head, model);
        self.head.extend_from_slice(b",\"choices\":[");
        self.chunk(out, |out| out.extend_from_slice(b"\"role\":\"assistant\",\"content\":\"\""));
    }

    /// Takes the counts of an event.
    fn count(&mut self, usage: Option<&RawValue>) {
        if let Some(report) = usage.and_then(|raw| UsageReport::read(raw.get())) {
            self.usage.update(&report);
        }
    }

    /// Appends a chunk whose delta has the members that `delta` writes.
    fn chunk(&self, out: &mut Vec<u8>, delta: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":0,\"delta\":{");
        delta(out);
        out.extend_from_slice(b"},\"logprobs\":null,\"finish_reason\":null}]");
        self.close_chunk(out);
    }

    fn close_chunk(&self, out: &mut Vec<u8>) {
        let rest: &[u8] = if self.include_usage { b",\"usage\":null}\n\n" } else { b"}\n\n" };
        out.extend_from_slice(rest);
    }

    fn text(&self, text: Option<&RawValue>, out: &mut Vec<u8>) {
        if let Some(text) = raw::filled(text) {
            self.chunk(out, |out| {
                out.extend_from_slice(b"\"content\":");
                raw::value(out, Some(text));
            });
        }
    }

    fn thinking(&self, number: u64, text: Option<&RawValue>, signature: Option<&RawValue>, out: &mut Vec<u8>) {
        let (text, signature) = (raw::filled(text), raw::filled(signature));
        if text.is_none() && signature.is_none() {
            return;
        }
        self.chunk(out, |out| {
            if let Some(text) = text {
                out.extend_from_slice(b"\"reasoning_content\":");
                raw::value(out, Some(text));
                out.push(b',');
            }
            out.extend_from_slice(b"\"thinking_blocks\":[{\"index\":");
            json::number(out, number);
            out.extend_from_slice(b",\"type\":\"thinking\",\"thinking\":");
            raw::joined(out, text);
            raw::member(out, "signature", signature);
            out.extend_from_slice(b"}]");
        });
    }

    /// Appends a piece of a call's arguments; `escaped` may be empty.
    fn arguments(&self, number: u64, escaped: &str, out: &mut Vec<u8>) {
        if escaped.is_empty() {
            return;
        }
        self.chunk(out, |out| {
            out.extend_from_slice(b"\"tool_calls\":[{\"index\":");
            json::number(out, number);
            out.extend_from_slice(b",\"function\":{\"arguments\":");
            json::quoted(out, escaped);
            out.extend_from_slice(b"}}]");
        });
    }

    fn block_start(&mut self, index: u64, block: &Block<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let kind = match &*block.r#type.0 {
            "text" => {
                self.text(block.text, out);
                Kind::Text
            }
            "thinking" => {
                let number = self.next_thought();
                self.thinking(number, block.thinking, block.signature, out);
                Kind::Thinking(number)
            }
            "redacted_thinking" => {
                let number = self.next_thought();
                if let Some(data) = raw::filled(block.data) {
                    self.chunk(out, |out| {
                        out.extend_from_slice(b"\"thinking_blocks\":[{\"index\":");
                        json::number(out, number);
                        out.extend_from_slice(b",\"type\":\"redacted_thinking\",\"data\":");
                        raw::value(out, Some(data));
                        out.extend_from_slice(b"}]");
                    });
                }
                Kind::Other
            }
            "tool_use" => self.call_start(block, out)?,
            _ => Kind::Other,
        };
        self.has_block = true;
        self.open.retain(|open| open.index != index);
        if self.open.len() == MOST_OPEN {
            return Err(Malformed(format!("more than {MOST_OPEN} blocks are open")));
        }
        self.open.push(Open { index, kind });
        Ok(())
    }

    fn next_thought(&mut self) -> u64 {
        self.thoughts += 1;
        self.thoughts - 1
    }

    fn call_start(&mut self, block: &Block<'_>, out: &mut Vec<u8>) -> Result<Kind, Malformed> {
        let (Some(id), Some(name)) = (raw::filled(block.id), raw::filled(block.name)) else {
            return Err(Malformed("a tool_use block has no id or no name".to_owned()));
        };
        let number = self.calls;
        self.calls += 1;
        // Messages starts with an empty object; some engines put the whole input here and send no pieces.
        let input = block.input.filter(|input| raw::is_object(input) && !is_empty_object(input));
        self.chunk(out, |out| {
            out.extend_from_slice(b"\"tool_calls\":[{\"index\":");
            json::number(out, number);
            out.extend_from_slice(b",\"id\":");
            raw::value(out, Some(id));
            out.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
            raw::value(out, Some(name));
            out.extend_from_slice(b",\"arguments\":");
            json::string(out, input.map_or("", RawValue::get));
            out.extend_from_slice(b"}}]");
        });
        let pieces = || Kind::Call { number, arguments: CallArguments::default() };
        Ok(input.map_or_else(pieces, |_| Kind::WholeCall))
    }

    fn block_delta(&mut self, index: u64, delta: &Delta<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        // Blocks are few and mostly one; the last is the one that grows.
        let at = self.open.iter().rposition(|open| open.index == index);
        let Some(at) = at else { return Err(Malformed(format!("a delta for block {index}, which is not open"))) };
        match &mut self.open[at].kind {
            Kind::Text => self.text(delta.text, out),
            Kind::Thinking(number) => {
                let number = *number;
                self.thinking(number, delta.thinking, delta.signature, out);
            }
            Kind::WholeCall | Kind::Other => {}
            Kind::Call { number, arguments } => {
                let (number, mut shown) = (*number, String::new());
                arguments.push(json::word(delta.partial_json), &mut shown);
                self.arguments(number, &shown, out);
            }
        }
        Ok(())
    }

    fn block_stop(&mut self, index: u64, out: &mut Vec<u8>) {
        let Some(at) = self.open.iter().rposition(|open| open.index == index) else { return };
        let open = self.open.swap_remove(at);
        if let Kind::Call { number, mut arguments } = open.kind {
            self.arguments(number, &arguments.rest(), out);
        }
    }

    fn message_delta(&mut self, delta: &Delta<'_>, out: &mut Vec<u8>) {
        if let Some(reason) = delta.stop_reason.as_ref().filter(|_| self.state == State::Started) {
            self.stop(&reason.0, delta.stop_details, delta.stop_sequence, out);
        }
    }

    /// Ends the content.
    fn stop(&mut self, reason: &str, details: Option<&RawValue>, sequence: Option<&RawValue>, out: &mut Vec<u8>) {
        self.state = State::Finished;
        // Blocks that were not closed end here.
        while let Some(index) = self.open.first().map(|open| open.index) {
            self.block_stop(index, out);
        }
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":0,\"delta\":{");
        if let Some(refusal) = block::explanation(details) {
            out.extend_from_slice(b"\"refusal\":");
            raw::value(out, Some(refusal));
        }
        out.extend_from_slice(b"},\"logprobs\":null,\"finish_reason\":");
        json::string(out, block::finish_reason(reason, self.calls > 0));
        block::stop_sequence(out, sequence);
        out.extend_from_slice(b"}]");
        self.close_chunk(out);
    }

    /// Ends an answer of which the upstream says that it is whole, with or without a stop reason.
    fn complete(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Started && self.has_block {
            self.stop("end_turn", None, None, out);
        }
        self.finish(out);
    }

    /// Ends the answer if its stop reason was seen. Some upstreams leave `message_stop` out.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Finished {
            self.end(out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.state = State::Ended;
        if self.include_usage {
            out.extend_from_slice(&self.head);
            out.extend_from_slice(b"],\"usage\":");
            usage::write(&self.usage, out);
            out.extend_from_slice(b"}\n\n");
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

fn is_empty_object(value: &RawValue) -> bool {
    value.get().strip_prefix('{').is_some_and(|rest| rest.trim_start() == "}")
}
