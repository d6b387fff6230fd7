//! Raw values, and a JSON object that is written member by member.

pub(super) use crate::json::says_something;
use crate::json::{is_json, string};

/// True if the value is a JSON object; used for arguments that a model wrote.
pub(super) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{') && is_json(text.as_bytes())
}

/// A JSON object under construction.
#[derive(Debug)]
pub(super) struct Object(pub(super) Vec<u8>);

impl Object {
    pub(super) fn new(capacity: usize) -> Self {
        let mut out = Vec::with_capacity(capacity);
        out.push(b'{');
        Self(out)
    }

    /// Begins a member and returns the buffer for its value.
    pub(super) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        if self.0.last() != Some(&b'{') {
            self.0.push(b',');
        }
        string(&mut self.0, name);
        self.0.push(b':');
        &mut self.0
    }

    /// Adds a member whose value is JSON text.
    pub(super) fn json(&mut self, name: &str, value: &str) {
        self.member(name).extend_from_slice(value.as_bytes());
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}
