//! State of a request that is held by the gateway, since a chat backend holds none.

use crate::json::{put, string};

/// State that the gateway holds for a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldState {
    /// True if the response will be stored.
    pub stores: bool,
    /// The previous response, whose items the request contains already.
    pub previous: Option<Box<str>>,
    /// The conversation, whose items the request contains already.
    pub conversation: Option<Box<str>>,
}

impl HeldState {
    /// Appends the members of the Response object that repeat it, after others.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put(out, &[r#","store":"#, if self.stores { "true" } else { "false" }]);
        if let Some(id) = &self.conversation {
            put(out, &[r#","conversation":{"id":"#]);
            string(out, id);
            put(out, &["}"]);
        }
    }
}
