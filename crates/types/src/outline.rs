//! A request's features as plain numbers, and the text of its last turn.

/// The reasoning effort that the client requests.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Not specified.
    #[default]
    Unspecified,
    /// `none` or `minimal`
    Minimal,
    /// `low`
    Low,
    /// `medium`
    Medium,
    /// `high` and above, or a thinking budget
    High,
}

/// A request's outline, independent of its dialect. Made to be reused: clearing keeps the capacity of its buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The last user turn, unescaped; only its head and tail if it is very long.
    pub text: String,
    /// Bytes of the last user turn as it stands in the body, including what `text` leaves out.
    pub text_bytes: u64,
    /// The turns before the last, the latest first, each ended by NUL; only a few, and only where the last is short. Before them stands
    /// what the assistant offered, if the last turn may accept it.
    pub earlier_turns: String,
    /// A hash of all user messages up to and including the last turn; 0 if there are none.
    pub said: u64,
    /// A hash of all user messages up to the turn before the last: the value of [`said`](Self::said) in the previous request of the
    /// conversation.
    pub said_before: u64,
    /// Messages by users; 1 for a plain prompt.
    pub turns: u32,
    /// Messages and items of all kinds.
    pub messages: u32,
    /// Bytes of the system prompt and the instructions.
    pub system_bytes: u64,
    /// Number of tools offered.
    pub tools: u32,
    /// True if the client requires a tool call.
    pub tool_forced: bool,
    /// Tool results among the messages.
    pub tool_results: u32,
    /// True if the last message is a tool result: the client is an agent.
    pub in_tool_loop: bool,
    /// Nesting depth of objects in the requested answer format: 0 for text, 1 for any JSON object.
    pub schema_depth: u32,
    /// Images in all messages.
    pub images: u32,
    /// Audio parts in all messages.
    pub audio: u32,
    /// Files in all messages.
    pub files: u32,
    /// The client's limit on the answer, in tokens.
    pub max_tokens: Option<u64>,
    /// The requested reasoning effort.
    pub effort: Effort,
    /// True if the client requests a stream.
    pub stream: bool,
}

impl Outline {
    /// The outline of a plain prompt.
    pub fn of_text(text: &str) -> Self {
        Self { text: text.to_owned(), text_bytes: text.len() as u64, turns: 1, messages: 1, ..Self::default() }
    }

    /// The turns before the last that are kept, the latest first: the user's, after an offer that the last may accept.
    pub fn earlier(&self) -> impl Iterator<Item = &str> {
        self.earlier_turns.split_terminator('\0')
    }

    /// Resets everything but the capacity of its buffers.
    pub fn clear(&mut self) {
        let [mut text, mut earlier_turns] = [&mut self.text, &mut self.earlier_turns].map(std::mem::take);
        text.clear();
        earlier_turns.clear();
        *self = Self { text, earlier_turns, ..Self::default() };
    }
}
