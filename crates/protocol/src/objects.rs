//! Objects stored at providers: their ids in paths, request bodies and answers.

use memchr::{memchr, memmem};

use super::{
    RequestBody,
    walk::{elements, member, members, string, string_end, unescape},
};
use signalbox_types::object::ObjectKind;

/// The objects that a path addresses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ObjectPath<'a> {
    /// All objects of a kind: POST creates one, GET lists them.
    All(ObjectKind),
    /// One object, or a resource below it.
    One(ObjectKind, &'a str),
}

/// The longest id that is accepted, in bytes.
const LONGEST_ID: usize = 512;

/// Members whose values are ids, at any depth.
const REFERENCES: [&str; 8] = [
    "file_id",
    "file_ids",
    "input_file_id",
    "training_file",
    "validation_file",
    "previous_response_id",
    "vector_store_id",
    "vector_store_ids",
];
/// Members with what only the account that made it can read: ids of items and containers, encrypted texts.
const STATES: [&str; 4] = ["id", "container_id", "container", "encrypted_content"];
/// Parts of these names, one of which any body with a reference contains. An escape may encode a plain letter.
const HINTS: [&str; 5] = ["file_id", "training_file", "previous_response_id", "vector_store_id", "\\u00"];

/// The objects that a canonical `path` addresses, if any.
pub fn of_path(path: &str) -> Option<ObjectPath<'_>> {
    let mut segments = path.strip_prefix("/v1/")?.split('/');
    let kind = match segments.next()? {
        "files" => ObjectKind::File,
        "uploads" => ObjectKind::Upload,
        "batches" => ObjectKind::Batch,
        "responses" | "conversations" => ObjectKind::Response,
        "vector_stores" => ObjectKind::VectorStore,
        "videos" => ObjectKind::Video,
        "fine_tuning" if segments.next() == Some("jobs") => ObjectKind::FineTuningJob,
        "messages" if segments.next() == Some("batches") => ObjectKind::Batch,
        _ => return None,
    };
    match segments.next() {
        None => Some(ObjectPath::All(kind)),
        // These store nothing.
        Some("input_tokens" | "compact") if kind == ObjectKind::Response => None,
        Some(id) => Some(ObjectPath::One(kind, id)),
    }
}

/// The first object in `body` for which `is_refused` returns true: the field and the id.
pub fn find_reference(body: &RequestBody, mut is_refused: impl FnMut(&str) -> bool) -> Option<(&'static str, String)> {
    let conversation = body.member("conversation");
    let conversation = conversation.and_then(|raw| string(raw).or_else(|| string(member(raw, "id")?))).map(text);
    if let Some(id) = conversation.filter(|id| is_refused(id)) {
        return Some(("conversation", id));
    }
    let json = body.bytes();
    // Most bodies contain no reference.
    let may_have = |words: &str| memmem::find(json, words.as_bytes()).is_some();
    if !body.is_json() || !HINTS.into_iter().any(may_have) {
        return None;
    }
    named(json, &REFERENCES).find_map(|(field, value)| {
        let id = strings(value).map(text).find(|id| is_refused(id))?;
        Some((field, id))
    })
}

/// Calls `each` with what the input of a request in the Responses API takes from earlier answers, in order: an id, or an
/// encrypted text, and true if the provider must have it stored.
pub fn states_named(body: &RequestBody, mut each: impl FnMut(&str, bool)) {
    let names = ["\"id\"", "\"encrypted_content\"", "\"container"];
    if !names.into_iter().any(|name| memmem::find(body.bytes(), name.as_bytes()).is_some()) {
        return;
    }
    for item in body.member("input").into_iter().flat_map(elements) {
        let is_stored = member(item, "type").and_then(string) == Some(b"item_reference");
        states(item, |id| each(id, is_stored));
    }
    for tool in body.member("tools").into_iter().flat_map(elements) {
        states(tool, |id| each(id, true));
    }
}

/// Calls `each` with the ids and the encrypted texts in an answer of the Responses API, or in an event of one.
pub fn states(json: &[u8], mut each: impl FnMut(&str)) {
    let found = named(json, &STATES).flat_map(|(_, value)| strings(value));
    found.filter_map(|id| std::str::from_utf8(id).ok()).filter(|id| !id.is_empty()).for_each(&mut each);
}

