//! What a prompt is made of, once its JSON is gone: texts, the tokens of templates, images.

/// Tokens of an image of low detail, and of one of high detail that is 1024 pixels wide and high: OpenAI's 85, and 85 + 4 tiles of 170.
/// Other models take other numbers; what a policy's own model takes is not known here.
pub(super) const LOW_DETAIL: u64 = 85;
pub(super) const IMAGE: u64 = 765;
/// Tokens of the largest image of high detail: 768 × 2048 pixels, 8 tiles.
pub(super) const LARGEST_IMAGE: u64 = 1445;

/// One step of the walk.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// A text to be tokenized by itself.
    Text(&'a str),
    /// Tokens of the template.
    Tokens(u64),
    /// An image, a sound or a file of so many tokens as a rule.
    Media(u64),
}

/// What a chat template adds, in tokens.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    /// Around each message, its role not counted.
    pub message: u64,
    /// To a message that has a name, the name not counted.
    pub name: u64,
    /// Before the answer.
    pub reply: u64,
    /// Around a plain text that is no message.
    pub plain: u64,
    /// How tools are shown.
    pub tools: Style,
}

/// How tools are shown.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As OpenAI does, as the functions of a TypeScript namespace. What it makes of a schema is not published; this is the account
    /// that its cookbook gives ("How to count tokens with tiktoken", 6: `name:description` for a function, `name:type:description` for
    /// a parameter, and constants), which meets what the API reports for plain schemas. What the cookbook leaves out, objects in
    /// objects and lists of them, is counted as further parameters.
    Namespace {
        /// Tokens around each function: 7 with `o200k_base`, 10 with `cl100k_base`.
        function: u64,
    },
    /// As the JSON they are, as templates of open models do (`tool | tojson`).
    Json,
}
