use serde_json::{Value, json};

use super::{chat, rejected, to_chat};

/// A request with `fields` beside the required ones.
fn with(fields: &Value) -> Value {
    let mut request = json!({"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in fields.as_object().unwrap() {
        request[name] = value.clone();
    }
    request
}

fn messages(messages: &Value) -> Value {
    chat(&with(&json!({"messages": messages}))).0["messages"].clone()
}

#[test]
fn a_request_of_claude_code_is_translated() {
    let schema = r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"n":{"type":"number","minimum":1.0e0}}}"#;
    let request = r#"{"model":"claude-sonnet-4-5","max_tokens":32000,"stream":true,"temperature":1,
        "system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.0; cch=abcde;"},
          {"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}},
          {"type":"text","text":"Be \u00e9xact.\n","cache_control":{"type":"ephemeral"}}],
        "messages":[
          {"role":"user","content":[{"type":"text","text":"<system-reminder>a</system-reminder>"},{"type":"text","text":"List files"}]},
          {"role":"assistant","content":[{"type":"thinking","thinking":"I list.","signature":"chat.reasoning_content"},
            {"type":"text","text":"Listing."},
            {"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls \"a\"", "n": 1.50}},
            {"type":"tool_use","id":"toolu_2","name":"Read","input":{}}]},
          {"role":"user","content":[
            {"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a.rs"},{"type":"text","text":"b.rs"}],"is_error":false},
            {"type":"tool_result","tool_use_id":"toolu_2","content":"no such file","is_error":true,"cache_control":{"type":"ephemeral"}},
            {"type":"text","text":"go on"}]}],
        "tools":[{"name":"Bash","description":"Runs","input_schema":SCHEMA,"cache_control":{"type":"ephemeral"}},
          {"type":"custom","name":"Read","input_schema":{"type":"object"},"eager_input_streaming":true}],
        "tool_choice":{"type":"auto","disable_parallel_tool_use":true},
        "metadata":{"user_id":"user_0123456789012345678901234567890123456789_account__session_0123"},
        "thinking":{"type":"enabled","budget_tokens":31999},
        "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}}"#
        .replace("SCHEMA", schema);
    let translated = to_chat(request.as_bytes(), &crate::NoStates).unwrap();
    let body: Value = serde_json::from_slice(&translated.body).unwrap();
    let text = String::from_utf8(translated.body).unwrap();
    assert!(text.contains(schema), "the schema is copied byte for byte: {text}");
    assert!(text.contains(r"Be \u00e9xact.\n"), "escapes are kept");
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "You are Claude Code.\n\nBe éxact.\n"},
            {"role": "user", "content": [{"type": "text", "text": "<system-reminder>a</system-reminder>"}, {"type": "text", "text": "List files"}]},
            {"role": "assistant", "content": "Listing.", "reasoning_content": "I list.", "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "Bash", "arguments": r#"{"command":"ls \"a\"", "n": 1.50}"#}},
                {"id": "toolu_2", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "a.rs\nb.rs"},
            {"role": "tool", "tool_call_id": "toolu_2", "content": "Error: no such file"},
            {"role": "user", "content": "go on"},
        ])
    );
    assert_eq!(body["tools"][0]["function"]["name"], "Bash");
    assert_eq!(
        body["tools"][1],
        json!({"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}})
    );
    let rest: Vec<_> =
        body.as_object().unwrap().iter().filter(|(name, _)| *name != "messages" && *name != "tools").collect();
    assert_eq!(
        serde_json::to_value(rest).unwrap(),
        json!([["model", "claude-sonnet-4-5"], ["tool_choice", "auto"], ["parallel_tool_calls", false], ["max_tokens", 32000],
            ["temperature", 1], ["stream", true], ["stream_options", {"include_usage": true}], ["reasoning_effort", "high"]])
    );
    let mut dropped = translated.dropped;
    dropped.sort();
    assert_eq!(
        dropped,
        [
            "cache_control",
            "context_management",
            "metadata.user_id",
            "thinking.budget_tokens",
            "tools[].eager_input_streaming",
            "x-anthropic-billing-header"
        ]
    );
}

#[test]
fn images_and_documents_become_parts() {
    let found = messages(&json!([{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAA="}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        {"type": "document", "title": "T", "source": {"type": "base64", "media_type": "application/pdf", "data": "BBB="}},
        {"type": "document", "title": "N", "citations": {"enabled": false}, "source": {"type": "text", "media_type": "text/plain", "data": "note"}},
        {"type": "search_result", "source": "s", "title": "R", "content": [{"type": "text", "text": "found"}]},
        {"type": "text", "text": "what?"}]}]));
    assert_eq!(
        found,
        json!([{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAA="}},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            {"type": "file", "file": {"filename": "T", "file_data": "data:application/pdf;base64,BBB="}},
            {"type": "text", "text": "<document title=\"N\">\nnote\n</document>"},
            {"type": "text", "text": "<search_result source=\"s\" title=\"R\">\nfound\n</search_result>"},
            {"type": "text", "text": "what?"}]}])
    );
}

