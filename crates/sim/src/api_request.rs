//! Chat and completion requests to a simulated engine. Parsed leniently: unknown fields are ignored.

use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;

use super::{
    problem::Problem,
    sample::sample,
    text::{hash, tokens},
};

/// Header: length of the answer in tokens, in place of one drawn from the prompt. `max_tokens` still cuts it. Structured answers and tool
/// calls keep their own length.
pub(super) const OUTPUT_TOKENS: &str = "x-sim-output-tokens";

/// Header: length of each prompt in tokens, in place of a quarter of its bytes.
pub(super) const PROMPT_TOKENS: &str = "x-sim-prompt-tokens";

/// Most choices of a request.
const MOST_CHOICES: usize = 16;

/// Supported fields of both kinds of body.
#[derive(Deserialize)]
struct Body {
    model: String,
    messages: Option<Vec<Message>>,
    prompt: Option<Value>,
    #[serde(default)]
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    n: Option<usize>,
    seed: Option<i64>,
    stop: Option<Stop>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Value,
    #[serde(default)]
    response_format: Value,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Value,
}

/// Kind of the answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Filler text.
    Prose,
    /// This value, as JSON.
    Json(Value),
    /// A call of the tool `name`.
    Tool { name: String, arguments: Value },
}

/// One prompt as the engine sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) tokens: u32,
}

/// A parsed request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiRequest {
    pub(super) model: String,
    /// True for a chat, false for a completion.
    pub(super) chat: bool,
    pub(super) prompts: Vec<Prompt>,
    /// Answers per prompt.
    pub(super) n: usize,
    pub(super) kind: Kind,
    /// Most tokens of an answer, if the request sets it.
    pub(super) most: Option<u32>,
    /// Exact tokens of an answer, if a header sets it.
    pub(super) exact: Option<u32>,
    pub(super) stops: Vec<String>,
    pub(super) seed: u64,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
}

impl ApiRequest {
    /// Reads the body of `/v1/chat/completions`.
    pub(super) fn chat(body: &[u8], headers: &HeaderMap) -> Result<Self, Problem> {
        let body: Body = serde_json::from_slice(body)?;
        let messages = body.messages.as_deref().unwrap_or_default();
        let Some(last) = messages.last() else {
            return Err(Problem::field("messages", "At least one message is needed in `messages`."));
        };
        let tools = body.tools.as_deref().unwrap_or_default();
        let kind = match called(tools, &body.tool_choice, last)? {
            Some(tool) => {
                let function = &tool["function"];
                let arguments = sample(&function["parameters"]);
                Kind::Tool {
                    name: function["name"].as_str().unwrap_or("tool").to_owned(),
                    arguments: if arguments.is_object() { arguments } else { Value::Object(serde_json::Map::new()) },
                }
            }
            None => structured(&body.response_format)?,
        };
        let prompt = rendered(messages, tools);
        Self::new(body, true, vec![(prompt, None)], kind, headers)
    }

    /// Reads the body of `/v1/completions`.
    pub(super) fn completion(body: &[u8], headers: &HeaderMap) -> Result<Self, Problem> {
        let mut body: Body = serde_json::from_slice(body)?;
        let prompts = texts(body.prompt.take().unwrap_or_default())
            .ok_or_else(|| Problem::field("prompt", "`prompt` has to be a string, tokens, or a list of either."))?;
        let kind = structured(&body.response_format)?;
        Self::new(body, false, prompts, kind, headers)
    }

    fn new(
        body: Body,
        chat: bool,
        prompts: Vec<(String, Option<u32>)>,
        kind: Kind,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let n = body.n.unwrap_or(1);
        if n == 0 || n.saturating_mul(prompts.len()) > MOST_CHOICES {
            return Err(Problem::field("n", format!("1 to {MOST_CHOICES} choices can be asked for in one request.")));
        }
        let most = body.max_completion_tokens.or(body.max_tokens);
        if most == Some(0) {
            return Err(Problem::field("max_tokens", "`max_tokens` has to be at least 1."));
        }
        let forced = header(headers, PROMPT_TOKENS)?;
        let prompts = prompts.into_iter().map(|(text, count)| {
            let tokens = forced.or(count).unwrap_or_else(|| tokens(&text)).max(1);
            Prompt { text, tokens }
        });
        Ok(Self {
            model: body.model,
            chat,
            prompts: prompts.collect(),
            n,
            kind,
            most,
            exact: header(headers, OUTPUT_TOKENS)?,
            stops: match body.stop {
                None => Vec::new(),
                Some(Stop::One(stop)) => vec![stop],
                Some(Stop::Several(stops)) => stops,
            },
            seed: hash(0, &body.seed.unwrap_or(0).to_le_bytes()),
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
        })
    }
}

