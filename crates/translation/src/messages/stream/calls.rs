//! Tool calls in a stream of Messages, and the output that waits for them: blocks follow one another, while chat engines may
//! interleave the fragments of calls.

use super::{Answer, Open, Waiting};
use crate::{
    Malformed,
    call_arguments::Rest,
    chat_answer::CallDelta,
    messages::{events, whole},
};

/// The most bytes of text that wait for the end of a call.
const MOST_WAITING: usize = 4 << 20;

impl Answer {
    /// True if the current call is not complete, so that what comes now must follow it.
    pub(super) fn must_wait(&mut self) -> bool {
        let current = self.current_call.and_then(|at| self.calls.get(at));
        current.is_some_and(|call| call.name.is_empty() || !call.arguments.is_complete())
    }

    pub(super) fn wait(&mut self, text: &str, open: Open) -> Result<(), Malformed> {
        self.waiting_size += text.len();
        if self.waiting_size > MOST_WAITING {
            return Err(Malformed("the backend began a tool call and did not complete it".to_owned()));
        }
        match (self.waiting.back_mut(), open) {
            (Some(Waiting::Text(waiting)), Open::Text) | (Some(Waiting::Thinking(waiting, _)), Open::Thinking(_)) => {
                waiting.push_str(text);
            }
            (_, Open::Thinking(field)) => self.waiting.push_back(Waiting::Thinking(text.to_owned(), field)),
            _ => self.waiting.push_back(Waiting::Text(text.to_owned())),
        }
        Ok(())
    }

    pub(super) fn call(&mut self, delta: &CallDelta<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let known = self.calls.len();
        let Some(at) = self.calls.add(delta)? else { return Ok(()) };
        self.deltas += 1;
        self.state.note_call(at, delta);
        if at == known {
            if self.must_wait() {
                self.waiting.push_back(Waiting::Call(at));
            } else {
                self.end_call(out)?;
                self.current_call = Some(at);
            }
        }
        self.show_call(out);
        while !self.waiting.is_empty() && !self.must_wait() {
            self.next(out)?;
        }
        Ok(())
    }

    /// Shows what has arrived of the current call, once its name is known.
    pub(super) fn show_call(&mut self, out: &mut Vec<u8>) {
        let Some(at) = self.current_call else { return };
        let Some(call) = self.calls.get(at).filter(|call| !call.name.is_empty()) else { return };
        let (name, arguments) = (call.name.clone(), std::mem::take(&mut call.unshown));
        if self.open != Open::Call {
            self.stop_block(out);
            self.open = Open::Call;
            self.called = true;
            let id = self.calls.unique_id(at).map_or_else(|| self.calls.new_id(at), str::to_owned);
            events::tool_start(out, self.index, &self.state.call_id(at, &id), &name);
        }
        if !arguments.is_empty() {
            events::json_delta(out, self.index, &arguments);
        }
    }

    /// Ends the current call and shows what comes next of what waits.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        self.end_call(out)?;
        match self.waiting.pop_front() {
            None => {}
            Some(Waiting::Text(text)) => self.show(&text, Open::Text, out),
            Some(Waiting::Thinking(text, field)) => self.show(&text, Open::Thinking(field), out),
            Some(Waiting::Call(at)) => {
                self.current_call = Some(at);
                self.show_call(out);
            }
        }
        Ok(())
    }

    /// Ends the current call, if there is one. One that said nothing but an id is none.
    pub(super) fn end_call(&mut self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        let Some(call) = self.current_call.take().and_then(|at| self.calls.get(at)) else { return Ok(()) };
        let rest = call.arguments.finish();
        if self.open != Open::Call {
            return if rest == Rest::None {
                Ok(())
            } else {
                Err(Malformed("the backend made a tool call without a name".to_owned()))
            };
        }
        match rest {
            Rest::None => {}
            Rest::Text(rest) if rest.is_empty() => {}
            Rest::Text(rest) => events::json_delta(out, self.index, &rest),
            Rest::NoObject(text) => events::json_delta(out, self.index, &whole::invalid_arguments(&text)),
        }
        self.stop_block(out);
        Ok(())
    }
}
