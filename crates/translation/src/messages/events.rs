//! Writes the events of a Messages stream.

use signalbox_protocol::Finish;

use crate::{
    chat_answer::Usage,
    json::{number, quoted},
};

/// Begins the answer.
pub(super) fn message_start(out: &mut Vec<u8>, id: &str, model: &str, usage: &Usage) {
    out.extend_from_slice(b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":");
    quoted(out, id);
    out.extend_from_slice(br#","type":"message","role":"assistant","model":"#);
    quoted(out, model);
    out.extend_from_slice(
        br#","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"usage":"#,
    );
    usage.write(out);
    out.extend_from_slice(b"}}\n\n");
}

/// Begins a block; `block` is its JSON up to the closing brace.
fn block_start(out: &mut Vec<u8>, index: u64) {
    out.extend_from_slice(b"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":");
    number(out, index);
    out.extend_from_slice(br#","content_block":"#);
}

pub(super) fn text_start(out: &mut Vec<u8>, index: u64) {
    block_start(out, index);
    // The published schema requires the member; strict clients reject null.
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":\"\",\"citations\":[]}}\n\n");
}

pub(super) fn thinking_start(out: &mut Vec<u8>, index: u64) {
    block_start(out, index);
    out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n");
}

pub(super) fn tool_start(out: &mut Vec<u8>, index: u64, id: &str, name: &str) {
    block_start(out, index);
    out.extend_from_slice(br#"{"type":"tool_use","id":"#);
    quoted(out, id);
    out.extend_from_slice(br#","name":"#);
    quoted(out, name);
    out.extend_from_slice(b",\"input\":{},\"caller\":{\"type\":\"direct\"}}}\n\n");
}

/// Keeps the connection alive where there is nothing to show.
pub(super) fn ping(out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

/// Extends a block by escaped text: `head` is the beginning of the delta up to the text's quote.
fn delta(out: &mut Vec<u8>, index: u64, head: &[u8], text: &[&str]) {
    out.extend_from_slice(b"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
    number(out, index);
    out.extend_from_slice(head);
    for text in text {
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(b"\"}}\n\n");
}

pub(super) fn text_delta(out: &mut Vec<u8>, index: u64, text: &[&str]) {
    delta(out, index, br#","delta":{"type":"text_delta","text":""#, text);
}

pub(super) fn thinking_delta(out: &mut Vec<u8>, index: u64, text: &[&str]) {
    delta(out, index, br#","delta":{"type":"thinking_delta","thinking":""#, text);
}

/// Claude Code shows a thinking block only after its signature.
pub(super) fn signature_delta(out: &mut Vec<u8>, index: u64, signature: &[&str]) {
    delta(out, index, br#","delta":{"type":"signature_delta","signature":""#, signature);
}

pub(super) fn json_delta(out: &mut Vec<u8>, index: u64, json: &str) {
    delta(out, index, br#","delta":{"type":"input_json_delta","partial_json":""#, &[json]);
}

pub(super) fn block_stop(out: &mut Vec<u8>, index: u64) {
    out.extend_from_slice(b"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":");
    number(out, index);
    out.extend_from_slice(b"}\n\n");
}

/// Ends the answer.
pub(super) fn message_end(out: &mut Vec<u8>, stop: &Stop, usage: &Usage) {
    out.extend_from_slice(b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{");
    stop.write(out);
    out.extend_from_slice(br#"},"usage":"#);
    usage.write_end(out);
    out.extend_from_slice(b"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

/// Reports an error; `body` is an error object of the API.
pub(super) fn error(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(b"event: error\ndata: ");
    out.extend_from_slice(body);
    out.extend_from_slice(b"\n\n");
}

/// The end of an answer.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) reason: &'static str,
    /// The stop sequence, escaped.
    pub(super) sequence: Option<String>,
}

impl Stop {
    /// The end for a chat finish reason. Engines disagree on the reason of an answer that ends in calls.
    pub(super) fn new(finish: &str, sequence: Option<&str>, called: bool, refused: bool) -> Self {
        let reason = match Finish::read(finish) {
            Finish::Length if finish == "model_context_window_exceeded" => "model_context_window_exceeded",
            Finish::Length => "max_tokens",
            Finish::Filter => "refusal",
            _ if refused => "refusal",
            _ if called => "tool_use",
            _ if finish == "stop" && sequence.is_some() => "stop_sequence",
            _ => "end_turn",
        };
        let sequence = sequence.filter(|_| reason == "stop_sequence");
        Self { reason, sequence: sequence.map(str::to_owned) }
    }

    /// Appends its members, of which a chat answer has only two.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#""stop_reason":"#);
        quoted(out, self.reason);
        out.extend_from_slice(br#","stop_sequence":"#);
        match &self.sequence {
            Some(sequence) => quoted(out, sequence),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(br#","stop_details":null,"container":null"#);
    }
}
