//! Tools, reasoning, formats and options as clients send them.

use serde_json::{Value, json};

use super::{
    Defaults, from_chat,
    request_tests::{rejected, text, translated, with},
};

#[test]
fn tool_choices_are_translated() {
    let tools = json!([{"type": "function", "function": {"name": "f"}, "cache_control": {"type": "ephemeral"}}]);
    let named = json!({"type": "function", "function": {"name": "f"}});
    for (choice, parallel, want) in [
        (json!("auto"), json!(null), json!({"type": "auto"})),
        (json!("none"), json!(false), json!({"type": "none"})),
        (json!("required"), json!(true), json!({"type": "any"})),
        (named, json!(false), json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true})),
        (json!(null), json!(false), json!({"type": "auto", "disable_parallel_tool_use": true})),
        (json!(null), json!(null), json!(null)),
    ] {
        let chat = with(&json!({"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel}));
        let (got, _) = translated(&chat);
        assert_eq!(got["tool_choice"], want);
        let schema = json!({"type": "object", "properties": {}});
        assert_eq!(
            got["tools"],
            json!([{"name": "f", "input_schema": schema, "cache_control": {"type": "ephemeral"}}])
        );
    }
    assert_eq!(translated(&with(&json!({"tool_choice": "auto", "tools": []}))).0.get("tool_choice"), None);
    for (members, param) in [
        (json!({"tools": tools, "tool_choice": {"type": "allowed_tools"}}), "tool_choice"),
        (json!({"tools": tools, "tool_choice": "any"}), "tool_choice"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"tools": [{"type": "custom", "custom": {}}]}), "tools[0].type"),
        (
            json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": []}}]}),
            "tools[0].function.parameters",
        ),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
    ] {
        assert_eq!(rejected(&members).param, param);
    }
}

