//! The JSON schema with which editors complete and check policy files.

use serde_json::{Map, Value, json};

use super::{raw::Document, yaml};

/// The JSON schema of policy files, as indented JSON with a final line break.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Document);
    let mut schema = schema.to_value();
    annotate(&mut schema);
    // A schema is a JSON value, so writing it cannot fail.
    format!("{schema:#}\n")
}

/// Adds the defaults and examples that descriptions mention.
fn annotate(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(text) = object.get("description").and_then(Value::as_str).map(ToOwned::to_owned) {
                mention(object, &text);
            }
            object.values_mut().for_each(annotate);
        }
        Value::Array(list) => list.iter_mut().for_each(annotate),
        _ => {}
    }
}

/// Adds the default and the example in `text` to `schema`.
fn mention(schema: &mut Map<String, Value>, text: &str) {
    // Lines of a doc comment are wrapped anywhere.
    let text = text.replace('\n', " ");
    if let Some(default) = default(&text).and_then(value) {
        schema.insert("default".to_owned(), default);
    }
    if let Some(example) = quoted_after(&text, "such as ").and_then(|(example, _)| value(example)) {
        schema.insert("examples".to_owned(), json!([example]));
    }
}

/// The default in a description: "Default: `x`.", "Default: 5." or "`x` (the default)".
fn default(text: &str) -> Option<&str> {
    if let Some((before, _)) = text.split_once("` (the default)") {
        return before.rsplit_once('`').map(|(_, default)| default);
    }
    // A default that depends on something else is none for an editor.
    if let Some((default, rest)) = quoted_after(text, "Default: ") {
        return rest.starts_with(['.', ':', ';']).then_some(default);
    }
    let (_, rest) = text.split_once("Default: ")?;
    let number = rest.split(['.', ' ']).next()?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(number)
}

/// The text in backticks that follows `lead`, and the text after it.
fn quoted_after<'a>(text: &'a str, lead: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(lead)?;
    rest.strip_prefix('`')?.split_once('`')
}

/// A value as it stands in a policy file. Words that only YAML 1.1 reads as truth values remain words.
fn value(text: &str) -> Option<Value> {
    if matches!(text, "on" | "off") {
        return Some(text.into());
    }
    yaml::parse::<Value>(text).ok().filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_file_is_current() {
        let kept = include_str!("../../../policies/policy.schema.json");
        assert!(kept == super::schema(), "run `cargo xtask schema`");
    }

    #[test]
    fn defaults_and_examples_come_from_descriptions() {
        let of = |text: &str| {
            let mut schema = Map::new();
            mention(&mut schema, text);
            [schema.get("default").cloned(), schema.get("examples").cloned()]
        };
        assert_eq!(of("The size, such as `32Mi` (the\ndefault)."), [Some(json!("32Mi")), Some(json!(["32Mi"]))]);
        assert_eq!(of("The count. Default: 5."), [Some(json!(5)), None]);
        assert_eq!(of("A switch. Default: `off`."), [Some(json!("off")), None]);
        assert_eq!(of("A wait. Default: `30s`; `0s` disables waiting."), [Some(json!("30s")), None]);
        assert_eq!(of("A switch. Default: `on`, if the policy has one."), [None, None]);
        assert_eq!(
            of("A check, such as `{ path: /health }`. Default: none."),
            [None, Some(json!([{ "path": "/health" }]))]
        );
    }
}
