//! Objects that providers store for callers and return by id.

/// The kind of a stored object.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A file.
    File,
    /// An upload in parts.
    Upload,
    /// A batch of requests.
    Batch,
    /// A response that was stored, or the conversation it belongs to.
    Response,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::File, Self::Upload, Self::Batch, Self::Response];

    /// The name used in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Upload => "upload",
            Self::Batch => "batch",
            Self::Response => "response",
        }
    }

    /// The kind with the name `name`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