/// Parses prompts or inputs: a string, a list of strings, tokens, or a list of lists of tokens. Each comes with its number of tokens if it
/// was given as tokens.
pub(super) fn texts(given: Value) -> Option<Vec<(String, Option<u32>)>> {
    let one = |given: Value| match given {
        Value::String(text) => Some((text, None)),
        Value::Array(ids) if !ids.is_empty() && ids.iter().all(Value::is_u64) => {
            let text: Vec<String> = ids.iter().map(Value::to_string).collect();
            Some((text.join(" "), Some(ids.len() as u32)))
        }
        _ => None,
    };
    match given {
        Value::Array(several) if several.first().is_some_and(|first| !first.is_u64()) => {
            several.into_iter().map(one).collect()
        }
        given => Some(vec![one(given)?]),
    }
}

/// Parses a count in a header.
pub(super) fn header(headers: &HeaderMap, name: &'static str) -> Result<Option<u32>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    match value.to_str().ok().and_then(|value| value.trim().parse().ok()) {
        Some(count) if count > 0 => Ok(Some(count)),
        _ => Err(Problem::field(name, format!("The header `{name}` has to be a number of tokens, at least 1."))),
    }
}

/// Renders the conversation as one text: tools first, then role and content in order, as chat templates do.
fn rendered(messages: &[Message], tools: &[Value]) -> String {
    let mut text = String::new();
    for tool in tools {
        text.push_str(&tool.to_string());
        text.push('\n');
    }
    for message in messages {
        text.push_str("<|");
        text.push_str(&message.role);
        text.push_str("|>\n");
        said(&message.content, &mut text);
        if !message.tool_calls.is_null() {
            text.push_str(&message.tool_calls.to_string());
        }
        text.push('\n');
    }
    text
}

/// Appends the text of a message's content; a part that is not text adds only its type.
fn said(content: &Value, text: &mut String) {
    match content {
        Value::String(said) => text.push_str(said),
        Value::Array(parts) => {
            for part in parts {
                match part["text"].as_str() {
                    Some(said) => text.push_str(said),
                    None => text.push_str(part["type"].as_str().unwrap_or_default()),
                }
            }
        }
        _ => {}
    }
}

/// Selects the tool to call, if any: the one `choice` names; with `required` the one the last message names, or else the first; without a
/// choice the one the last message names, if that is the user's.
fn called<'a>(tools: &'a [Value], choice: &Value, last: &Message) -> Result<Option<&'a Value>, Problem> {
    let name = |tool: &'a Value| tool["function"]["name"].as_str().unwrap_or_default();
    if let Some(wanted) = choice["function"]["name"].as_str() {
        let missing =
            || Problem::field("tool_choice", format!("`tool_choice` names `{wanted}`, which is not in `tools`."));
        return tools.iter().find(|tool| name(tool) == wanted).map(Some).ok_or_else(missing);
    }
    let mut text = String::new();
    said(&last.content, &mut text);
    let text = text.to_lowercase();
    let named = tools.iter().find(|tool| {
        let name = name(tool).to_lowercase();
        !name.is_empty() && (text.contains(&name) || text.contains(&name.replace(['_', '-'], " ")))
    });
    match choice.as_str() {
        Some("required") if tools.is_empty() => {
            Err(Problem::field("tool_choice", "`tool_choice` is `required`, but `tools` is empty."))
        }
        Some("required") => Ok(named.or(tools.first())),
        Some("none") => Ok(None),
        _ => Ok(named.filter(|_| last.role == "user")),
    }
}

