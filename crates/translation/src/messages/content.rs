//! Messages and content blocks of a request, as they are read.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{Unsupported, json::inner, unsupported};

/// A message. Its content is read block by block, so that an error names the block.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) role: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) output_config: Option<IgnoredAny>,
}

/// A content block of any type. The members of all types are disjoint enough to be read by one structure.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) signature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
    #[serde(borrow)]
    pub(super) source: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) title: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) context: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) citations: Option<&'a RawValue>,
    pub(super) cache_control: Option<IgnoredAny>,
}

/// The position of a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path {
    System { block: usize },
    Message { message: usize },
    Block { message: usize, block: usize },
    Inner { message: usize, block: usize, inner: usize },
}

impl Path {
    /// The path of the item `at` of the content at this path.
    pub(super) fn item(self, at: usize) -> Self {
        match self {
            Self::System { .. } => Self::System { block: at },
            Self::Message { message } => Self::Block { message, block: at },
            Self::Block { message, block } | Self::Inner { message, block, .. } => {
                Self::Inner { message, block, inner: at }
            }
        }
    }

    pub(super) fn error(self, member: &str, message: impl Into<String>) -> Unsupported {
        let dot = if member.is_empty() { "" } else { "." };
        unsupported(format!("{self}{dot}{member}"), message)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System { block } => write!(f, "system[{block}]"),
            Self::Message { message } => write!(f, "messages[{message}]"),
            Self::Block { message, block } => write!(f, "messages[{message}].content[{block}]"),
            Self::Inner { message, block, inner } => write!(f, "messages[{message}].content[{block}].content[{inner}]"),
        }
    }
}

/// The content of a message or of a tool result.
pub(super) enum Content<'a> {
    /// Escaped text.
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

impl<'a> Content<'a> {
    /// Reads a string or a list of blocks. Absent content is empty.
    pub(super) fn read(raw: Option<&'a RawValue>, path: Path) -> Result<Self, Unsupported> {
        let Some(raw) = raw else { return Ok(Self::Text("")) };
        if let Some(text) = inner(raw) {
            return Ok(Self::Text(text));
        }
        if !raw.get().starts_with('[') {
            return Err(path.error("content", format!("`{path}.content` must be a string or a list of blocks")));
        }
        match serde_json::from_str(raw.get()) {
            Ok(blocks) => Ok(Self::Blocks(blocks)),
            Err(error) => Err(broken_block(raw, path, &error)),
        }
    }
}

/// Finds the malformed block of a list, by reading it again.
fn broken_block(list: &RawValue, path: Path, error: &serde_json::Error) -> Unsupported {
    let items: Vec<&RawValue> = serde_json::from_str(list.get()).unwrap_or_default();
    items
        .into_iter()
        .enumerate()
        .find_map(|(at, item)| {
            let error = serde_json::from_str::<Block<'_>>(item.get()).err()?;
            let path = path.item(at);
            Some(path.error("", format!("`{path}` is malformed: {error}")))
        })
        .unwrap_or_else(|| path.error("content", format!("`{path}.content` is malformed: {error}")))
}
