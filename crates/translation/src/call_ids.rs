//! Ids of tool calls in chat requests, in the form that a provider accepts.
//!
//! A conversation that moves to another provider brings the ids that the first one gave its calls. An id that the new one
//! rejects is replaced by a hash of itself: the same for a call and its result and in every later request, so that prompt
//! caches keep their prefix. All other bytes stay as they are.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::Range,
};

use serde::Deserialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::json;

/// The ids that a provider accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallIds {
    /// Exactly nine letters and digits.
    Mistral,
    /// Any, up to a length in bytes.
    AtMost(usize),
}

/// The characters of new ids.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The member of a result. Within a string, its last quote would be escaped.
const MEMBER: &[u8] = b"\"tool_call_id\"";

/// The length of Mistral's ids.
const MISTRAL: usize = 9;

#[derive(Deserialize)]
struct Conversation<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    tool_calls: Option<Vec<Call<'a>>>,
    #[serde(borrow)]
    tool_call_id: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

impl CallIds {
    /// True if a chat request may have a result whose id is rejected, told without reading the request. Each call has a result
    /// where a provider checks ids.
    #[must_use]
    pub fn may_reject(self, body: &[u8]) -> bool {
        memchr::memmem::find_iter(body, MEMBER).any(|at| {
            let value = body[at + MEMBER.len()..].trim_ascii_start();
            let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii_start();
            let Some(text) = value.strip_prefix(b"\"") else { return false };
            let end = memchr::memchr(b'"', text).unwrap_or(text.len());
            // Escapes are rare, and are decoded when the request is read.
            std::str::from_utf8(&text[..end]).is_ok_and(|id| id.contains('\\') || !self.accepts(id))
        })
    }

    fn accepts(self, id: &str) -> bool {
        match self {
            Self::Mistral => id.len() == MISTRAL && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            Self::AtMost(length) => id.len() <= length,
        }
    }

    /// An accepted id made of a hash. `attempt` counts those that were taken.
    fn hashed(self, id: &str, attempt: u64) -> String {
        let mut rest = xxh3_64_with_seed(id.as_bytes(), attempt);
        // Nine of 62 characters hold 53 bits; ids that may be longer hold all 64.
        let (mut out, digits) = match self {
            Self::Mistral => (String::with_capacity(MISTRAL), MISTRAL),
            Self::AtMost(_) => ("call_".to_owned(), 11),
        };
        for _ in 0..digits {
            out.push(char::from(ALPHABET[(rest % 62) as usize]));
            rest /= 62;
        }
        out
    }
}

/// A chat request whose calls and results have ids that a provider accepts. `None` if they have already.
#[must_use]
pub fn with_call_ids(body: &[u8], accepted: CallIds) -> Option<Vec<u8>> {
    memchr::memmem::find(body, b"tool_call")?;
    let Conversation { messages } = serde_json::from_slice(body).ok()?;
    let ids = || {
        messages.iter().flat_map(|message| {
            let calls = message.tool_calls.iter().flatten().filter_map(|call| call.id);
            calls.chain(message.tool_call_id)
        })
    };
    let mut taken: HashSet<Cow<'_, str>> = ids().filter_map(json::text).filter(|id| accepted.accepts(id)).collect();
    let mut known: HashMap<Cow<'_, str>, String> = HashMap::new();
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    for raw in ids() {
        let Some(id) = json::text(raw).filter(|id| !accepted.accepts(id)) else { continue };
        let new = known.entry(id).or_insert_with_key(|id| {
            let mut attempt = 0;
            let mut fresh = accepted.hashed(id, attempt);
            while !taken.insert(Cow::Owned(fresh.clone())) {
                attempt += 1;
                fresh = accepted.hashed(id, attempt);
            }
            fresh
        });
        let start = raw.get().as_ptr() as usize - body.as_ptr() as usize;
        changes.push((start..start + raw.get().len(), new.clone()));
    }
    if changes.is_empty() {
        return None;
    }
    // The members of a message may stand in any order.
    changes.sort_unstable_by_key(|(range, _)| range.start);
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    for (range, id) in changes {
        out.extend_from_slice(&body[at..range.start]);
        json::quoted(&mut out, &id);
        at = range.end;
    }
    out.extend_from_slice(&body[at..]);
    Some(out)
}

