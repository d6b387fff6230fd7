//! Tools that the provider or the client carries out, offered and in the history.

use serde_json::{Value, json};

use super::{chat, rejected};

/// A conversation whose assistant turn has `blocks` and a text.
fn after(blocks: &[Value]) -> Value {
    let mut blocks = blocks.to_vec();
    blocks.push(json!({"type": "text", "text": "found", "citations": null}));
    json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "x"}, {"role": "assistant", "content": blocks}, {"role": "user", "content": "and?"},
    ]})
}

fn content(blocks: &[Value]) -> (String, Vec<String>) {
    let (body, dropped) = chat(&after(blocks));
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(3), "{body}");
    (body["messages"][1]["content"].as_str().unwrap().to_owned(), dropped)
}

#[test]
fn results_of_the_providers_tools_become_text() {
    let called = |kind: &str, name: &str, input: Value| json!({"type": kind, "id": "s1", "name": name, "input": input});
    let result = |kind: &str, content: Value| json!({"type": kind, "tool_use_id": "s1", "content": content});
    for (call, result, want) in [
        (
            called("server_tool_use", "web_search", json!({"query": "it's"})),
            result(
                "web_search_tool_result",
                json!([{"type": "web_search_result", "url": "http://a", "title": "t", "encrypted_content": "e"}]),
            ),
            "<tool_result tool=\"web_search\" input='{\"query\":\"it&apos;s\"}'>\n- t: http://a\n</tool_result>",
        ),
        (
            called("server_tool_use", "web_fetch", json!({"url": "http://a"})),
            result(
                "web_fetch_tool_result",
                json!({"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"}),
            ),
            "<tool_result tool=\"web_fetch\" input='{\"url\":\"http://a\"}'>\nurl_not_accessible\n</tool_result>",
        ),
        (
            called("server_tool_use", "bash_code_execution", json!({})),
            result(
                "bash_code_execution_tool_result",
                json!({"type": "bash_code_execution_result", "stdout": "1\n", "stderr": "", "return_code": 0, "content": []}),
            ),
            "<tool_result tool=\"bash_code_execution\">\n1\n</tool_result>",
        ),
        (
            called("mcp_tool_use", "n", json!({"a": 1})),
            result("mcp_tool_result", json!([{"type": "text", "text": "r"}])),
            "<tool_result tool=\"n\" input='{\"a\":1}'>\nr\n</tool_result>",
        ),
        (
            called("future_tool_use", "n\"", json!(null)),
            result("future_tool_result", json!("r")),
            "<tool_result tool=\"future\">\nr\n</tool_result>",
        ),
    ] {
        let (got, dropped) = content(&[call.clone(), result.clone()]);
        assert_eq!(got, format!("{want}\n\nfound"));
        let names = [&call, &result].map(|block| format!("messages[].content[].{}", block["type"].as_str().unwrap()));
        assert_eq!(dropped, names);
    }
}

#[test]
fn what_cannot_be_read_is_left_out() {
    for block in [
        json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "gone", "content": []}),
        json!({"type": "container_upload", "file_id": "f"}),
        json!({"type": "compaction", "content": null}),
        json!({"type": "a future block", "encrypted": "e"}),
    ] {
        let (got, dropped) = content(std::slice::from_ref(&block));
        assert_eq!((&*got, dropped.len()), ("found", 1), "{block}");
    }
    let (got, _) = content(&[json!({"type": "compaction", "content": "they met"})]);
    assert_eq!(got, "Summary of the conversation so far:\nthey met\n\nfound");
}

#[test]
fn blocks_of_the_user_become_text_or_are_left_out() {
    let (body, dropped) =
        chat(&json!({"model": "m", "max_tokens": 9, "container": "c", "messages": [{"role": "user", "content": [
            {"type": "container_upload", "file_id": "f"},
            {"type": "mcp_tool_result", "tool_use_id": "m", "content": [{"type": "text", "text": "r"}]},
            {"type": "text", "text": "x"},
        ]}]}));
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        body["messages"][0]["content"],
        json!([text("<tool_result tool=\"mcp\">\nr\n</tool_result>"), text("x")])
    );
    assert_eq!(dropped, ["messages[].content[].container_upload", "messages[].content[].mcp_tool_result", "container"]);
}

#[test]
fn offered_tools_of_the_provider_are_left_out_beside_others() {
    let own = json!({"name": "f", "input_schema": {"type": "object"}});
    let search = json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 5});
    let mcp = json!({"type": "mcp_toolset", "mcp_server_name": "s"});
    let mut request = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}],
        "tools": [search, own, mcp], "mcp_servers": [{"type": "url", "name": "s", "url": "u"}], "tool_choice": {"type": "any"}});
    let (body, dropped) = chat(&request);
    assert_eq!(body["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!((&body["tools"][0]["function"]["name"], &body["tool_choice"]), (&json!("f"), &json!("required")));
    assert_eq!(dropped, ["tools[].web_search_20250305", "tools[].mcp_toolset", "mcp_servers"]);

    // Alone, it is what the request is about; in a conversation under way, it is not.
    request["tools"] = json!([search]);
    request["tool_choice"] = json!(null);
    assert_eq!(rejected(&request).0, "mcp_servers");
    request["mcp_servers"] = json!([]);
    assert_eq!(rejected(&request).0, "tools[0].type");
    request["messages"] = after(&[])["messages"].clone();
    let (body, dropped) = chat(&request);
    assert_eq!((body.get("tools"), dropped), (None, vec!["tools[].web_search_20250305".to_owned()]));
    request["tool_choice"] = json!({"type": "any"});
    assert_eq!(rejected(&request).0, "tool_choice");
    request["tool_choice"] = json!({"type": "tool", "name": "web_search"});
    assert_eq!(rejected(&request).0, "tool_choice.name");
}

#[test]
fn tools_that_the_client_carries_out_are_functions() {
    let (body, dropped) = chat(&json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "f"}]},
    ], "tools": [
        {"type": "bash_20250124", "name": "bash", "cache_control": {"type": "ephemeral"}},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 9},
        {"type": "memory_20250818", "name": "memory"},
        {"type": "computer_20250124", "name": "computer", "display_width_px": 1024, "display_height_px": 768},
        {"type": "bash_20241022", "name": "bash"},
    ], "tool_choice": {"type": "tool", "name": "bash"}}));
    let names: Vec<&Value> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["bash", "str_replace_based_edit_tool", "memory", "computer"]);
    for (tool, member) in body["tools"].as_array().unwrap().iter().zip(["command", "path", "old_path", "coordinate"]) {
        assert!(tool["function"]["parameters"]["properties"].get(member).is_some(), "{tool}");
    }
    assert!(body["tools"][3]["function"]["description"].as_str().unwrap().ends_with("1024 x 768 pixels."));
    assert_eq!(body["tool_choice"]["function"]["name"], "bash");
    assert_eq!(body["messages"][1]["tool_calls"][0]["function"]["arguments"], r#"{"command":"ls"}"#);
    assert_eq!(dropped, ["tools[].bash_20241022", "cache_control"]);
}
