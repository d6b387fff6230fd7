//! Rewrites the members of a request's body that must change; every other byte is kept.

use std::{borrow::Cow, ops::Range};

use bytes::Bytes;

use super::request::RequestBody;

/// The changes on the way to a backend.
#[derive(Copy, Clone, Debug, Default)]
pub struct Edits<'a> {
    /// The model's name upstream.
    pub model: Option<&'a str>,
    /// Requests the usage chunk.
    pub include_usage: bool,
    /// Drops `cache`, if it is meant for the gateway.
    pub drop_cache: bool,
    /// Top-level members to drop.
    pub drop: &'a [String],
    /// Top-level member to rename, by its old and its new name, unless it has the new one as well.
    pub rename: Option<(&'a str, &'a str)>,
    /// Top-level member to give another value, or to add.
    pub replace: Option<(&'a str, &'a [u8])>,
    /// Top-level members to add if they are absent.
    pub defaults: &'a [(String, Bytes)],
}

impl RequestBody {
    /// The body with `edits` applied. Without changes it shares the same bytes.
    pub fn edited(&self, edits: &Edits<'_>) -> Bytes {
        let mut changes: Vec<(Range<usize>, Cow<'_, [u8]>)> = Vec::new();
        let dropped = |name: &[u8]| {
            edits.drop.iter().any(|drop| drop.as_bytes() == name) || (edits.drop_cache && name == b"cache")
        };
        // A form has no members that could be dropped.
        let renamed =
            |model: &&str| self.model.as_deref() != Some(*model) && (self.members.is_empty() || !dropped(b"model"));
        if let (Some(model), Some(at)) = (edits.model.filter(renamed), &self.model_at) {
            let text = if self.members.is_empty() { model.to_owned() } else { quoted(model) };
            changes.push((at.clone(), text.into_bytes().into()));
        }
        if !self.members.is_empty() {
            let mut added = Vec::new();
            if edits.include_usage && !self.include_usage && !dropped(b"stream_options") {
                match self.members.iter().find(|member| member.name(&self.bytes) == b"stream_options") {
                    None => added.extend_from_slice(br#","stream_options":{"include_usage":true}"#),
                    Some(member) => {
                        let old = &self.bytes[member.value.clone()];
                        changes.push((member.value.clone(), with_usage(old).into()));
                    }
                }
            }
            if let Some((from, to)) =
                edits.rename.filter(|(from, to)| !dropped(from.as_bytes()) && self.member(to).is_none())
            {
                let found = self.members.iter().filter(|member| member.name(&self.bytes) == from.as_bytes());
                changes.extend(found.map(|member| (member.key.clone(), quoted(to).into_bytes().into())));
            }
            if let Some((name, value)) = edits.replace {
                let found = self.members.iter().filter(|member| member.name(&self.bytes) == name.as_bytes());
                let before = changes.len();
                changes.extend(found.map(|member| (member.value.clone(), Cow::Borrowed(value))));
                if changes.len() == before {
                    added.extend_from_slice(&[b",", quoted(name).as_bytes(), b":", value].concat());
                }
            }
            for (name, value) in edits.defaults.iter().filter(|(name, _)| self.member(name).is_none()) {
                added.push(b',');
                added.extend_from_slice(quoted(name).as_bytes());
                added.push(b':');
                added.extend_from_slice(value);
            }
            self.drop_members(&dropped, &mut changes);
            if let Some(last) = self.members.last().filter(|_| !added.is_empty()) {
                let end = last.value.end;
                let kept = self.members.iter().any(|member| !dropped(member.name(&self.bytes)));
                changes.push((end..end, added.split_off(usize::from(!kept)).into()));
            }
        }
        splice(&self.bytes, changes)
    }

    /// Removes members together with the comma that separates them from the next one, or from the previous one.
    fn drop_members(&self, dropped: &dyn Fn(&[u8]) -> bool, changes: &mut Vec<(Range<usize>, Cow<'_, [u8]>)>) {
        let mut kept_end = None;
        for (at, member) in self.members.iter().enumerate() {
            if !dropped(member.name(&self.bytes)) {
                kept_end = Some(member.value.end);
            } else if let Some(next) = self.members.get(at + 1) {
                changes.push((member.key.start..next.key.start, Cow::Borrowed(b"")));
            } else {
                changes.push((kept_end.unwrap_or(member.key.start)..member.value.end, Cow::Borrowed(b"")));
            }
        }
    }
}

/// A `stream_options` value that requests usage and keeps its other members.
fn with_usage(old: &[u8]) -> Vec<u8> {
    let Ok(mut options) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(old) else {
        return br#"{"include_usage":true}"#.to_vec();
    };
    options.insert("include_usage".to_owned(), true.into());
    serde_json::Value::Object(options).to_string().into_bytes()
}

pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// `text` with each range replaced. If ranges overlap, the one that begins first takes the shared bytes.
fn splice(text: &Bytes, mut changes: Vec<(Range<usize>, Cow<'_, [u8]>)>) -> Bytes {
    if changes.is_empty() {
        return text.clone();
    }
    changes.sort_by_key(|(range, _)| range.start);
    let added: usize = changes.iter().map(|(_, new)| new.len()).sum();
    let mut out = Vec::with_capacity(text.len() + added);
    let mut at = 0;
    for (range, new) in changes {
        if range.start >= at {
            out.extend_from_slice(&text[at..range.start]);
        }
        out.extend_from_slice(&new);
        at = at.max(range.end);
    }
    out.extend_from_slice(&text[at..]);
    out.into()
}

/// Fuzz target: reads arbitrary bytes as every kind of body and edits the accepted ones. The result must be JSON again.
///
/// # Panics
/// If an edit breaks a body, or changes one that it should not.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_request(input: &[u8]) {
    use crate::json;
    use signalbox_types::Endpoint;

    let bytes = Bytes::copy_from_slice(input);
    for endpoint in Endpoint::ALL {
        let Ok(body) = RequestBody::json(endpoint, bytes.clone()) else { continue };
        assert_eq!(body.edited(&Edits::default()), bytes, "a body without edits must stay as it is");
        let edits = Edits {
            model: Some("a \"name\""),
            include_usage: true,
            drop_cache: true,
            drop: &["a".to_owned(), "top_k".to_owned()],
            rename: Some(("max_tokens", "max_completion_tokens")),
            replace: Some(("input", b"[]")),
            defaults: &[("b".to_owned(), Bytes::from_static(b"[1]"))],
        };
        let edited = body.edited(&edits);
        assert!(json::members(&edited).is_ok(), "an edit broke the body: {}", String::from_utf8_lossy(&edited));
    }
    if let Ok(body) = RequestBody::json_for(Endpoint::Chat, bytes.clone(), Some("a \"name\"")) {
        assert_eq!(body.model.as_deref(), Some("a \"name\""));
    }
    let _ = RequestBody::form(bytes, "x");
}
