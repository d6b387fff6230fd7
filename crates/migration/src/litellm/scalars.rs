//! Scalars of YAML in flow style.

use std::fmt::Write as _;

/// YAML's limit for a key without `?`, in characters: 1024 with the colon. Longer ones are written with it.
const LONGEST_PLAIN_KEY: usize = 1000;

/// Words that YAML takes for something other than text.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "none"];

/// `text` as a scalar: plain where that is safe, quoted elsewhere.
pub(super) fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '@' | '+'))
        && !WORDS.contains(&&*text.to_ascii_lowercase());
    if is_plain { text.to_owned() } else { quoted(text) }
}

/// `text` as a key of a mapping in block style that is indented by two.
pub(super) fn map_key(text: &str) -> String {
    explicit_if_long(text, "\n  ")
}

/// `text` as a key that may be longer than YAML allows without `?`; `end` comes between such a key and its colon.
fn explicit_if_long(text: &str, end: &str) -> String {
    let key = scalar(text);
    if key.len() > LONGEST_PLAIN_KEY { format!("? {key}{end}") } else { key }
}

/// `text` in double quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            // Escaped, so that no reader takes it for a line break or a byte order mark.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') => {
                // Writing to a string cannot fail.
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A value of JSON in flow style.
pub(super) fn value(json: &serde_json::Value) -> String {
    use serde_json::Value;
    match json {
        Value::String(text) => quoted(text),
        Value::Array(list) => format!("[{}]", list.iter().map(value).collect::<Vec<_>>().join(", ")),
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, inner)| format!("{}: {}", explicit_if_long(key, " "), value(inner)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// A mapping in flow style.
pub(super) fn mapping(entries: &[(&str, String)]) -> String {
    let entries = entries.iter().map(|(key, value)| format!("{key}: {value}"));
    format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
}

/// A list of names in flow style.
pub(super) fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    format!("[{}]", names.into_iter().map(scalar).collect::<Vec<_>>().join(", "))
}

/// A duration: whole seconds, or milliseconds.
pub(super) fn seconds(seconds: f64) -> String {
    // A timeout beyond a century is no limit, and one below a millisecond would fail everything.
    let seconds = seconds.clamp(0.001, 3e9);
    if seconds.fract() == 0.0 { format!("{seconds}s") } else { format!("{:.0}ms", (seconds * 1e3).max(1.0)) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_text_survives() {
        for text in
            ["gpt-4o", "openai/*", "a: b", "on", "", "1.5", "é\n\t\"\\", "# x", "${A}", "'", "\u{85}\u{2028}", "{", "~"]
        {
            let read: String = serde_saphyr::from_str(&scalar(text)).unwrap();
            assert_eq!(read, text, "{}", scalar(text));
        }
        let long = "\n".repeat(900);
        let block = format!("a:\n  {}: {{ {}: 1 }}\n", map_key(&long), explicit_if_long(&long, " "));
        let read: BTreeMap<String, BTreeMap<String, BTreeMap<String, u8>>> = serde_saphyr::from_str(&block).unwrap();
        assert_eq!(read["a"][&long][&long], 1);
        assert_eq!((seconds(30.0), seconds(0.5)), ("30s".to_owned(), "500ms".to_owned()));
    }
}
