//! The members of a request's body that the model reads.

/// The parts of a request that a model reads: each member's raw JSON, empty if absent. Text is unescaped only while it
/// is counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered<'a> {
    /// Tools, or the older `functions`.
    pub tools: &'a str,
    /// The system prompt outside of the messages.
    pub system: &'a str,
    /// Instructions, as the Responses API calls the system prompt.
    pub instructions: &'a str,
    /// Documents, of reranking and of some chat templates.
    pub documents: &'a str,
    /// Messages.
    pub messages: &'a str,
    /// The prompt of a completion: texts or token ids.
    pub prompt: &'a str,
    /// The input of embeddings (texts or token ids) or of the Responses API (a text or items).
    pub input: &'a str,
    /// True if a text as `input` is a user's message, as in the Responses API, and not an embedding's text.
    pub input_is_message: bool,
    /// The query of reranking.
    pub query: &'a str,
}

impl<'a> Rendered<'a> {
    /// Selects them from a body's top-level members, each a name and its raw JSON value. The last of several with the
    /// same name counts, as in most JSON readers. A value that is not UTF-8 is left out because it is not JSON.
    pub fn of(members: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut rendered = Self::default();
        for (name, raw) in members {
            let member = match name {
                b"tools" | b"functions" => &mut rendered.tools,
                b"system" => &mut rendered.system,
                b"instructions" => &mut rendered.instructions,
                b"documents" => &mut rendered.documents,
                b"messages" => &mut rendered.messages,
                b"prompt" => &mut rendered.prompt,
                b"input" => &mut rendered.input,
                b"query" => &mut rendered.query,
                _ => continue,
            };
            *member = std::str::from_utf8(raw).unwrap_or_default().trim_ascii();
        }
        rendered
    }

    /// Length of the raw JSON, in bytes: at least that of the texts in it.
    pub const fn bytes(&self) -> usize {
        self.tools.len()
            + self.system.len()
            + self.instructions.len()
            + self.documents.len()
            + self.messages.len()
            + self.prompt.len()
            + self.input.len()
            + self.query.len()
    }
}