/// The schema of a tool with `parameters`, as it is written, and what was dropped.
fn schema(parameters: &str) -> (String, Vec<String>) {
    let chat = format!(
        r#"{{"model":"m","messages":[{{"role":"user","content":"a"}}],"tools":[{{"type":"function","function":{{"name":"f","strict":true,"parameters":{parameters}}}}}]}}"#
    );
    let got = from_chat(chat.as_bytes(), &Defaults { max_tokens: 1 }).unwrap();
    let body = String::from_utf8(got.body).unwrap();
    let (_, rest) = body.split_once(r#""input_schema":"#).unwrap();
    (rest.split_once(r#","strict":true"#).unwrap().0.to_owned(), got.dropped)
}

#[test]
fn a_schema_becomes_one_of_an_object() {
    for (parameters, want) in [
        ("null", r#"{"type":"object","properties":{}}"#),
        (r"{ }", r#"{"type":"object","properties":{}}"#),
        (r#"{"properties":{"a":{}}}"#, r#"{"type":"object","properties":{"a":{}}}"#),
        (r#"{"type":null,"properties":{}}"#, r#"{"type":"object","properties":{}}"#),
        (r#"{"type":["object","null"],"properties":{}}"#, r#"{"type":"object","properties":{}}"#),
        (r#"{"type":"OBJECT","properties":{}}"#, r#"{"type":"object","properties":{}}"#),
        (r#"{"type":"string","type":"object"}"#, r#"{"type":"object","properties":{}}"#),
        (r#"{"type":"object","properties":null,"required":null}"#, r#"{"type":"object","properties":{}}"#),
        (r#"{"type":"object","properties":[],"required":true,"a":1}"#, r#"{"type":"object","a":1}"#),
        (
            r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{}}"#,
            r#"{"type":"object","properties":{}}"#,
        ),
        // In order, and kept byte for byte.
        (r#"{"type":"object"}"#, r#"{"type":"object"}"#),
        (
            r#"{ "type":"object", "properties":{"a":{"type":["string","null"],"default":null,"enum":["x",null]}}, "required":["a"] }"#,
            r#"{ "type":"object", "properties":{"a":{"type":["string","null"],"default":null,"enum":["x",null]}}, "required":["a"] }"#,
        ),
    ] {
        assert_eq!(schema(parameters), (want.to_owned(), Vec::new()), "{parameters}");
    }
}

#[test]
fn the_properties_of_a_schema_follow_the_current_draft() {
    for (property, want) in [
        (r#"{"type":null,"description":null}"#, "{}"),
        ("null", "{}"),
        (r#"{"type":"STRING","required":true}"#, r#"{"type":"string"}"#),
        (r#"{"type":"float"}"#, r#"{"type":"number"}"#),
        (r#"{"type":["int","null","any"]}"#, r#"{"type":["integer","null"]}"#),
        (r#"{"type":"any"}"#, "{}"),
        (r#"{"type":"date"}"#, "{}"),
        (
            r#"{"minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}"#,
            r#"{"exclusiveMinimum":0,"maximum":9}"#,
        ),
        (
            r#"{"items":[{"type":"int"},{}],"additionalItems":false}"#,
            r#"{"prefixItems":[{"type":"integer"},{}],"items":false}"#,
        ),
        (r#"{"items":{"properties":{"b":{"enum":[]}}}}"#, r#"{"items":{"properties":{"b":{}}}}"#),
        (r#"{"anyOf":[],"oneOf":[{"type":null}]}"#, r#"{"oneOf":[{}]}"#),
        (r#"{"required":["x","x",1]}"#, r#"{"required":["x"]}"#),
    ] {
        let parameters = format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
        let want = format!(r#"{{"type":"object","properties":{{"a":{want}}}}}"#);
        assert_eq!(schema(&parameters), (want, Vec::new()), "{property}");
    }
}

#[test]
fn a_union_at_the_root_becomes_one_object() {
    let dropped = vec!["tools[].function.parameters.anyOf".to_owned()];
    for (parameters, want) in [
        (
            r#"{"anyOf":[{"properties":{"a":{},"k":{"const":1}},"required":["a","k"]},{"properties":{"b":{},"k":{"const":2}},"required":["k"]}]}"#,
            r#"{"type":"object","properties":{"a":{},"k":{"anyOf":[{"const":1},{"const":2}]},"b":{}},"required":["k"]}"#,
        ),
        (
            r#"{"type":"object","properties":{"a":{}},"required":["a"],"oneOf":[{"required":["b"]},{"required":["c"]}]}"#,
            r#"{"type":"object","properties":{"a":{}},"required":["a"]}"#,
        ),
        (
            r##"{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"x":{"$ref":"#/$defs/B"}},"required":["x"]},"B":{}}}"##,
            r##"{"type":"object","$defs":{"A":{"type":"object","properties":{"x":{"$ref":"#/$defs/B"}},"required":["x"]},"B":{}},"properties":{"x":{"$ref":"#/$defs/B"}},"required":["x"]}"##,
        ),
        (
            r#"{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}"#,
            r#"{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}"#,
        ),
    ] {
        assert_eq!(schema(parameters), (want.to_owned(), dropped.clone()), "{parameters}");
    }
}

#[test]
fn a_name_of_a_tool_stands_once() {
    let tool = |description: &str| json!({"type": "function", "function": {"name": "f", "description": description}});
    let (got, dropped) = translated(&with(&json!({"tools": [tool("a"), tool("b")]})));
    assert_eq!(got["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!((&got["tools"][0]["description"], dropped), (&json!("a"), vec!["tools[]".to_owned()]));
}

#[test]
fn reasoning_takes_the_form_of_the_model() {
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let dropped = ["reasoning_effort"].as_slice();
    for (model, members, thinking, effort, want_dropped) in [
        ("claude-opus-4-8", json!({"reasoning_effort": "high"}), adaptive.clone(), json!("high"), [].as_slice()),
        ("claude-sonnet-4-6", json!({"reasoning_effort": "xhigh"}), adaptive.clone(), json!("max"), &[]),
        ("claude-opus-4-6", json!({"reasoning_effort": "minimal", "temperature": 0.5}), json!(null), json!("low"), &[]),
        (
            "claude-opus-5",
            json!({"reasoning_effort": "minimal", "temperature": 0.5}),
            adaptive.clone(),
            json!("low"),
            &["temperature"],
        ),
        ("claude-opus-5", json!({"reasoning_effort": "none"}), json!({"type": "disabled"}), json!(null), &[]),
        ("claude-sonnet-5-5", json!({"reasoning_effort": "none"}), json!({"type": "between_tools"}), json!(null), &[]),
        ("claude-haiku-5-5", json!({"reasoning_effort": "none"}), json!({"type": "disabled"}), json!(null), &[]),
        ("claude-opus-5-5", json!({"reasoning_effort": "none"}), json!(null), json!("low"), dropped),
        ("claude-opus-4-8", json!({"reasoning_effort": "none"}), json!(null), json!(null), &[]),
        ("claude-sonnet-4-5", json!({"reasoning_effort": "low"}), budget(1024), json!(null), &[]),
        ("glm-5", json!({"reasoning_effort": "medium", "max_tokens": 10_000}), budget(5000), json!(null), &[]),
        ("claude-sonnet-4-5", json!({"reasoning": {"max_tokens": 9000}}), budget(4095), json!(null), &[]),
        (
            "claude-sonnet-4-5",
            json!({"reasoning_effort": "low", "max_tokens": 1024}),
            json!(null),
            json!(null),
            dropped,
        ),
        ("claude-sonnet-4-5", json!({"reasoning_effort": "low", "temperature": 0}), json!(null), json!(null), dropped),
        (
            "claude-sonnet-4-5",
            json!({"reasoning_effort": "low", "tools": tools, "tool_choice": "required"}),
            json!(null),
            json!(null),
            dropped,
        ),
        (
            "claude-opus-4-8",
            json!({"reasoning_effort": "low", "thinking": {"type": "adaptive"}}),
            json!({"type": "adaptive"}),
            json!("low"),
            &[],
        ),
        (
            "claude-opus-4-8",
            json!({"reasoning": {"enabled": true, "exclude": true}}),
            json!({"type": "adaptive", "display": "omitted"}),
            json!("medium"),
            &[],
        ),
    ] {
        let mut members = members;
        members["model"] = json!(model);
        let (got, dropped) = translated(&with(&members));
        assert_eq!((&got["thinking"], &got["output_config"]["effort"]), (&thinking, &effort), "{members}");
        assert_eq!(dropped, want_dropped, "{members}");
    }
    assert_eq!(rejected(&json!({"reasoning_effort": "huge"})).param, "reasoning_effort");
}

#[test]
fn a_budget_is_left_out_after_calls_without_thinking() {
    let call = json!({"id": "a", "function": {"name": "f", "arguments": "{}"}});
    let mut messages = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "r"},
    ]);
    let chat =
        |messages: &Value| json!({"model": "claude-sonnet-4-5", "reasoning_effort": "high", "messages": messages});
    assert_eq!(translated(&chat(&messages)).1, ["reasoning_effort"]);
    messages[1]["thinking_blocks"] = json!([{"type": "thinking", "thinking": "t", "signature": "s"}]);
    assert_eq!(translated(&chat(&messages)).0["thinking"]["budget_tokens"], 3276);
}

#[test]
fn formats_are_translated() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": schema}});
    let (got, _) = translated(&with(&json!({"response_format": format, "reasoning_effort": "low"})));
    assert_eq!(got["output_config"], json!({"effort": "low", "format": {"type": "json_schema", "schema": schema}}));
    let (got, dropped) = translated(&with(&json!({"response_format": {"type": "json_object"}})));
    assert!(got["system"][0]["text"].as_str().unwrap().contains("JSON object"));
    assert_eq!(dropped, ["response_format.type"]);
    assert_eq!(translated(&with(&json!({"response_format": {"type": "text"}}))).0.get("output_config"), None);
    assert_eq!(rejected(&json!({"response_format": {"type": "grammar"}})).param, "response_format.type");
}

#[test]
fn sampling_and_metadata_are_translated() {
    let (got, dropped) = translated(&with(&json!({
        "max_tokens": 1, "max_completion_tokens": 7, "model": "claude-opus-4-5", "temperature": 1.5, "top_p": 1, "top_k": 5, "min_p": 0.1,
        "stop": ["a", "", "\n"], "user": "u-1", "stream": true, "stream_options": {"include_usage": true}, "n": 1,
        "logprobs": false, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "modalities": ["text"],
        "seed": 1, "metadata": {"k": "v"}, "service_tier": "default", "store": true, "prompt_cache_key": "k",
    })));
    assert_eq!(
        got,
        json!({
            "model": "claude-opus-4-5", "max_tokens": 7, "messages": [{"role": "user", "content": [text("hi")]}],
            "temperature": 1, "top_k": 5, "stop_sequences": ["a"], "metadata": {"user_id": "u-1"},
            "service_tier": "standard_only", "min_p": 0.1, "stream": true,
        })
    );
    assert_eq!(
        dropped,
        ["temperature", "stop", "metadata", "seed", "store", "prompt_cache_key"].map(str::to_owned),
        "{dropped:?}"
    );
    for user in ["a@b.c", "+49 30 1234567", &"u".repeat(257)] {
        assert_eq!(translated(&with(&json!({"user": user}))).1, ["user"]);
    }
    assert_eq!(translated(&with(&json!({}))).0["max_tokens"], 4096);
}

#[test]
fn a_limit_beyond_the_models_is_lowered() {
    for (model, given, want) in [
        ("claude-sonnet-4-5", json!(128_000), 64_000),
        ("claude-sonnet-4-5", json!(64_000), 64_000),
        ("claude-opus-4-1-20250805", json!(64_000), 32_000),
        ("claude-3-5-haiku-20241022", json!(9000), 8192),
        ("claude-3-haiku-20240307", json!(null), 4096),
        ("claude-opus-4-6", json!(128_000), 128_000),
        ("glm-5", json!(200_000), 200_000),
    ] {
        let (got, dropped) = translated(&with(&json!({"model": model, "max_tokens": given})));
        assert_eq!(got["max_tokens"], want, "{model}");
        assert_eq!(dropped.len(), usize::from(given.as_u64().is_some_and(|given| given != want)), "{model}");
    }
}

#[test]
fn members_that_change_the_answer_are_rejected() {
    for (name, value) in [
        ("n", json!(2)),
        ("logprobs", json!(true)),
        ("top_logprobs", json!(3)),
        ("logit_bias", json!({"50256": -100})),
        ("frequency_penalty", json!(0.5)),
        ("presence_penalty", json!(-1)),
        ("modalities", json!(["text", "audio"])),
        ("web_search_options", json!({})),
        ("functions", json!([])),
        ("system", json!("s")),
        ("messages", json!("hi")),
        ("stop", json!(1)),
        ("user", json!(1)),
    ] {
        assert_eq!(rejected(&json!({ name: value })).param, name);
    }
    for (message, param) in [
        (json!({"role": "function", "content": "x"}), "messages[0].role"),
        (json!({"role": "robot", "content": "x"}), "messages[0].role"),
        (json!({"role": "user", "content": 1}), "messages[0].content"),
        (json!({"role": "tool", "content": "x"}), "messages[0].tool_call_id"),
        (json!({"role": "assistant", "audio": {"id": "a"}}), "messages[0].audio"),
        (json!({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}), "messages[0].tool_calls[0].id"),
        (json!({"role": "system", "content": [{"type": "image_url"}]}), "messages[0].content[0].type"),
    ] {
        assert_eq!(rejected(&json!({"messages": [message]})).param, param);
    }
    let error = from_chat(b"{\"model\":\"m\",", &Defaults { max_tokens: 1 }).unwrap_err();
    assert_eq!(error.message, "the request is not valid: EOF while parsing a value at line 1 column 13");
}
