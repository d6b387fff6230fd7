//! Content of prompts and answers in spans: how much of it, and what is redacted.

use regex::Regex;
use serde_json::Value;

/// Capture of prompts and answers in spans.
#[derive(Clone, Debug)]
pub struct CaptureContent {
    /// The most bytes of a prompt, and of an answer.
    pub most: usize,
    /// Patterns of text that is replaced before it leaves the process.
    pub redact: Vec<Regex>,
}

impl PartialEq for CaptureContent {
    fn eq(&self, other: &Self) -> bool {
        let texts = |it: &Self| it.redact.iter().map(|pattern| pattern.as_str().to_owned()).collect::<Vec<_>>();
        self.most == other.most && texts(self) == texts(other)
    }
}

impl CaptureContent {
    /// The mark where a text goes on.
    pub const CUT: &str = "[cut]";
    const REDACTED: &str = "[redacted]";

    /// The messages as they may leave the process. Each text is redacted before it is written as JSON, whose escapes
    /// would hide where a word begins, and before it is cut, so that no half of a secret is left at the end.
    pub fn shown(&self, mut messages: Value) -> String {
        self.redact_all(&mut messages);
        let mut text = messages.to_string();
        if text.len() > self.most {
            text.truncate(text.floor_char_boundary(self.most));
            text += Self::CUT;
        }
        text
    }

    fn redact_all(&self, json: &mut Value) {
        match json {
            Value::String(text) => self.redact(text),
            Value::Array(all) => all.iter_mut().for_each(|it| self.redact_all(it)),
            Value::Object(all) => all.values_mut().for_each(|it| self.redact_all(it)),
            Value::Number(number) => {
                let number = number.to_string();
                if self.redact.iter().any(|pattern| pattern.is_match(&number)) {
                    *json = Value::String(Self::REDACTED.to_owned());
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Puts a mark in the place of each match.
    pub fn redact(&self, text: &mut String) {
        for pattern in &self.redact {
            if pattern.is_match(text) {
                *text = pattern.replace_all(text, Self::REDACTED).into_owned();
            }
        }
    }
}
