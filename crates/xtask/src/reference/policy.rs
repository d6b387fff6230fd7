//! Generates the reference of policy files from their JSON schema.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Map, Value};

use super::markdown::table;
use signalbox_config::schema;

/// The generated part of its page.
pub(super) fn text() -> String {
    let schema: Value = serde_json::from_str(&schema()).expect("the schema is JSON");
    let mut pages = Pages {
        types: schema["$defs"].as_object().expect("the schema has types"),
        order: Vec::new(),
        places: BTreeMap::new(),
    };
    pages.visit(&schema, "");
    let mut text = format!("## The file\n\n{}", keys(&schema));
    for name in &pages.order {
        let it = &pages.types[*name];
        let places: Vec<_> = pages.places[name].iter().map(|place| format!("`{place}`")).collect();
        let _ = write!(text, "\n## {name}\n\nAt {}. {}\n\n{}", places.join(", "), about(it), keys(it));
    }
    text
}

/// The types of the schema, in the order in which the file names them first.
struct Pages<'a> {
    types: &'a Map<String, Value>,
    order: Vec<&'a str>,
    /// The places of a type in the file.
    places: BTreeMap<&'a str, Vec<String>>,
}

impl<'a> Pages<'a> {
    fn visit(&mut self, it: &'a Value, place: &str) {
        let properties = it["properties"].as_object().into_iter().flatten();
        for (key, value) in properties {
            let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            self.types_of(value, &place);
        }
    }

    /// Visits the types that a value may have.
    fn types_of(&mut self, value: &'a Value, place: &str) {
        if let Some(name) = value["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            if !self.order.contains(&name) {
                self.order.push(name);
            }
            self.places.entry(name).or_default().push(place.to_owned());
            self.visit(&self.types[name], place);
        }
        for choice in value["anyOf"].as_array().into_iter().flatten() {
            self.types_of(choice, place);
        }
        if value["items"].is_object() {
            self.types_of(&value["items"], &format!("{place}[]"));
        }
        if value["additionalProperties"].is_object() {
            self.types_of(&value["additionalProperties"], &format!("{place}.NAME"));
        }
    }
}

/// The table of the keys of one type.
fn keys(it: &Value) -> String {
    let required: Vec<_> = it["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let rows = it["properties"].as_object().into_iter().flatten().map(|(key, value)| {
        let about = about(value);
        let default = match default(&about) {
            _ if required.contains(&key.as_str()) => "required".to_owned(),
            Some(default) => default.to_owned(),
            None => String::new(),
        };
        [format!("`{key}`"), kind(value), default, about]
    });
    table(["Key", "Type", "Default", "Meaning"], rows)
}

fn about(it: &Value) -> String {
    it["description"].as_str().unwrap_or_default().replace('\n', " ")
}

/// The default that a description states: `Default: …`, or the value before `(the default)`.
fn default(about: &str) -> Option<&str> {
    if let Some((_, rest)) = about.split_once("Default: ") {
        return Some(rest.split_once(". ").map_or(rest.trim_end_matches('.'), |(default, _)| default));
    }
    let (before, _) = about.split_once(" (the default")?;
    before.rfind(' ').map(|at| &before[at + 1..])
}

/// The values that a key takes, in words. That each may be `${NAME}` goes without saying.
fn kind(value: &Value) -> String {
    let mut kinds = Vec::new();
    collect(value, &mut kinds);
    kinds.dedup();
    kinds.join(" or ")
}

fn collect(value: &Value, kinds: &mut Vec<String>) {
    if let Some(name) = value["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return kinds.push(format!("[{name}](#{})", name.to_lowercase()));
    }
    if let Some(choices) = value["anyOf"].as_array() {
        // A key that is on or off also takes a boolean.
        let is_switch = choices.iter().any(|it| it["type"] == "boolean");
        for choice in choices.iter().filter(|it| !is_switch || it["type"] != "boolean") {
            collect(choice, kinds);
        }
        return;
    }
    if let Some(only) = value["const"].as_str() {
        return kinds.push(format!("`{only}`"));
    }
    if let Some(values) = value["enum"].as_array() {
        kinds.extend(values.iter().filter_map(Value::as_str).map(|it| format!("`{it}`")));
        return;
    }
    let types: Vec<_> = match &value["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        only => only.as_str().into_iter().collect(),
    };
    let takes_number = types.iter().any(|it| ["integer", "number"].contains(it));
    for of in types {
        match of {
            "null" => {}
            "string" if value["pattern"] == "\\$\\{" || takes_number => {}
            "integer" | "number" => kinds.push("number".to_owned()),
            "string" => kinds.push("text".to_owned()),
            "array" => kinds.push(format!("list of {}", kind(&value["items"]))),
            "object" if value["additionalProperties"].is_object() => {
                kinds.push(format!("map of names to {}", kind(&value["additionalProperties"])));
            }
            other => kinds.push(other.to_owned()),
        }
    }
}
