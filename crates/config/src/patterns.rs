//! Patterns and shapes of values for the JSON schema.

use schemars::{Schema, json_schema};
use serde_json::{Value, json};

/// A duration.
pub(super) const DURATION: &str = r"[0-9]+(?:\.[0-9]*)?\s*(?:us|ms|s|m|h|d)";
/// A duration above zero.
pub(super) const DEADLINE: &str = r"(?!0+(?:\.0*)?\s*[a-z])[0-9]+(?:\.[0-9]*)?\s*(?:us|ms|s|m|h|d)";
/// A whole number above zero, with a unit or without.
pub(super) const SIZE: &str = r"(?!0+(?:\.0*)?\s*(?:[kMGi]|$))[0-9]+(?:\.[0-9]*)?\s*(?:k|M|G|Ki|Mi|Gi)?";
/// A percentage up to 100 %.
pub(super) const SHARE: &str = r"0*(?:100(?:\.0*)?|[0-9]{1,2}(?:\.[0-9]*)?)\s*%";
/// A percentage above 0 and below 100 %.
pub(super) const TARGET: &str = r"(?!0+(?:\.0*)?\s*%)0*[0-9]{1,2}(?:\.[0-9]*)?\s*%";
/// A duration from 50 ms to 15 s.
pub(super) const SCRAPE: &str = r"(?:[5-9][0-9]|[1-9][0-9]{2,3}|1[0-4][0-9]{3}|15000)(?:\.[0-9]*)?\s*ms|(?!0+(?:\.0*)?\s*s)(?:(?:[0-9]|1[0-4])(?:\.[0-9]*)?|15)\s*s";
/// A number of zero or more.
pub(super) const AMOUNT: &str = r"[0-9]+(?:\.[0-9]*)?";
/// A number above zero.
pub(super) const MULTIPLE: &str = r"(?!0+(?:\.0*)?$)[0-9]+(?:\.[0-9]*)?";
/// A line that is not blank.
pub(super) const LINE: &str = r"[^\u0000-\u001f\u007f-\u009f]*\S[^\u0000-\u001f\u007f-\u009f]*";
/// Matches an address to listen on.
pub(super) const SOCKET: &str = r"(?:localhost|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}";
/// Matches a value that comes from the environment.
pub(super) const VARIABLE: &str = r"\$\{";

/// The schema of a text that matches `pattern` as a whole, such as one of `examples`.
pub(super) fn text_schema(pattern: &str, examples: &[&str]) -> Schema {
    json_schema!({ "type": "string", "pattern": whole(pattern), "examples": examples })
}

/// The schema of a text that matches `pattern` as a whole; YAML may also read it as a number, a truth value or a date.
pub(super) fn plain_schema(pattern: &str) -> Schema {
    json_schema!({ "type": ["string", "number", "boolean"], "pattern": whole(pattern) })
}

/// The schema of a number of `least` or more, or a text with a unit that matches `pattern` as a whole.
pub(super) fn number_schema(kind: &str, least: u64, pattern: &str, examples: &[&str]) -> Schema {
    json_schema!({ "type": [kind, "string"], "minimum": least, "pattern": whole(pattern), "examples": examples })
}

/// `pattern` for the whole of a text, or a reference to a variable anywhere in it.
pub(super) fn whole(pattern: &str) -> String {
    format!("^(?:{pattern})$|{VARIABLE}")
}

/// Alternatives in each of which one of `keys` is set, for `oneOf` and `anyOf`.
pub(super) fn one_of(keys: &[&str]) -> Value {
    keys.iter().map(|key| json!({ "required": [key] })).collect()
}
