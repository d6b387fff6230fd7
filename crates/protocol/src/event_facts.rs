//! The facts read from one event of a streamed answer, for every API.

use std::ops::Range;

use super::engine_error::EngineError;
use signalbox_types::Usage;

/// The facts read from one event of a stream.
#[expect(clippy::struct_excessive_bools, reason = "each is a separate thing that an event may say, in any combination")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFacts {
    /// It carries content, reasoning or a tool call: the answer has begun.
    pub token: bool,
    /// Part of that is visible reasoning.
    pub reasoning: bool,
    /// It is a sign of life: anything but a keep-alive.
    pub alive: bool,
    /// Bytes of text in it.
    pub text_bytes: usize,
    /// The range in its data of the only choice's text, as a JSON string, if the event carries nothing else.
    pub text_at: Option<Range<usize>>,
    /// Token counts that it reports.
    pub usage: Option<Usage>,
    /// It carries only usage, so it is hidden from a client that did not request usage.
    pub only_usage: bool,
    /// The answer, or one of its choices, has its complete content (a reason for its end was given).
    pub finished: bool,
    /// The choices in it, one bit per index.
    pub choices: u64,
    /// The choices that it finishes, one bit per index.
    pub finished_choices: u64,
    /// It ends the stream.
    pub done: bool,
    /// It reports an error.
    pub error: Option<EngineError>,
    /// Its data is not JSON, so no client could read it.
    pub broken: bool,
}
