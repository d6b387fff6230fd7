//! Parts of a request that cannot be translated: hints are dropped, everything else is rejected.

use super::Unsupported;

/// The names of dropped hints, each once.
#[derive(Default)]
pub(super) struct Dropped(Vec<String>);

impl Dropped {
    /// Adds a name.
    pub(super) fn add(&mut self, name: &str) {
        if !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }

    /// The names, in the order in which they were dropped.
    pub(super) fn into_names(self) -> Vec<String> {
        self.0
    }
}

/// An error at the member `param`.
pub(super) fn unsupported(param: impl Into<String>, message: impl Into<String>) -> Unsupported {
    Unsupported { param: param.into(), message: message.into() }
}
