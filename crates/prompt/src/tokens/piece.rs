//! The pieces of a prompt without its JSON: texts, template tokens, attachments.

use crate::attachments::Attachment;

/// One step of the walk.
#[derive(Copy, Clone, Debug)]
pub(super) enum Piece<'a> {
    /// A text to be tokenized on its own.
    Text(&'a str),
    /// Bytes of escapes in the text before it, beyond the characters that they stand for.
    Escapes(u64),
    /// Tokens of the template.
    Tokens(u64),
    /// A picture, sound, video or file.
    Attachment(Attachment<'a>),
    /// A long value that no model reads as text, such as a signature.
    Opaque(&'a str),
}

/// The tokens that a chat template adds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    /// Around each message, without its role.
    pub message: u64,
    /// For a message with a name, without the name itself.
    pub name: u64,
    /// Before the answer.
    pub reply: u64,
    /// Around a plain text that is not a message.
    pub plain: u64,
    /// The rendering of tools.
    pub tools: Style,
}

/// The rendering of tools.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As OpenAI does, as functions of a TypeScript namespace. OpenAI does not publish how it renders a schema. This
    /// follows its cookbook ("How to count tokens with tiktoken", 6: `name:description` for a function,
    /// `name:type:description` for a parameter, and constants), which matches the API's reports for plain schemas.
    /// Nested objects and lists of them, which the cookbook leaves out, count as further parameters.
    Namespace {
        /// Tokens around each function: 7 with `o200k_base`, 10 with `cl100k_base`.
        function: u64,
    },
    /// As their JSON, like the templates of open models (`tool | tojson`).
    Json,
}