fn structured(format: &Value) -> Result<Kind, Problem> {
    match format["type"].as_str() {
        Some("json_object") => Ok(Kind::Json(serde_json::json!({"simulated": true, "answer": "no model was run"}))),
        Some("json_schema") => {
            let schema = &format["json_schema"]["schema"];
            if !schema.is_object() {
                return Err(Problem::field(
                    "response_format",
                    "`response_format.json_schema.schema` has to be an object.",
                ));
            }
            Ok(Kind::Json(sample(schema)))
        }
        _ => Ok(Kind::Prose),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chat(body: &Value) -> Result<ApiRequest, Problem> {
        ApiRequest::chat(body.to_string().as_bytes(), &HeaderMap::new())
    }

    fn tools() -> Value {
        let tool = |name: &str| {
            json!({"type": "function", "function": {"name": name, "parameters": {
                "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]
            }}})
        };
        json!([tool("get_weather"), tool("get_time")])
    }

    #[test]
    fn a_chat_becomes_one_prompt_of_a_quarter_of_its_bytes() {
        let ask = chat(&json!({"model": "m", "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": "x"}}]}
        ], "stop": "END", "max_completion_tokens": 5, "stream": null, "temperature": 0.3}))
        .unwrap();
        assert_eq!(ask.prompts[0].text, "<|system|>\nBe brief.\n<|user|>\nHelloimage_url\n");
        assert_eq!(ask.prompts[0].tokens, 12);
        assert_eq!((ask.most, ask.stream, ask.n, ask.stops), (Some(5), false, 1, vec!["END".to_owned()]));
    }

    #[test]
    fn headers_replace_lengths() {
        let headers: HeaderMap = [(OUTPUT_TOKENS, "9"), (PROMPT_TOKENS, "1234")]
            .map(|(name, count)| (name.parse().unwrap(), count.parse().unwrap()))
            .into_iter()
            .collect();
        let ask = ApiRequest::completion(br#"{"model": "m", "prompt": ["a", "b"]}"#, &headers).unwrap();
        assert_eq!((ask.exact, ask.prompts.len(), ask.prompts[1].tokens), (Some(9), 2, 1234));
        let wrong = [(OUTPUT_TOKENS.parse().unwrap(), "many".parse().unwrap())].into_iter().collect();
        assert!(matches!(
            ApiRequest::completion(br#"{"model": "m", "prompt": "a"}"#, &wrong),
            Err(Problem::Field { .. })
        ));
    }

    #[test]
    fn prompts_come_in_four_shapes() {
        assert_eq!(texts(json!("a")), Some(vec![("a".into(), None)]));
        assert_eq!(texts(json!(["a", "b"])).map(|all| all.len()), Some(2));
        assert_eq!(texts(json!([5, 6, 7])), Some(vec![("5 6 7".into(), Some(3))]));
        assert_eq!(texts(json!([[5], [6, 7]])).map(|all| all.len()), Some(2));
        for wrong in [json!(null), json!([]), json!({}), json!(["a", 1])] {
            assert_eq!(texts(wrong), None);
        }
    }

    #[test]
    fn a_tool_is_called_when_required_named_or_plainly_asked_for() {
        let ask = |choice: Value, role: &str, text: &str| {
            let kind = chat(
                &json!({"model": "m", "messages": [{"role": role, "content": text}], "tools": tools(), "tool_choice": choice}),
            );
            match kind.map(|ask| ask.kind) {
                Ok(Kind::Tool { name, arguments }) => Some((name, arguments)),
                Ok(Kind::Prose) => None,
                other => panic!("{other:?}"),
            }
        };
        let arguments = json!({"city": "simulated city"});
        assert_eq!(ask(json!("required"), "user", "hi"), Some(("get_weather".into(), arguments.clone())));
        assert_eq!(
            ask(json!({"type": "function", "function": {"name": "get_time"}}), "user", "hi"),
            Some(("get_time".into(), arguments.clone()))
        );
        assert_eq!(ask(json!("auto"), "user", "Please get time in Rome"), Some(("get_time".into(), arguments)));
        assert_eq!(ask(json!("auto"), "user", "hi"), None);
        assert_eq!(ask(Value::Null, "tool", "get_time says 5"), None);
        assert_eq!(ask(json!("none"), "user", "get_time"), None);
    }

    #[test]
    fn invalid_fields_are_refused_by_name() {
        let messages = json!([{"role": "user", "content": "hi"}]);
        for (body, field) in [
            (json!({"model": "m"}), "messages"),
            (json!({"model": "m", "messages": []}), "messages"),
            (json!({"model": "m", "messages": messages, "n": 0}), "n"),
            (json!({"model": "m", "messages": messages, "n": 99}), "n"),
            (json!({"model": "m", "messages": messages, "max_tokens": 0}), "max_tokens"),
            (json!({"model": "m", "messages": messages, "tool_choice": "required"}), "tool_choice"),
            (json!({"model": "m", "messages": messages, "tool_choice": {"function": {"name": "x"}}}), "tool_choice"),
            (
                json!({"model": "m", "messages": messages, "response_format": {"type": "json_schema"}}),
                "response_format",
            ),
        ] {
            assert!(matches!(chat(&body), Err(Problem::Field { param, .. }) if param == field), "{body}");
        }
        assert!(matches!(chat(&json!({"messages": messages})), Err(Problem::Body(_))));
    }
}
