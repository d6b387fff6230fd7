//! Requests and answers that several tests share.

pub(super) const REQUEST: &str = r#"{
  "model": "claude-opus-4-8", "max_completion_tokens": 2048, "stream": true, "stream_options": {"include_usage": true},
  "messages": [
    {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
    {"role": "user", "content": [
      {"type": "text", "text": "What is the weather here?"},
      {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "high"}}]},
    {"role": "assistant", "content": "Let me look.", "reasoning_content": "Paris, it seems.",
      "thinking_blocks": [{"type": "thinking", "thinking": "Paris, it seems.", "signature": "EqoBCkgIARABGAIiQL"}],
      "tool_calls": [{"id": "toolu_01", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"}}]},
    {"role": "tool", "tool_call_id": "toolu_01", "content": "{\"degrees\":18}"},
    {"role": "user", "content": "In Fahrenheit."}
  ],
  "tools": [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city",
    "parameters": {"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}, "strict": true}}],
  "tool_choice": "auto", "parallel_tool_calls": false, "stop": "END", "reasoning_effort": "high"
}"#;

pub(super) const TRANSLATED: &str = r#"{"model":"claude-opus-4-8","max_tokens":2048,
"system":[{"type":"text","text":"Be brief.","cache_control":{"type": "ephemeral", "ttl": "1h"}}],
"messages":[{"role":"user","content":[{"type":"text","text":"What is the weather here?"},
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},
{"role":"assistant","content":[{"type":"thinking","thinking":"Paris, it seems.","signature":"EqoBCkgIARABGAIiQL"},
{"type":"text","text":"Let me look."},
{"type":"tool_use","id":"toolu_01","name":"get_weather","input":{"city":"Paris"}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":"{\"degrees\":18}"},
{"type":"text","text":"In Fahrenheit."}]}],
"tools":[{"name":"get_weather","description":"Weather of a city",
"input_schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]},"strict":true}],
"tool_choice":{"type":"auto","disable_parallel_tool_use":true},
"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high"},
"stop_sequences":["END"],"stream":true}"#;

/// A stream with thinking, text and two calls, one without arguments.
pub(super) const STREAM: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3},"output_tokens":1,"service_tier":"standard"}}}
{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
{"type":"ping"}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm,\n"}}
{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Paris."}}
{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqoB"}}
{"type":"content_block_stop","index":0}
{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"Zm9v"}}
{"type":"content_block_stop","index":1}
{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}
{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Let \u00e9 me"}}
{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":" look."}}
{"type":"content_block_stop","index":2}
{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{}}}
{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}
{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}
{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":" \"Paris\"}"}}
{"type":"content_block_stop","index":3}
{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}
{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}
{"type":"content_block_stop","index":4}
{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89,"output_tokens_details":{"thinking_tokens":40}}}
{"type":"message_stop"}"#;

/// The same answer, whole.
pub(super) const WHOLE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[
{"type":"thinking","thinking":"Hm,\nParis.","signature":"EqoB"},{"type":"redacted_thinking","data":"Zm9v"},
{"type":"text","text":"Let \u00e9 me look."},
{"type":"tool_use","id":"toolu_1","name":"get_weather","input":{"city": "Paris"}},
{"type":"tool_use","id":"toolu_2","name":"now","input":{}}],
"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,
"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":3},
"output_tokens":89,"output_tokens_details":{"thinking_tokens":40}}}"#;