#[test]
fn images_of_tool_results_move_to_the_user() {
    let found = messages(&json!([
        {"role": "user", "content": "shoot"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "shot", "input": {}}, {"type": "tool_use", "id": "b", "name": "shot", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}]},
            {"type": "tool_result", "tool_use_id": "b"}]}]));
    assert_eq!(
        found,
        json!([
            {"role": "user", "content": "shoot"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "shot", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "shot", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "(attachments in the next user message)"},
            {"role": "tool", "tool_call_id": "b", "content": ""},
            {"role": "user", "content": [
                {"type": "text", "text": "Attachments of the result of tool call a:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}]}])
    );
}

#[test]
fn consecutive_messages_are_one_turn_and_a_prefill_stays_last() {
    let found = messages(&json!([
        {"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "{"}, {"role": "assistant", "content": [{"type": "text", "text": "\"x\""}]}]));
    assert_eq!(
        found,
        json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "{\"x\""}])
    );
}

#[test]
fn system_messages_within_the_conversation_become_reminders() {
    let request = with(&json!({"system": "S", "messages": [
        {"role": "system", "content": "first"},
        {"role": "user", "content": "a"},
        {"role": "system", "content": "date"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "system", "content": [{"type": "text", "text": "early"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r"}]},
        {"role": "system", "content": "<system-reminder>late</system-reminder>"},
        {"role": "assistant", "content": "b"},
        {"role": "system", "content": "last"}]}));
    assert_eq!(
        chat(&request).0["messages"],
        json!([
            {"role": "system", "content": "S\n\nfirst"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "<system-reminder>\ndate\n</system-reminder>"}]},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "t", "content": "r\n<system-reminder>\nearly\n</system-reminder>\n<system-reminder>late</system-reminder>"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "<system-reminder>\nlast\n</system-reminder>"}])
    );
}

#[test]
fn thinking_returns_only_to_the_field_that_it_came_from() {
    let history = |signature: &Value| {
        chat(&with(&json!({"messages": [{"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": signature}, {"type": "text", "text": "b"}]},
            {"role": "user", "content": "c"}]})))
    };
    for (signature, field) in
        [("chat.reasoning", "reasoning"), ("chat.reasoning_content", "reasoning_content"), ("", "reasoning_content")]
    {
        let (body, dropped) = history(&json!(signature));
        assert_eq!(body["messages"][1][field], "t");
        assert!(dropped.is_empty());
    }
    let (body, dropped) = history(&json!("EqoBCkgIARABGAIiQL2Uo"));
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "b"}));
    assert_eq!(dropped, ["messages[].content[].thinking"]);
}

#[test]
fn effort_comes_from_thinking_and_output_config() {
    for (fields, want) in [
        (json!({}), Value::Null),
        (json!({"thinking": null}), Value::Null),
        (json!({"thinking": {"type": "disabled"}}), json!("none")),
        (json!({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}), json!("none")),
        (json!({"thinking": {"type": "adaptive"}}), Value::Null),
        (json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}), json!("low")),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), json!("low")),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 4000}}), json!("medium")),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 10000}}), json!("high")),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 10000}, "output_config": {"effort": "medium"}}),
            json!("medium"),
        ),
        (json!({"output_config": {"effort": "max"}}), json!("high")),
        (json!({"reasoning_effort": "minimal", "output_config": {"effort": "max"}}), json!("minimal")),
    ] {
        assert_eq!(chat(&with(&fields)).0.get("reasoning_effort").unwrap_or(&Value::Null), &want, "{fields}");
    }
    assert_eq!(chat(&with(&json!({"output_config": {"effort": "xhigh"}}))).1, ["output_config.effort"]);
}