/// Fuzz target: replaces the ids in arbitrary bytes. The result must be JSON with accepted ids, and stay as it is.
///
/// # Panics
/// If it is not.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz_call_ids(bytes: &[u8]) {
    for accepted in [CallIds::Mistral, CallIds::AtMost(40)] {
        let _ = accepted.may_reject(bytes);
        if let Some(body) = with_call_ids(bytes, accepted) {
            assert!(json::is_json(&body), "not JSON: {}", String::from_utf8_lossy(&body));
            assert_eq!(with_call_ids(&body, accepted), None, "an id is still rejected");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn conversation(ids: &[&str]) -> String {
        let calls: Vec<String> =
            ids.iter().map(|id| format!(r#"{{ "type":"function", "id": "{id}","n":1.0e2 }}"#)).collect();
        let results: Vec<String> = ids
            .iter()
            .map(|id| format!(r#"{{"tool_call_id" :"{id}", "role":"tool","content":"tool_call_id: {id}"}}"#))
            .collect();
        format!(
            r#"{{"model":"m", "messages":[{{"role":"assistant","content":null,"tool_calls":[{}]}}, {}],"x":1e400}}"#,
            calls.join(" , "),
            results.join(",")
        )
    }

    #[test]
    fn accepted_ids_keep_their_bytes() {
        for body in [conversation(&["0fypS1hVX", "abcdefghi"]), conversation(&[]), "{}".into(), "tool_calls".into()] {
            assert_eq!(with_call_ids(body.as_bytes(), CallIds::Mistral), None, "{body}");
        }
        let body = conversation(&[&"a".repeat(40), "toolu_01A"]);
        assert_eq!(with_call_ids(body.as_bytes(), CallIds::AtMost(40)), None);
    }

    #[test]
    fn a_call_and_its_result_get_the_same_id_in_every_request() {
        let ids = ["call_0fypS1hVX", "call_0fypS1hVY", "0fypS1hVX", r"f\u00e9.0", ""];
        let got = String::from_utf8(with_call_ids(conversation(&ids).as_bytes(), CallIds::Mistral).unwrap()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&got.replace("1e400", "1")).unwrap();
        let calls = value["messages"][0]["tool_calls"].as_array().unwrap();
        let found: Vec<&str> = calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
        assert_eq!(found.len(), ids.len());
        assert!(found.iter().all(|id| CallIds::Mistral.accepts(id)), "{found:?}");
        assert_eq!(found[2], "0fypS1hVX");
        let results: Vec<&str> =
            value["messages"].as_array().unwrap()[1..].iter().map(|it| it["tool_call_id"].as_str().unwrap()).collect();
        assert_eq!(found, results);
        // Everything else keeps its bytes.
        let mut want = conversation(&ids);
        for (old, new) in ids.iter().zip(&found) {
            want = want.replacen(&format!(r#""id": "{old}""#), &format!(r#""id": "{new}""#), 1);
            want = want.replacen(&format!(r#""tool_call_id" :"{old}""#), &format!(r#""tool_call_id" :"{new}""#), 1);
        }
        assert_eq!(got, want);
        // A longer conversation begins with the same ids.
        let longer = [&ids[..], &["call_later"]].concat();
        let longer = with_call_ids(conversation(&longer).as_bytes(), CallIds::Mistral).unwrap();
        assert!(String::from_utf8(longer).unwrap().contains(&format!(r#""id": "{}""#, found[0])));
    }

    #[test]
    fn rejected_ids_are_noticed_without_reading_the_request() {
        let rejects = |ids: &[&str]| CallIds::Mistral.may_reject(conversation(ids).as_bytes());
        assert!(!rejects(&[]) && !rejects(&["0fypS1hVX", "abcdefghi"]));
        assert!(rejects(&["0fypS1hVX", "call_1"]) && rejects(&[r"\u0061bcdefghi"]));
        for body in [r#"{"content":"\"tool_call_id\":\"call_1\""}"#, r#"{"tool_call_id":null}"#, r#"{"tool_call_id""#] {
            assert!(!CallIds::Mistral.may_reject(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn long_ids_are_shortened() {
        let ids = ["call_1", &"call_".repeat(9)];
        let got = with_call_ids(conversation(&ids).as_bytes(), CallIds::AtMost(40)).unwrap();
        let got = String::from_utf8(got).unwrap();
        assert!(got.contains(r#""id": "call_1""#) && !got.contains(&format!("\"{}\"", ids[1])), "{got}");
    }

    #[test]
    fn taken_ids_are_not_given_again() {
        let new = CallIds::Mistral.hashed("call_1", 0);
        let got = with_call_ids(conversation(&["call_1", &new]).as_bytes(), CallIds::Mistral).unwrap();
        let got = String::from_utf8(got).unwrap();
        assert!(got.contains(&format!(r#""id": "{}""#, CallIds::Mistral.hashed("call_1", 1))), "{got}");
    }

    proptest! {
        #[test]
        fn any_ids_stay_apart(ids in proptest::collection::hash_set("[a-zA-Z0-9_.:]{0,12}", 1..20)) {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let body = conversation(&ids);
            fuzz_call_ids(body.as_bytes());
            let got = with_call_ids(body.as_bytes(), CallIds::Mistral).unwrap_or_else(|| body.clone().into_bytes());
            let got: Conversation<'_> = serde_json::from_slice(&got).unwrap();
            let new: HashSet<&str> = got.messages[0].tool_calls.iter().flatten().map(|call| call.id.unwrap().get()).collect();
            prop_assert_eq!(new.len(), ids.len());
        }
    }
}
