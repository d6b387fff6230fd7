//! The parts of a prompt, and how much of it an application sends with every request.

/// A part of what the model reads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The tools on offer.
    Tools,
    /// What the operator of an application says: the system prompt, instructions, documents.
    System,
    /// A message, counted from 0.
    Message(u32),
    /// A prompt that is no list of messages.
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

/// A place in a prompt.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The part in which it lies.
    pub part: Part,
    /// Whether another message follows upon that part.
    pub goes_on: bool,
}

/// How a prompt begins, as far as applications send that with every request.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Its length in bytes, of the prompt as it is hashed.
    pub bytes: u64,
    /// What it is known by.
    pub end: HeadEnd,
}

/// Where the head of a prompt ends.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum HeadEnd {
    /// With the system prompt, tools before it included.
    System,
    /// At the first breakpoint that its client has set for the provider's cache.
    Breakpoint,
    /// There is none that could be told from the rest: the end of the first message, or of the whole prompt.
    #[default]
    Untold,
}
