//! What a request's body says of the work it asks for, as plain numbers and the text of its last turn.

/// How much reasoning the client asks for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// It does not say.
    #[default]
    Unsaid,
    /// `none` or `minimal`
    Minimal,
    /// `low`
    Low,
    /// `medium`
    Medium,
    /// `high` and above, or a thinking budget
    High,
}

/// A request's outline, whatever the dialect it came in. Made to be used again: its buffer keeps its room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outline {
    /// The last user turn, unescaped; its head and its tail where it is very long.
    pub text: String,
    /// Bytes of that turn as it stands in the body, however much of it is in `text`.
    pub text_bytes: u64,
    /// A hash of all that users wrote, up to the last turn; 0 where they wrote nothing.
    pub said: u64,
    /// The same up to the turn before: what [`said`](Self::said) was when that turn was asked.
    pub said_before: u64,
    /// Messages that users wrote; 1 for a plain prompt.
    pub turns: u32,
    /// Messages and items of all kinds.
    pub messages: u32,
    /// Bytes of the system prompt and of instructions.
    pub system_bytes: u64,
    /// Messages that a model wrote earlier.
    pub answers: u32,
    /// Their bytes, together.
    pub answer_bytes: u64,
    /// Bytes of the longest of them.
    pub longest_answer: u64,
    /// Tools on offer.
    pub tools: u32,
    /// Whether a tool has to be called.
    pub tool_forced: bool,
    /// Results of tools among the messages.
    pub tool_results: u32,
    /// Whether the last message is a tool's result: an agent is at work.
    pub in_tool_loop: bool,
    /// Depth to which objects nest in the asked-for format of the answer: 0 for text, 1 for any JSON object.
    pub schema_depth: u32,
    /// Images in all messages.
    pub images: u32,
    /// Sounds in all messages.
    pub audio: u32,
    /// Files in all messages.
    pub files: u32,
    /// The client's limit on the answer, in tokens.
    pub max_tokens: Option<u64>,
    /// How much reasoning is asked for.
    pub effort: Effort,
    /// Whether the answer shall be streamed.
    pub stream: bool,
}

impl Outline {
    /// The outline of a plain prompt.
    pub fn of_text(text: &str) -> Self {
        Self { text: text.to_owned(), text_bytes: text.len() as u64, turns: 1, messages: 1, ..Self::default() }
    }

    /// Forgets everything but the room of its buffer.
    pub fn clear(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        *self = Self { text, ..Self::default() };
    }
}