#[test]
fn structured_output_keeps_its_schema() {
    let format = json!({"type": "json_schema", "schema": {"type": "object", "additionalProperties": false}});
    let want =
        json!({"type": "json_schema", "json_schema": {"name": "output", "strict": true, "schema": format["schema"]}});
    assert_eq!(chat(&with(&json!({"output_config": {"format": format}}))).0["response_format"], want);
    assert_eq!(chat(&with(&json!({"output_format": format}))).0["response_format"], want);
}

#[test]
fn every_tool_choice_is_translated() {
    let tools = json!([{"name": "f", "input_schema": {"type": "object"}, "strict": true}]);
    for (choice, want) in [
        (json!({"type": "auto"}), json!("auto")),
        (json!({"type": "any"}), json!("required")),
        (json!({"type": "none"}), json!("none")),
        (json!({"type": "tool", "name": "f"}), json!({"type": "function", "function": {"name": "f"}})),
    ] {
        let (body, _) = chat(&with(&json!({"tools": tools, "tool_choice": choice})));
        assert_eq!(body["tool_choice"], want);
        assert!(body.get("parallel_tool_calls").is_none());
        assert_eq!(body["tools"][0]["function"]["strict"], true);
    }
    let (body, _) = chat(&with(&json!({"tools": [], "tool_choice": {"type": "auto"}})));
    assert!(body.get("tools").is_none() && body.get("tool_choice").is_none());
}

#[test]
fn engine_parameters_pass_and_hints_are_reported() {
    let (body, dropped) = chat(&with(
        &json!({"top_k": 40, "min_p": 0.1, "chat_template_kwargs": {"a": 1}, "stop_sequences": ["X"],
        "metadata": {"user_id": "u"}, "service_tier": "auto", "mcp_servers": [], "container": null, "cache_control": {"type": "ephemeral"}}),
    ));
    assert_eq!(body["top_k"], 40);
    assert_eq!(body["chat_template_kwargs"], json!({"a": 1}));
    assert_eq!(body["stop"], json!(["X"]));
    assert_eq!(body["user"], "u");
    for name in ["stop_sequences", "metadata", "service_tier", "mcp_servers", "container", "cache_control"] {
        assert!(body.get(name).is_none(), "{name}");
    }
    assert_eq!(dropped, ["service_tier", "cache_control"]);
}

#[test]
fn the_inexpressible_is_rejected_by_path() {
    let block =
        |block: Value| json!({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": [block]}]});
    let assistant = |block: Value| json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": [block]}]});
    for (fields, want) in [
        (json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}), "tools[0].type"),
        (
            json!({"tools": [{"name": "ok", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}],
                "tool_choice": {"type": "tool", "name": "web_search"}}),
            "tool_choice.name",
        ),
        (json!({"tools": [{"name": "f"}]}), "tools[0].input_schema"),
        (json!({"tools": [{"name": 3, "input_schema": {}}]}), "tools[0].name"),
        (json!({"tools": [3]}), "tools[0]"),
        (json!({"tools": {"a": 1}}), "tools"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice"),
        (json!({"mcp_servers": [{"url": "x"}]}), "mcp_servers"),
        (json!({"inference_geo": "us"}), "inference_geo"),
        (json!({"n": 2}), "n"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"thinking": {"type": "on"}}), "thinking.type"),
        (json!({"output_config": {"effort": "huge"}}), "output_config.effort"),
        (json!({"output_config": {"format": {"type": "grammar"}}}), "output_config.format.type"),
        (json!({"system": 3}), "system"),
        (json!({"system": [{"type": "image"}]}), "system[0].type"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": "x"}), "messages"),
        (json!({"messages": [{"content": "x"}]}), "messages[0]"),
        (json!({"messages": [{"role": "tool", "content": "x"}]}), "messages[0].role"),
        (json!({"messages": [{"role": "user", "content": 3}]}), "messages[0].content"),
        (
            block(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
            "messages[1].content[0].source.type",
        ),
        (
            block(json!({"type": "document", "source": {"type": "url", "url": "u"}})),
            "messages[1].content[0].source.type",
        ),
        (
            block(json!({"type": "document", "citations": {"enabled": true}, "source": {"type": "text", "data": "d"}})),
            "messages[1].content[0].citations",
        ),
        (block(json!({"type": "picture", "file_id": "f"})), "messages[1].content[0].type"),
        (block(json!({"type": "tool_use", "id": "a", "name": "b"})), "messages[1].content[0].type"),
        (block(json!({"type": "tool_result", "content": "b"})), "messages[1].content[0].tool_use_id"),
        (
            block(json!({"type": "tool_result", "tool_use_id": "a", "content": [{"type": "audio"}]})),
            "messages[1].content[0].content[0].type",
        ),
        (block(json!({"no": "type"})), "messages[1].content[0]"),
        (assistant(json!({"type": "tool_use", "id": 3, "name": "b"})), "messages[1].content[0]"),
    ] {
        let (param, message) = rejected(&with(&fields));
        assert_eq!(param, want, "{message}");
        assert!(!message.is_empty());
    }
    let (_, message) = rejected(&with(&json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})));
    assert!(message.contains("web_search_20250305"), "{message}");
    assert!(
        to_chat(b"[]", &crate::NoStates).is_err()
            && to_chat(b"{", &crate::NoStates).is_err()
            && to_chat(br#"{"model":"a","model":"b","messages":[]}"#, &crate::NoStates).is_err()
    );
}

