//! What a body is, and its fields by which a server may be told of other models than `model`, such as those to fall back to.

use super::{RequestBody, multipart::names_models};

impl RequestBody {
    /// True if it was read as JSON.
    pub fn is_json(&self) -> bool {
        !self.members.is_empty()
    }

    /// The name of the first such field, where there is one. A form's is not told: it stands as `models`.
    pub fn names_other_models(&self) -> Option<String> {
        let mut named = self.members().map(|(name, _)| name).filter(|name| *name != b"model" && names_models(name));
        let name = named.next().map(|name| String::from_utf8_lossy(name).into_owned());
        name.or_else(|| self.form_names_more.then(|| "models".to_owned()))
    }
}
