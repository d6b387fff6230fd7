//! Tools of the API that the client or the provider carries out: offered, called and in the history.

use serde_json::{Value, json};

use super::{chat, check_order, names, refused, stream, whole};

fn with(input: &Value, tools: &Value) -> Value {
    json!({"model": "m", "input": input, "tools": tools})
}

/// The messages of a conversation with an item between two of the user, and what was dropped.
fn after(items: &[Value]) -> (Value, Vec<String>) {
    let mut input = vec![json!({"role": "user", "content": "x"})];
    input.extend_from_slice(items);
    input.push(json!({"role": "user", "content": "and?"}));
    let (body, dropped) = chat(&with(&json!(input), &json!([])));
    (body["messages"].clone(), dropped)
}

#[test]
fn results_of_the_providers_tools_become_text() {
    for (item, want) in [
        (
            json!({"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q",
                "sources": [{"type": "url", "url": "http://a"}]}}),
            "<tool_result tool=\"web_search\" input='q'>\n- http://a\n</tool_result>",
        ),
        (
            json!({"type": "file_search_call", "id": "f", "queries": ["q"], "status": "completed", "results": [
                {"file_id": "f", "filename": "a.md", "score": 0.9, "text": "passage", "attributes": {}}]}),
            "<tool_result tool=\"file_search\" input='[\"q\"]'>\n- a.md\npassage\n</tool_result>",
        ),
        (
            json!({"type": "code_interpreter_call", "id": "c", "code": "print(1)", "container_id": "x", "status": "completed",
                "outputs": [{"type": "logs", "logs": "1\n"}, {"type": "image", "url": "http://i"}]}),
            "<tool_result tool=\"code_interpreter\" input='print(1)'>\n1\n- http://i\n</tool_result>",
        ),
        (
            json!({"type": "mcp_call", "id": "m", "server_label": "s", "name": "n", "arguments": "{\"a\":1}", "output": "r", "error": null}),
            "<tool_result tool=\"n\" input='{\"a\":1}'>\nr\n</tool_result>",
        ),
        (
            json!({"type": "future_call", "id": "f", "output": [{"type": "output_text", "text": "r"}]}),
            "<tool_result tool=\"future\">\nr\n</tool_result>",
        ),
    ] {
        let said =
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "found"}]});
        let thought = json!({"type": "reasoning", "summary": []});
        let (messages, dropped) = after(&[thought.clone(), item.clone(), thought, said]);
        assert_eq!(messages[1], json!({"role": "assistant", "content": format!("{want}\n\nfound")}));
        assert_eq!(messages.as_array().map(Vec::len), Some(3), "one turn each");
        assert_eq!(dropped, [format!("input.{}", item["type"].as_str().unwrap())]);
    }
}

