//! The model that answers of chat name.

/// The model that answers of chat and completions name.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum AnswerModel {
    /// The one that answered, in its backend's words.
    #[default]
    Served,
    /// The one that was asked for.
    Asked,
}

impl AnswerModel {
    /// All choices, in the order in which messages list them.
    pub const ALL: [Self; 2] = [Self::Served, Self::Asked];

    /// The name used in policies.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Asked => "asked",
        }
    }
}
