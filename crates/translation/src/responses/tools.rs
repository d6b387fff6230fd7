//! Tools and `tool_choice`: every tool that the client carries out becomes a chat function.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    client_tools::ClientTool,
    names::{Kind, Names, Origin, flat},
};
use crate::{
    Dropped, Unsupported,
    fields::Fields,
    json::{comma, inner, nested_text, part, put, word},
    readable::kind_name,
    unsupported,
};

/// The name of the tool search at a backend.
pub(super) const SEARCH: &str = "tool_search";

/// The parameters of a custom tool at a backend. Models are trained on this form of freeform tools.
const FREEFORM: &str = r#"{"type":"object","properties":{"input":{"type":"string","description":"The whole input of the tool, as plain text."}},"required":["input"],"additionalProperties":false}"#;

#[derive(Deserialize)]
struct Tool<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    strict: Option<&'a RawValue>,
    #[serde(borrow)]
    format: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    execution: Option<&'a RawValue>,
    #[serde(borrow)]
    external_web_access: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_control: Option<&'a RawValue>,
    #[serde(borrow)]
    environment: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Format<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    syntax: Option<&'a RawValue>,
    #[serde(borrow)]
    definition: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    mode: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

/// The tools of a request in their chat form.
#[derive(Default)]
pub(super) struct Tools {
    /// Name and JSON of each function, in order.
    functions: Vec<(Box<str>, Vec<u8>)>,
    /// Every tool by its name at the backend.
    known: HashMap<Box<str>, Origin>,
    /// The first tool of the provider that was left out, as an error for requests that cannot do without.
    refused: Option<Unsupported>,
    /// True if the input has a part of an answer.
    pub(super) under_way: bool,
}

impl Tools {
    /// Adds a list of tools. `at` is its path.
    pub(super) fn add_list(&mut self, raw: &RawValue, at: &str, dropped: &mut Dropped) -> Result<(), Unsupported> {
        let tools: Vec<Tool<'_>> = part(raw, at)?;
        for (index, tool) in tools.iter().enumerate() {
            self.add(tool, "", &format!("{at}[{index}]"), dropped)?;
        }
        Ok(())
    }