#[test]
fn what_cannot_be_read_is_left_out() {
    for item in [
        json!({"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}),
        json!({"type": "image_generation_call", "id": "i", "status": "completed", "result": "QUJD"}),
        json!({"type": "file_search_call", "id": "f", "queries": ["q"], "status": "completed", "results": null}),
        json!({"type": "code_interpreter_call", "id": "c", "code": "1", "container_id": "x", "outputs": null}),
        json!({"type": "mcp_list_tools", "id": "m", "server_label": "s", "tools": []}),
        json!({"type": "mcp_approval_request", "id": "m", "name": "n", "arguments": "{}", "server_label": "s"}),
        json!({"type": "mcp_approval_response", "approval_request_id": "m", "approve": true}),
        json!({"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}, "pending_safety_checks": []}),
        json!({"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "data:"}}),
        json!({"type": "compaction", "id": "c", "encrypted_content": "x"}),
        json!({"type": "a future item", "encrypted": "x"}),
    ] {
        let (messages, dropped) = after(std::slice::from_ref(&item));
        assert_eq!((messages.as_array().map(Vec::len), dropped.len()), (Some(2), 1), "{item}");
    }
}

#[test]
fn calls_of_the_clients_tools_are_functions_in_the_history() {
    for (call, output, arguments, result) in [
        (
            json!({"type": "local_shell_call", "id": "l1", "call_id": "c", "status": "completed",
                "action": {"type": "exec", "command": ["ls"], "env": {}, "timeout_ms": null}}),
            json!({"type": "local_shell_call_output", "id": "c", "output": "{\"output\":\"x\"}"}),
            json!({"command": ["ls"], "env": {}}),
            "{\"output\":\"x\"}",
        ),
        (
            json!({"type": "shell_call", "call_id": "c", "action": {"commands": ["a"], "timeout_ms": 5}, "status": "completed"}),
            json!({"type": "shell_call_output", "call_id": "c", "output": [
                {"stdout": "out\n", "stderr": "err", "outcome": {"type": "exit", "exit_code": 2}}]}),
            json!({"commands": ["a"], "timeout_ms": 5}),
            "out\nerr\nexit code 2",
        ),
        (
            json!({"type": "apply_patch_call", "call_id": "c", "status": "completed",
                "operation": {"type": "update_file", "path": "p", "diff": "@@\n-a\n+b"}}),
            json!({"type": "apply_patch_call_output", "call_id": "c", "status": "failed"}),
            json!({"type": "update_file", "path": "p", "diff": "@@\n-a\n+b"}),
            "failed",
        ),
    ] {
        let (messages, dropped) = after(&[call.clone(), output]);
        let function = &messages[1]["tool_calls"][0]["function"];
        assert_eq!(function["name"], call["type"].as_str().unwrap().strip_suffix("_call").unwrap());
        let got: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(got, arguments);
        assert_eq!(messages[2], json!({"role": "tool", "tool_call_id": "c", "content": result}));
        assert_eq!(dropped, [] as [&str; 0]);
    }
}

#[test]
fn calls_of_the_clients_tools_come_back_in_their_own_form() {
    let tools =
        json!([{"type": "local_shell"}, {"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"}]);
    let request = with(&json!("x"), &tools);
    let (body, dropped) = chat(&request);
    let offered: Vec<&Value> = body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!((offered, dropped), (vec![&json!("local_shell"), &json!("shell"), &json!("apply_patch")], Vec::new()));
    let call = |index: u64, id: &str, name: &str, arguments: &str| json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let calls = json!([
        call(0, "c0", "local_shell", r#"{"command":["ls"]}"#),
        call(1, "c1", "shell", "{\"commands\":[\n\"ls\"]}"),
        call(2, "c2", "apply_patch", r#"{"type":"create_file","path":"p","diff":"+\"a\"\n"}"#),
    ]);
    let want = json!([
        {"type": "local_shell_call", "id": "lsh_700", "call_id": "c0", "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "shell_call", "id": "sh_701", "call_id": "c1", "status": "completed", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "id": "apc_702", "call_id": "c2", "status": "completed",
            "operation": {"type": "create_file", "path": "p", "diff": "+\"a\"\n"}},
    ]);
    let answer = json!({"model": "up", "choices": [{"message": {"content": null, "tool_calls": calls}, "finish_reason": "tool_calls"}]});
    assert_eq!(whole(&request, &answer)["output"], want);
    let mut chunks: Vec<Value> = Vec::new();
    for call in calls.as_array().unwrap() {
        let (head, rest) = call["function"]["arguments"].as_str().unwrap().split_at(4);
        let mut first = call.clone();
        first["function"]["arguments"] = json!(head);
        let second = json!({"index": call["index"], "function": {"arguments": rest}});
        for delta in [first, second] {
            chunks.push(json!({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}));
        }
    }
    chunks.push(json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}));
    chunks.push(json!("[DONE]"));
    let events = stream(&request, &chunks);
    check_order(&events);
    assert_eq!(names(&events)[2..4], ["output_item.added", "output_item.done"]);
    assert_eq!(events[2].1["item"]["action"], json!({"type": "exec", "command": [], "env": {}}));
    assert_eq!(events.last().unwrap().1["response"]["output"], want);
}

#[test]
fn offered_tools_of_the_provider_are_left_out_beside_others() {
    let own = json!({"type": "function", "name": "f"});
    for kind in ["web_search", "image_generation", "mcp", "code_interpreter", "file_search", "computer", "future"] {
        let tool = json!({"type": kind});
        let (body, dropped) = chat(&with(&json!("x"), &json!([tool, own])));
        assert_eq!(body["tools"].as_array().map(Vec::len), Some(1));
        assert_eq!(dropped, [format!("tools.{kind}")]);
        // Alone, it is what the request is about; in a conversation under way, it is not.
        assert_eq!(refused(&with(&json!("x"), &json!([tool]))).param, "tools[0].type");
        let input = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}]);
        assert!(chat(&with(&input, &json!([tool]))).0.get("tools").is_none());
        let mut demanded = with(&input, &json!([tool, own]));
        demanded["tool_choice"] = tool;
        assert_eq!(refused(&demanded).param, "tool_choice.type");
        demanded["tool_choice"] = json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": kind}, {"type": "function", "name": "f"}]});
        assert_eq!(chat(&demanded).0["tools"].as_array().map(Vec::len), Some(1));
    }
    let hosted = json!({"type": "shell", "environment": {"type": "container_auto"}});
    assert_eq!(chat(&with(&json!("x"), &json!([hosted, own]))).1, ["tools.shell"]);
    let mut chosen = with(&json!("x"), &json!([{"type": "apply_patch"}]));
    chosen["tool_choice"] = json!({"type": "apply_patch"});
    assert_eq!(chat(&chosen).0["tool_choice"]["function"]["name"], "apply_patch");
}