/// True for an event with a complete item.
pub fn ends_item(event: &[u8]) -> bool {
    memmem::find(event, b"response.output_item.done").is_some()
}

/// The members with one of these names, at any depth: the name, and the text from its value on. Names and values within
/// strings do not count.
fn named<'j>(json: &'j [u8], names: &'static [&'static str]) -> impl Iterator<Item = (&'static str, &'j [u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(start) = memchr(b'"', &json[at..]).map(|found| at + found) {
            at = string_end(json, start);
            let value = json[at..].trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
            let Some((value, name)) = value.zip(string(&json[start..at])) else { continue };
            let is_it = |wanted: &&&str| {
                if name.contains(&b'\\') { text(name) == **wanted } else { name == wanted.as_bytes() }
            };
            if let Some(name) = names.iter().find(is_it) {
                return Some((*name, value));
            }
        }
        None
    })
}

/// The string at the start of `value`, or the strings in the list at its start. Linear: nested values are not searched.
fn strings(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut rest, is_list) = value.strip_prefix(b"[").map_or((value, false), |rest| (rest, true));
    let mut over = false;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        if over || rest.first() != Some(&b'"') {
            return None;
        }
        let (found, after) = rest.split_at(string_end(rest, 0));
        let after = after.trim_ascii_start();
        over = !is_list || after.first() != Some(&b',');
        rest = after.get(1..).unwrap_or_default();
        string(found)
    })
}

fn text(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len());
    unescape(raw, &mut text);
    text
}

/// The id of the object in an answer, which may be incomplete.
pub fn id(answer: &[u8]) -> Option<&str> {
    plain(member(answer.trim_ascii_start(), "id")?)
}

/// The id of the response that an event belongs to.
pub fn event_id(event: &[u8]) -> Option<&str> {
    let data = event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data:"))?;
    plain(member(member(data.trim_ascii(), "response")?, "id")?)
}

/// The ids of files that an answer's object has produced: a completed batch, upload or fine-tuning job.
pub fn files_made(answer: &[u8]) -> impl Iterator<Item = &str> {
    let made = members(answer.trim_ascii_start()).filter_map(|(name, value)| match name {
        b"output_file_id" | b"error_file_id" | b"result_files" => Some(value),
        b"file" => member(value, "id"),
        _ => None,
    });
    made.flat_map(strings).filter_map(plain_text)
}

/// An id that needs no decoding.
fn plain(raw: &[u8]) -> Option<&str> {
    plain_text(string(raw)?)
}

