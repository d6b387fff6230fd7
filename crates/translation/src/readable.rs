//! The readable part of what a provider's tool left in a conversation.
//!
//! Results of searches, of code and of MCP calls are past: any model can read them. The forms differ by tool and grow with
//! every release, so texts are collected by the members that hold them, not by the type of the block; what is encrypted, an
//! id or a file has none of them.

use serde_json::{Map, Value, value::RawValue};

use super::json;

/// The longest kind that is named as it is.
const LONGEST_KIND: usize = 48;

/// Members that hold text or further results, in the order in which they are read.
const MEMBERS: [&str; 22] = [
    "text",
    "summary",
    "transcript",
    "stdout",
    "logs",
    "stderr",
    "output",
    "outputs",
    "result",
    "results",
    "content",
    "lines",
    "old_content",
    "source",
    "data",
    "tool_references",
    "tool_name",
    "tools",
    "sources",
    "error",
    "error_code",
    "message",
];

/// The text that a value holds, line by line; empty if it holds none.
pub(super) fn text(raw: &RawValue) -> String {
    let mut out = String::new();
    if let Ok(value) = json::read::<Value>(raw) {
        add(&value, &mut out);
    }
    out.truncate(out.trim_end().len());
    out
}

/// The name of a kind of block or item in reports. Callers choose the kind, so others than those of an API are not repeated.
pub(super) fn kind_name(kind: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if kind.len() <= LONGEST_KIND && !kind.is_empty() && kind.bytes().all(is_plain) { kind } else { "unknown" }
}

/// A result as text: its tool and the input of the call, if they are known, and what it holds.
pub(super) fn result(tool: &str, input: &str, text: &str) -> String {
    let mut out = format!("<tool_result tool=\"{tool}\"");
    if !matches!(input, "" | "{}" | "null") {
        out.push_str(" input='");
        out.push_str(&input.replace('\'', "&apos;"));
        out.push('\'');
    }
    out.push_str(">\n");
    out.push_str(text);
    out.push_str("\n</tool_result>");
    out
}

fn add(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => line(text, out),
        Value::Array(items) => items.iter().for_each(|item| add(item, out)),
        Value::Object(members) => add_object(members, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn add_object(members: &Map<String, Value>, out: &mut String) {
    let word = |name: &str| members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    // A hit of a search, a page, a file.
    let title = word("title").or_else(|| word("filename"));
    let address = word("url").or_else(|| word("uri"));
    match (title, address) {
        (Some(title), Some(address)) => line(&format!("- {title}: {address}"), out),
        (Some(one), None) | (None, Some(one)) => line(&format!("- {one}"), out),
        (None, None) => {}
    }
    // A file or a picture in base64.
    let is_encoded = word("type") == Some("base64") || word("type") == Some("image");
    for name in MEMBERS {
        if is_encoded && matches!(name, "data" | "result") {
            continue;
        }
        if let Some(value) = members.get(name) {
            add(value, out);
        }
    }
    if let Some(name) = word("name").filter(|_| members.contains_key("input_schema")) {
        line(&format!("- {name}"), out);
    }
    let code = members.get("return_code").or_else(|| members.get("exit_code")).and_then(Value::as_i64);
    if let Some(code) = code.filter(|code| *code != 0) {
        line(&format!("exit code {code}"), out);
    }
    if word("type") == Some("timeout") {
        line("timed out", out);
    }
    if let Some(outcome) = members.get("outcome") {
        add(outcome, out);
    }
}

fn line(text: &str, out: &mut String) {
    let text = text.trim_end();
    if !text.is_empty() {
        out.push_str(text);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> String {
        text(&serde_json::from_str::<Box<RawValue>>(&value.to_string()).unwrap())
    }

    #[test]
    fn texts_are_found_in_the_results_of_every_tool() {
        for (value, want) in [
            (json!("plain\n"), "plain"),
            (
                json!([{"type": "web_search_result", "url": "http://a", "title": "t", "encrypted_content": "e", "page_age": null}]),
                "- t: http://a",
            ),
            (json!({"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}), "max_uses_exceeded"),
            (
                json!({"type": "web_fetch_result", "url": "http://a", "content": {"type": "document", "title": "t",
                    "source": {"type": "text", "media_type": "text/plain", "data": "page"}}}),
                "- http://a\n- t\npage",
            ),
            (
                json!({"type": "web_fetch_result", "url": "http://a", "content": {"type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}}}),
                "- http://a",
            ),
            (
                json!({"type": "bash_code_execution_result", "stdout": "1\n", "stderr": "warn", "return_code": 2,
                    "content": [{"type": "bash_code_execution_output", "file_id": "f"}]}),
                "1\nwarn\nexit code 2",
            ),
            (
                json!({"type": "text_editor_code_execution_view_result", "file_type": "text", "content": "x = 1"}),
                "x = 1",
            ),
            (
                json!([{"type": "text", "text": "r"}, {"type": "image", "source": {"type": "base64", "data": "QUJD"}}]),
                "r",
            ),
            (
                json!({"type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "f"}]}),
                "f",
            ),
            (json!([{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}]), "a\nexit code 1"),
            (json!([{"stdout": "a", "stderr": "", "outcome": {"type": "timeout"}}]), "a\ntimed out"),
            (json!({"type": "future", "id": "x", "encrypted_stdout": "e", "signature": "s", "n": 1, "ok": true}), ""),
        ] {
            assert_eq!(read(&value), want, "{value}");
        }
    }

    #[test]
    fn kinds_of_callers_are_not_repeated() {
        for (kind, want) in [("mcp_call", "mcp_call"), ("", "unknown"), ("a\r\nb", "unknown"), ("É", "unknown")] {
            assert_eq!(kind_name(kind), want);
        }
    }
}
