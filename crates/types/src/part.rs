//! The parts of a prompt, and the head that an application sends with every request.

/// A part of what the model reads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The tools on offer.
    Tools,
    /// Text by the application's operator: system prompt, instructions, documents.
    System,
    /// A message, counted from 0.
    Message(u32),
    /// A prompt that is not a list of messages.
    Prompt,
}

impl Part {
    /// The name used in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::System => "system",
            Self::Message(_) => "message",
            Self::Prompt => "prompt",
        }
    }
}

/// A position in a prompt.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The part that contains it.
    pub part: Part,
    /// True if another message follows the part.
    pub goes_on: bool,
}

/// The beginning of a prompt that an application sends with every request.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Length of the head, in bytes of the prompt as hashed.
    pub bytes: u64,
    /// The mark that ends the head.
    pub end: HeadEnd,
}

/// The mark that ends the head of a prompt.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum HeadEnd {
    /// The end of the system prompt, including the tools before it.
    System,
    /// The first cache breakpoint that the client set for its provider.
    Breakpoint,
    /// No mark: the head ends with the first message, or with the whole prompt.
    #[default]
    Unmarked,
}