#[test]
fn references_to_deferred_tools_become_text() {
    let found = messages(&json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a",
        "content": [{"type": "tool_reference", "tool_name": "mcp__x"}]}]}]));
    assert_eq!(found, json!([{"role": "tool", "tool_call_id": "a", "content": "Available tool: mcp__x"}]));
}

#[test]
fn the_billing_header_is_removed_and_nothing_else() {
    for (system, want) in [
        (json!("x-anthropic-billing-header: cc_version=2; cch=1;\nYou are."), json!("You are.")),
        (
            json!([{"type": "text", "text": "x-anthropic-billing-header: a"}, {"type": "text", "text": "You are."}]),
            json!("You are."),
        ),
    ] {
        let (body, dropped) = chat(&with(&json!({"system": system})));
        assert_eq!(body["messages"][0], json!({"role": "system", "content": want}));
        assert_eq!(dropped, ["x-anthropic-billing-header"]);
    }
    let (body, _) = chat(&with(&json!({"system": "x-anthropic-billing-header: a"})));
    assert_eq!(body["messages"], json!([{"role": "user", "content": "hi"}]));
}

#[test]
fn null_counts_as_absent() {
    let nulls = json!({"stop_sequences": null, "system": null, "tools": null, "tool_choice": null, "thinking": null,
        "temperature": null, "top_p": null, "top_k": null, "metadata": null, "stream": null, "output_config": null,
        "output_format": null, "service_tier": null, "container": null, "mcp_servers": null, "cache_control": null,
        "context_management": null, "inference_geo": null, "thread": null, "n": null, "stop": null, "user": null,
        "reasoning_effort": null, "response_format": null});
    let (plain, _) = chat(&with(&json!({})));
    let (body, dropped) = chat(&with(&nulls));
    assert_eq!((&body, dropped.len()), (&plain, 0));
    // Nor does a `null` under the name of chat hide the caller's own field.
    let (body, _) = chat(&with(&json!({"stop": null, "stop_sequences": ["X"]})));
    assert_eq!(body["stop"], json!(["X"]));

    let nested = json!({
        "system": [{"type": "text", "text": "s", "cache_control": null, "citations": null}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": null, "citations": null}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}, "cache_control": null, "caller": null}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": null, "is_error": null, "cache_control": null}]},
        ],
        "tools": [{"type": null, "name": "f", "description": null, "input_schema": {"type": "object"}, "strict": null,
            "cache_control": null, "allowed_callers": null, "defer_loading": null, "input_examples": null}],
        "metadata": {"user_id": null},
        "output_config": {"effort": null, "format": null, "task_budget": null},
    });
    let (body, dropped) = chat(&with(&nested));
    assert_eq!(dropped, [] as [&str; 0]);
    assert_eq!(body["tools"][0]["function"], json!({"name": "f", "parameters": {"type": "object"}}));
    assert_eq!(body["messages"][2]["tool_calls"][0]["id"], "t");
    assert!(body.get("user").is_none() && body.get("reasoning_effort").is_none(), "{body}");
}
