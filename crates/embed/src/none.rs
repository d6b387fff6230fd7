//! Stands for the built-in embedders in builds without them. Policies with a semantic cache are rejected there.

use std::{borrow::Cow, sync::Arc};

use signalbox_cache::{EmbedError, Embedder};

/// No embedder.
///
/// # Errors
///
/// Always.
pub fn recall() -> Result<Arc<dyn Embedder>, EmbedError> {
    let problem = "this signalbox was built without it (`--features embedder`)";
    Err(EmbedError { embedder: "built-in".to_owned(), problem: Cow::Borrowed(problem) })
}

/// No embedder.
///
/// # Errors
///
/// Always.
pub fn decider() -> Result<Arc<dyn Embedder>, EmbedError> {
    recall()
}

/// False: nothing reads the text.
pub fn reads_whole(_: &str) -> bool {
    false
}
