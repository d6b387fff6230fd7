//! The translator of answers.

use super::{AnswerTranslator, Malformed, stream::Stream, whole};
use signalbox_protocol::json::repaired;

/// Translates an answer of Messages into a chat completion.
#[derive(Debug)]
pub struct Answer {
    created: u64,
    stream: Stream,
}

impl Answer {
    /// A translator whose completion has the time `created`, in seconds since 1970. `include_usage` appends the usage
    /// chunk to a stream.
    #[must_use]
    pub fn new(created: u64, include_usage: bool) -> Self {
        Self { created, stream: Stream::new(created, include_usage) }
    }
}

impl AnswerTranslator for Answer {
    fn event(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let start = out.len();
        let text = repaired(data);
        self.stream.event(text.as_deref().unwrap_or(data), out).inspect_err(|_| out.truncate(start))
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.stream.finish(out);
    }

    fn whole(&mut self, body: &[u8]) -> Result<Vec<u8>, Malformed> {
        let text = repaired(body);
        whole::translate(text.as_deref().unwrap_or(body), self.created)
    }
}
