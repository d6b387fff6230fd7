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
    /// A vector store.
    VectorStore,
    /// A video.
    Video,
    /// A fine-tuning job.
    FineTuningJob,
    /// A part of a response that only its maker can read: an item, encrypted reasoning, a container.
    Item,
}

impl ObjectKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::File,
        Self::Upload,
        Self::Batch,
        Self::Response,
        Self::VectorStore,
        Self::Video,
        Self::FineTuningJob,
        Self::Item,
    ];

    /// The name used in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Upload => "upload",
            Self::Batch => "batch",
            Self::Response => "response",
            Self::VectorStore => "vector_store",
            Self::Video => "video",
            Self::FineTuningJob => "fine_tuning_job",
            Self::Item => "item",
        }
    }

    /// The kind with the name `name`.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
