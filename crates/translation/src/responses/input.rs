//! Input items of a Responses request.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    content::{self, Piece},
    conversation::Conversation,
    names::flat,
    signed,
    tools::{SEARCH, Tools, freeform_arguments},
};
use crate::{
    Dropped, Unsupported,
    json::{inner, nested_text, part, put, string, word},
    unsupported,
};

/// The prefixes of `encrypted_content` that hold an engine's own reasoning, and the field that it came in. Such content is
/// not encrypted; other content is some provider's secret and cannot be read.
pub(super) const CARRIED: [(&str, &str); 2] =
    [("chat:reasoning_content:", "reasoning_content"), ("chat:reasoning:", "reasoning")];

/// An item of any type.
#[derive(Deserialize)]
pub(super) struct Item<'a> {
    #[serde(borrow)]
    r#type: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) role: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) summary: Option<&'a RawValue>,
    #[serde(borrow)]
    encrypted_content: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    author: Option<&'a RawValue>,
    #[serde(borrow)]
    phase: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) status: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) action: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) operation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) queries: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) code: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) results: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) outputs: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// Reads items into messages and tools.
pub(super) struct Reader<'r, 's> {
    pub(super) conversation: &'r mut Conversation<'s>,
    pub(super) tools: &'r mut Tools,
    pub(super) dropped: &'r mut Dropped,
}

