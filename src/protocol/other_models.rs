//! Fields of a body that may name further models, such as fallbacks.

use super::{RequestBody, multipart::names_models};

impl RequestBody {
    /// True if the body was read as JSON.
    pub fn is_json(&self) -> bool {
        !self.members.is_empty()
    }

    /// The name of the first field, other than `model`, that may name a model. For a form it is always `models`.
    pub fn names_other_models(&self) -> Option<String> {
        let mut named = self.members().map(|(name, _)| name).filter(|name| *name != b"model" && names_models(name));
        let name = named.next().map(|name| String::from_utf8_lossy(name).into_owned());
        name.or_else(|| self.form_names_more.then(|| "models".to_owned()))
    }
}