/// The text of a string that is an id and needs no decoding.
fn plain_text(text: &[u8]) -> Option<&str> {
    let id = std::str::from_utf8(text).ok()?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    ((1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_plain)).then_some(id)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use signalbox_types::Endpoint;

    #[test]
    fn paths_name_objects() {
        for (path, want) in [
            ("/v1/files", Some(ObjectPath::All(ObjectKind::File))),
            ("/v1/files/file-1/content", Some(ObjectPath::One(ObjectKind::File, "file-1"))),
            ("/v1/uploads/u/complete", Some(ObjectPath::One(ObjectKind::Upload, "u"))),
            ("/v1/messages/batches", Some(ObjectPath::All(ObjectKind::Batch))),
            ("/v1/messages/batches/b/results", Some(ObjectPath::One(ObjectKind::Batch, "b"))),
            ("/v1/vector_stores/vs_1/files", Some(ObjectPath::One(ObjectKind::VectorStore, "vs_1"))),
            ("/v1/videos", Some(ObjectPath::All(ObjectKind::Video))),
            ("/v1/fine_tuning/jobs/ftjob-1", Some(ObjectPath::One(ObjectKind::FineTuningJob, "ftjob-1"))),
            ("/v1/responses/resp_1/input_items", Some(ObjectPath::One(ObjectKind::Response, "resp_1"))),
            ("/v1/conversations/conv_1/items", Some(ObjectPath::One(ObjectKind::Response, "conv_1"))),
            ("/v1/responses/input_tokens", None),
            ("/v1/messages/count_tokens", None),
            ("/v1/chat/completions", None),
        ] {
            assert_eq!(of_path(path), want, "{path}");
        }
    }

    fn refused(json: &str) -> Option<(&'static str, String)> {
        let body = RequestBody::json(Endpoint::Responses, Bytes::copy_from_slice(json.as_bytes())).unwrap();
        find_reference(&body, |id| id == "theirs")
    }

    #[test]
    fn references_are_found_in_any_notation() {
        for (json, field) in [
            (r#"{"previous_response_id":"theirs"}"#, "previous_response_id"),
            (r#"{"previous_respons\u0065_id" : "th\u0065irs"}"#, "previous_response_id"),
            (r#"{"conversation":"theirs"}"#, "conversation"),
            (r#"{"conv\u0065rsation":{"id":"theirs"}}"#, "conversation"),
            (r#"{"input":[{"content":[{"type":"input_file","file_id":"theirs"}]}]}"#, "file_id"),
            (r#"{"input":[{"x":"\"file_id\":"},{"f\u0069le_id" :  "theirs"}]}"#, "file_id"),
            (r#"{"tools":[{"container":{"file_ids":["mine", "theirs"]}}]}"#, "file_ids"),
            (r#"{"input_file_id":"mine","x":{"input_file_id":"theirs"}}"#, "input_file_id"),
            (r#"{"requests":[{"params":{"previous_response_id":"theirs"}}]}"#, "previous_response_id"),
        ] {
            assert_eq!(refused(json), Some((field, "theirs".to_owned())), "{json}");
        }
        for json in [
            r#"{"input":"\"file_id\":\"theirs\""}"#,
            r#"{"input":"file_id","x":"theirs"}"#,
            r#"{"file_id":"mine","input":"theirs"}"#,
            r#"{"file_ids":["mine",{"a":"theirs"}],"b":["theirs"]}"#,
            r#"{"previous_response_id":null,"x":"theirs"}"#,
        ] {
            assert_eq!(refused(json), None, "{json}");
        }
    }

    #[test]
    fn state_is_found_in_answers_and_requests() {
        let item = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA="}"#;
        let mut made = Vec::new();
        let answer = format!(
            r#"{{"id":"resp_1","output":[{item},{{"type":"code_interpreter_call","id":"ci_1","container_id":"cntr_1"}}],"text":"\\"id\\":\\"x\\""}}"#
        );
        states(answer.as_bytes(), |id| made.push(id.to_owned()));
        assert_eq!(made, ["resp_1", "rs_1", "gAAA=", "ci_1", "cntr_1"]);
        let event = format!(
            "event: response.output_item.done\ndata: {{\"type\":\"response.output_item.done\",\"item\":{item}}}\n\n"
        );
        made.clear();
        states(event.as_bytes(), |id| made.push(id.to_owned()));
        assert!(ends_item(event.as_bytes()) && made == ["rs_1", "gAAA="]);
        let request = format!(
            r#"{{"model":"m","input":[{{"type":"item_reference","id":"msg_1"}},{item},{{"role":"user","content":"id"}}],"tools":[{{"type":"code_interpreter","container":"cntr_1"}}]}}"#
        );
        let body = RequestBody::json(Endpoint::Responses, request.into()).unwrap();
        let mut named = Vec::new();
        states_named(&body, |id, is_stored| named.push((id.to_owned(), is_stored)));
        let named: Vec<_> = named.iter().map(|(id, is_stored)| (&**id, *is_stored)).collect();
        assert_eq!(named, [("msg_1", true), ("rs_1", false), ("gAAA=", false), ("cntr_1", true)]);
    }

    #[test]
    fn created_objects_are_found_in_answers() {
        let batch = br#" {"metadata":{"id":"fake","output_file_id":"fake"},"id":"batch_1","output_file_id":"file-2","error_file_id":null}"#;
        assert_eq!(id(batch), Some("batch_1"));
        assert_eq!(files_made(batch).collect::<Vec<_>>(), ["file-2"]);
        assert_eq!(files_made(br#"{"id":"u","file":{"x":1,"id":"file-3"}}"#).collect::<Vec<_>>(), ["file-3"]);
        let event =
            b"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n";
        assert_eq!(event_id(event), Some("resp_1"));
        for cut in [&br#"{"id":"resp_"#[..], br#"{"id":"a\""#, br#"{"id""#, b"", br#"{"id":"a b"}"#] {
            assert_eq!(id(cut), None, "{cut:?}");
        }
    }
}