impl Reader<'_, '_> {
    /// Adds the input, a string or a list of items. `at` is its path.
    pub(super) fn input(&mut self, raw: &RawValue, at: &str) -> Result<(), Unsupported> {
        if let Some(text) = inner(raw) {
            self.conversation.user(&[Piece::Text(text)]);
            return Ok(());
        }
        let items: Vec<Item<'_>> = part(raw, at)?;
        for (index, item) in items.iter().enumerate() {
            self.item(item, &format!("{at}[{index}]"))?;
        }
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>, at: &str) -> Result<(), Unsupported> {
        let kind = word(item.r#type);
        let is_asked = matches!(kind, "" | "message") && word(item.role) != "assistant";
        self.tools.under_way |= !is_asked && kind != "additional_tools";
        match kind {
            "message" => self.message(item, at),
            "" if item.role.is_some() => self.message(item, at),
            "function_call" => {
                let arguments = required(item.arguments, "arguments", at)?;
                self.call(item, &quoted(if arguments.is_empty() { "{}" } else { arguments }), at)
            }
            "custom_tool_call" => {
                required(item.input, "input", at)?;
                let arguments = item.input.map(freeform_arguments).unwrap_or_default();
                self.call(item, &arguments, at)
            }
            "tool_search_call" => self.search(item, at),
            "function_call_output" | "custom_tool_call_output" => {
                let id = required(item.call_id, "call_id", at)?;
                let pieces = content::pieces(item.output, &format!("{at}.output"))?;
                self.conversation.output(id, &pieces);
                Ok(())
            }
            "tool_search_output" => self.found(item, at),
            "additional_tools" => match item.tools {
                Some(tools) => self.tools.add_list(tools, &format!("{at}.tools"), self.dropped),
                None => Ok(()),
            },
            "reasoning" => self.reasoning(item, at),
            "agent_message" => self.agent(item, at),
            kind => self.other(kind, item, at),
        }
    }

    fn message(&mut self, item: &Item<'_>, at: &str) -> Result<(), Unsupported> {
        if item.phase.is_some() {
            self.dropped.add("input.phase");
        }
        let path = format!("{at}.content");
        let pieces = content::pieces(item.content, &path)?;
        let role = word(item.role);
        if role != "user"
            && let Some(index) = content::first_media(&pieces)
        {
            let message = format!("a message of the role `{role}` can only hold text; send images and files as `user`");
            return Err(unsupported(format!("{path}[{index}]"), message));
        }
        match role {
            "user" => self.conversation.user(&pieces),
            "assistant" => self.conversation.assistant(&pieces),
            // Engines know the role `system`; OpenAI reads it as `developer` where a model needs that.
            "system" | "developer" => self.conversation.system(&pieces),
            _ => {
                let message = format!("the role `{role}` is not one of `user`, `assistant`, `system`, `developer`");
                return Err(unsupported(format!("{at}.role"), message));
            }
        }
        Ok(())
    }

    fn call(&mut self, item: &Item<'_>, arguments: &str, at: &str) -> Result<(), Unsupported> {
        let id = required(item.call_id, "call_id", at)?;
        let name = flat(word(item.namespace), required(item.name, "name", at)?);
        self.conversation.call(id, &name, arguments);
        Ok(())
    }

    /// A search for tools by the client: a call with an object as its arguments.
    fn search(&mut self, item: &Item<'_>, at: &str) -> Result<(), Unsupported> {
        let Some(id) = item.call_id.and_then(inner) else {
            // The provider's own search, of which the loaded tools follow.
            return Ok(());
        };
        let arguments = item.arguments.ok_or_else(|| missing("arguments", at))?;
        let arguments = inner(arguments).map_or_else(|| quoted(&nested_text(arguments.get())), quoted);
        self.conversation.call(id, SEARCH, &arguments);
        Ok(())
    }

    /// The tools that a search found: they become callable, and the model reads their names as the call's output.
    fn found(&mut self, item: &Item<'_>, at: &str) -> Result<(), Unsupported> {
        let path = format!("{at}.tools");
        let mut names = Vec::new();
        if let Some(tools) = item.tools {
            self.tools.add_list(tools, &path, self.dropped)?;
            names = Tools::names(tools, &path)?;
        }
        if let Some(id) = item.call_id.and_then(inner) {
            let text = if names.is_empty() {
                "No tool was found.".to_owned()
            } else {
                format!("These tools can be called now: {}", names.join(", "))
            };
            self.conversation.output(id, &[Piece::Text(&text)]);
        }
        Ok(())
    }

    /// Reasoning of earlier turns goes back to the engine in the field that it came in. Summaries are for readers.
    fn reasoning(&mut self, item: &Item<'_>, at: &str) -> Result<(), Unsupported> {
        if let Some(hidden) = item.encrypted_content.and_then(inner) {
            for (prefix, field) in CARRIED {
                if let Some(text) = hidden.strip_prefix(prefix) {
                    self.conversation.reasoning(field, &[Piece::Text(text)]);
                    return Ok(());
                }
            }
            if let Some(blocks) = signed::blocks(hidden) {
                self.conversation.signed(&blocks);
                return Ok(());
            }
            self.dropped.add("input.reasoning.encrypted_content");
        }
        let pieces = content::pieces(item.content, &format!("{at}.content"))?;
        if !pieces.is_empty() {
            self.conversation.reasoning(CARRIED[0].1, &pieces);
        } else if item.summary.is_some_and(|raw| raw.get() != "[]") {
            self.dropped.add("input.reasoning.summary");
        }
        Ok(())
    }

    /// A message of another agent of the client.
    fn agent(&mut self, item: &Item<'_>, at: &str) -> Result<(), Unsupported> {
        let pieces = content::pieces(item.content, &format!("{at}.content"))?;
        let label = ["Message of the agent ", word(item.author), ":"].concat();
        let labelled: Vec<Piece<'_>> = std::iter::once(Piece::Text(&label)).chain(pieces).collect();
        self.conversation.user(&labelled);
        Ok(())
    }
}

fn required<'a>(raw: Option<&'a RawValue>, name: &str, at: &str) -> Result<&'a str, Unsupported> {
    raw.and_then(inner).ok_or_else(|| missing(name, at))
}

fn missing(name: &str, at: &str) -> Unsupported {
    unsupported(format!("{at}.{name}"), format!("the item needs `{name}`"))
}

fn quoted(escaped: &str) -> String {
    ["\"", escaped, "\""].concat()
}

/// The error for an item that a chat backend cannot take.
pub(super) fn unknown(kind: &str, item: &Item<'_>, at: &str) -> Unsupported {
    let shown = if kind.is_empty() && item.id.is_some() { "item_reference" } else { kind };
    let advice = match shown {
        "item_reference" => {
            "no item with this id is stored here; send the item itself (SDKs do so with `store: false`)"
        }
        "compaction_trigger" => "only the provider compacts conversations; start a new one, or compact with a prompt",
        "" => "an item needs a `type`, or a `role` with `content`",
        _ => "a message has the type `message`",
    };
    let mut message = b"items of the type ".to_vec();
    string(&mut message, shown);
    put(&mut message, &[" cannot be sent to a chat backend: ", advice]);
    unsupported(format!("{at}.type"), String::from_utf8(message).unwrap_or_default())
}