    fn add(&mut self, tool: &Tool<'_>, namespace: &str, at: &str, dropped: &mut Dropped) -> Result<(), Unsupported> {
        if tool.cache_control.is_some() {
            dropped.add("cache_control");
        }
        match word(tool.r#type) {
            "function" if tool.name.is_none() && tool.function.is_some() => Err(unsupported(
                format!("{at}.function"),
                "function tools of the Responses API have `name` and `parameters` beside `type`, not inside `function`",
            )),
            "function" => {
                let name = self.named(tool, Kind::Function, namespace, at)?;
                self.function(name, tool, tool.description.and_then(inner), None);
                Ok(())
            }
            "custom" => {
                let name = self.named(tool, Kind::Custom, namespace, at)?;
                let format =
                    tool.format.map(|format| part::<Format<'_>>(format, &format!("{at}.format"))).transpose()?;
                self.custom(name, tool, format.as_ref());
                Ok(())
            }
            "namespace" if namespace.is_empty() => self.namespace(tool, at, dropped),
            // Without `execution: "client"` the provider searches among deferred tools, all of which the backend gets.
            SEARCH if word(tool.execution) == "client" => {
                let origin = Origin { kind: Kind::Search, namespace: None, name: SEARCH.into() };
                let name = self.register(SEARCH, origin, at)?;
                self.function(name, tool, tool.description.and_then(inner), None);
                Ok(())
            }
            SEARCH => {
                dropped.add("tools.tool_search");
                Ok(())
            }
            // Codex offers the search without the user's wish, and always says if it may reach the web.
            kind if kind.starts_with("web_search") && tool.external_web_access.is_some() => {
                dropped.add("tools.web_search");
                Ok(())
            }
            kind => match ClientTool::named(kind).filter(|_| !has_container(tool)) {
                Some(client) => self.client(client, tool, at),
                None if kind.is_empty() => Err(unsupported(format!("{at}.type"), "a tool needs a `type`")),
                None => {
                    dropped.add(&format!("tools.{}", kind_name(kind)));
                    self.refused.get_or_insert_with(|| unsupported(format!("{at}.type"), built_in(kind)));
                    Ok(())
                }
            },
        }
    }

    fn client(&mut self, client: ClientTool, tool: &Tool<'_>, at: &str) -> Result<(), Unsupported> {
        let origin = Origin { kind: Kind::Client(client), namespace: None, name: client.name().into() };
        let name = self.register(client.name(), origin, at)?;
        self.function(name, tool, Some(client.description()), Some(client.parameters()));
        Ok(())
    }

    fn namespace(&mut self, tool: &Tool<'_>, at: &str, dropped: &mut Dropped) -> Result<(), Unsupported> {
        let name = tool_name(tool.name, at)?;
        if tool.description.and_then(inner).is_some_and(|text| !text.is_empty()) {
            dropped.add("tools.namespace.description");
        }
        let Some(list) = tool.tools else { return Ok(()) };
        let tools: Vec<Tool<'_>> = part(list, &format!("{at}.tools"))?;
        for (index, tool) in tools.iter().enumerate() {
            self.add(tool, name, &format!("{at}.tools[{index}]"), dropped)?;
        }
        Ok(())
    }

    /// Registers a function or custom tool. `None` if it is known already, as tools that are declared again each turn.
    fn named(
        &mut self,
        tool: &Tool<'_>,
        kind: Kind,
        namespace: &str,
        at: &str,
    ) -> Result<Option<Box<str>>, Unsupported> {
        let name = tool_name(tool.name, at)?;
        let space = (!namespace.is_empty()).then(|| namespace.into());
        self.register(&flat(namespace, name), Origin { kind, namespace: space, name: name.into() }, at)
    }

    fn register(&mut self, name: &str, origin: Origin, at: &str) -> Result<Option<Box<str>>, Unsupported> {
        match self.known.get(name) {
            None => {
                self.known.insert(name.into(), origin);
                Ok(Some(name.into()))
            }
            Some(known) if *known == origin => Ok(None),
            Some(_) => {
                let message = format!("two different tools have the name `{name}` at a chat backend; rename one");
                Err(unsupported(format!("{at}.name"), message))
            }
        }
    }

    /// Writes the chat form of a function. `description` is escaped.
    fn function(
        &mut self,
        name: Option<Box<str>>,
        tool: &Tool<'_>,
        description: Option<&str>,
        parameters: Option<&str>,
    ) {
        let Some(name) = name else { return };
        let parameters = parameters.or_else(|| tool.parameters.map(RawValue::get));
        let size = parameters.map_or(0, str::len) + description.map_or(0, str::len) + name.len() + 128;
        let mut out = Vec::with_capacity(size);
        put(&mut out, &[r#"{"type":"function","function":{"name":""#, &name, "\""]);
        if let Some(description) = description {
            put(&mut out, &[r#","description":""#, description, "\""]);
        }
        if let Some(parameters) = parameters {
            put(&mut out, &[r#","parameters":"#, parameters]);
        }
        if let Some(strict) = tool.strict {
            put(&mut out, &[r#","strict":"#, strict.get()]);
        }
        put(&mut out, &["}}"]);
        self.functions.push((name, out));
    }

    /// Writes a custom tool as a function with one parameter. A grammar becomes part of the description: a chat backend
    /// cannot enforce it.
    fn custom(&mut self, name: Option<Box<str>>, tool: &Tool<'_>, format: Option<&Format<'_>>) {
        let mut description = tool.description.and_then(inner).unwrap_or_default().to_owned();
        if let Some(format) = format.filter(|format| word(format.r#type) == "grammar") {
            let joint = if description.is_empty() { "" } else { r"\n\n" };
            let syntax = word(format.syntax);
            let rule = [joint, "The input must match this ", syntax, r" grammar:\n", word(format.definition)];
            description.push_str(&rule.concat());
        }
        self.function(
            name,
            tool,
            Some(&description).filter(|text| !text.is_empty()).map(String::as_str),
            Some(FREEFORM),
        );
    }

    /// Appends the fields `tools` and `tool_choice` of the chat request. Returns true if any tool is left.
    pub(super) fn write(&self, choice: Option<&RawValue>, out: &mut Vec<u8>) -> Result<bool, Unsupported> {
        let (allowed, choice) = self.choose(choice)?;
        if self.functions.is_empty()
            && !self.under_way
            && let Some(Unsupported { param, message }) = &self.refused
        {
            return Err(unsupported(&**param, message));
        }
        let kept = |name: &str| allowed.as_ref().is_none_or(|allowed| allowed.contains(name));
        let mut list = Vec::new();
        for (_, function) in self.functions.iter().filter(|(name, _)| kept(name)) {
            comma(&mut list);
            list.extend_from_slice(function);
        }
        if list.is_empty() {
            return match choice.as_deref() {
                None | Some("\"auto\"" | "\"none\"") => Ok(false),
                _ => Err(unsupported(
                    "tool_choice",
                    "a tool call is required, but no tool is left that a chat backend can call",
                )),
            };
        }
        put(out, &[r#","tools":["#]);
        out.append(&mut list);
        out.push(b']');
        if let Some(choice) = choice {
            put(out, &[r#","tool_choice":"#, &choice]);
        }
        Ok(true)
    }

    /// The names that a choice allows, if it names several, and the chat form of the choice.
    fn choose(&self, raw: Option<&RawValue>) -> Result<(Option<HashSet<String>>, Option<String>), Unsupported> {
        let Some(raw) = raw else { return Ok((None, None)) };
        if inner(raw).is_some() {
            return Ok((None, Some(raw.get().to_owned())));
        }
        let choice: Choice<'_> = part(raw, "tool_choice")?;
        if word(choice.r#type) != "allowed_tools" {
            let name = self.chosen(&choice, "tool_choice")?;
            let text = [r#"{"type":"function","function":{"name":""#, &name, "\"}}"].concat();
            return Ok((None, Some(text)));
        }
        let list = choice.tools.ok_or_else(|| unsupported("tool_choice.tools", "`allowed_tools` needs `tools`"))?;
        let tools: Vec<Choice<'_>> = part(list, "tool_choice.tools")?;
        let mut allowed = HashSet::new();
        for (index, tool) in tools.iter().enumerate() {
            match self.chosen(tool, &format!("tool_choice.tools[{index}]")) {
                Ok(name) => {
                    allowed.insert(name);
                }
                // The others are still allowed.
                Err(_) if self.refused.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let mode = choice.mode.map_or("\"auto\"", RawValue::get);
        Ok((Some(allowed), Some(mode.to_owned())))
    }

    fn chosen(&self, choice: &Choice<'_>, at: &str) -> Result<String, Unsupported> {
        match word(choice.r#type) {
            SEARCH if self.known.contains_key(SEARCH) => Ok(SEARCH.to_owned()),
            kind if ClientTool::named(kind).is_some() && self.known.contains_key(kind) => Ok(kind.to_owned()),
            "function" | "custom" => Ok(flat(word(choice.namespace), tool_name(choice.name, at)?)),
            kind => Err(unsupported(format!("{at}.type"), built_in(kind))),
        }
    }

    /// The names at a backend of the tools in a list that was added.
    pub(super) fn names(raw: &RawValue, at: &str) -> Result<Vec<String>, Unsupported> {
        let mut names = Vec::new();
        for tool in part::<Vec<Tool<'_>>>(raw, at)? {
            match tool.tools {
                None => names.push(flat("", word(tool.name))),
                Some(list) => {
                    let inside: Vec<Tool<'_>> = part(list, at)?;
                    names.extend(inside.iter().map(|inner| flat(word(tool.name), word(inner.name))));
                }
            }
        }
        Ok(names)
    }

    /// The tools whose calls must be translated back.
    pub(super) fn into_names(self) -> Names {
        let differs = |origin: &Origin| origin.kind != Kind::Function || origin.namespace.is_some();
        self.known.into_iter().filter(|(_, origin)| differs(origin)).collect()
    }
}

/// True for a shell in a container of the provider.
fn has_container(tool: &Tool<'_>) -> bool {
    let environment = tool.environment.and_then(|environment| Fields::of(environment).ok());
    environment.is_some_and(|environment| word(environment.get("type")).starts_with("container"))
}

fn tool_name<'a>(raw: Option<&'a RawValue>, at: &str) -> Result<&'a str, Unsupported> {
    raw.and_then(inner)
        .filter(|name| !name.is_empty() && !name.contains('\\'))
        .ok_or_else(|| unsupported(format!("{at}.name"), "a tool needs a `name` of letters, digits, `_` and `-`"))
}

/// The message for a tool that a provider would carry out.
fn built_in(kind: &str) -> String {
    let advice = match kind {
        "web_search" | "web_search_preview" | "web_search_2025_08_26" | "web_search_preview_2025_03_11" => {
            "declare a function tool that searches; in Codex set `web_search = \"disabled\"`"
        }
        "file_search" => "search in the application and send the passages as input",
        "mcp" => "connect to the MCP server in the application and declare its tools as functions",
        "shell" | "code_interpreter" => "declare a function tool that runs the commands",
        "computer" | "computer_use_preview" => "declare a function tool that controls the computer",
        "image_generation" => "call `/v1/images/generations`; in Codex set `features.image_generation = false`",
        _ => "declare a `function` or `custom` tool",
    };
    format!("the tool type `{kind}` is carried out by the provider of the API, and a chat backend has none; {advice}")
}

/// The arguments of a custom tool's call, as a quoted JSON string: `{"input": …}`.
pub(super) fn freeform_arguments(input: &RawValue) -> String {
    [r#""{\"input\":"#, &nested_text(input.get()), "}\""].concat()
}
