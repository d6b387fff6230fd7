//! Entry point for fuzzers.

use super::{Item, NewResponse, StateId, list::listed, object::written};
use signalbox_protocol::json::{is_json, members};

/// Reads any bytes as a Response object, as an item and as an id.
///
/// # Panics
/// If a stored object or a listed item comes out as something else than JSON, or an object loses a member.
pub fn fuzz_stored_responses(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(id) = StateId::read(text) {
        assert!(text.contains(id.root) && text.contains(StateId::MARK));
    }
    if !is_json(bytes) {
        return;
    }
    assert!(is_json(listed("msg_1", text).as_bytes()), "a listed item is broken");
    let Some(NewResponse { pieces, output, .. }) = NewResponse::read(text, vec![Item::new(text)]) else { return };
    let again = written(&pieces, &output);
    let count = |text: &str| members(text.as_bytes()).map(|found| found.len()).ok();
    assert_eq!(count(&again), count(text), "a stored object changed: {again}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_every_kind_pass() {
        for text in ["resp_sb", "[]", "{}", "null", r#"{"id":"a","output":[{},"]"],"content":"x","type":null}"#] {
            fuzz_stored_responses(text.as_bytes());
        }
    }
}
