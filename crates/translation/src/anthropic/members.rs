//! Members of a JSON object under construction.

use std::borrow::Cow;

use crate::json;

/// Members, each with its value as JSON text.
pub(super) type Members<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// The object of these members.
pub(super) fn object(members: &Members<'_>) -> String {
    let mut out = Vec::with_capacity(members.iter().map(|(name, value)| name.len() + value.len() + 4).sum());
    out.push(b'{');
    for (name, value) in members {
        json::comma(&mut out);
        json::string(&mut out, name);
        json::put(&mut out, &[":", value]);
    }
    out.push(b'}');
    // Made of texts.
    String::from_utf8(out).unwrap_or_default()
}
