//! Schemas of tools, as Messages accepts them.
//!
//! Messages takes JSON Schema of draft 2020-12 whose root is an object without a union. Other upstreams forgive what clients
//! generate: `"type": null`, keywords of older drafts, types of programming languages, a union or a reference at the root. A
//! schema that is in order is copied as it is.

use std::{borrow::Cow, collections::HashSet};

use serde_json::value::RawValue;

use super::{
    members::{Members, object},
    raw, root_union,
};
use crate::{Dropped, Unsupported, fields::Fields, json, unsupported};

/// The levels of a schema that are read. Deeper ones are copied.
const DEEPEST: usize = 32;

/// Appends the schema of a tool's input.
pub(super) fn write(
    parameters: Option<&RawValue>,
    path: &str,
    out: &mut Vec<u8>,
    dropped: &mut Dropped,
) -> Result<(), Unsupported> {
    let Some(parameters) = parameters else {
        out.extend_from_slice(b"{\"type\":\"object\",\"properties\":{}}");
        return Ok(());
    };
    let fields = Fields::of(parameters).ok().filter(|_| raw::is_object(parameters));
    let fields = fields.ok_or_else(|| unsupported(path, "the parameters must be a JSON schema of an object"))?;
    let (mut members, mut changed) = repaired_members(&fields, 0);
    if let Some(merged) = root_union::merged(&members) {
        dropped.add("tools[].function.parameters.anyOf");
        (members, changed) = (merged, true);
    }
    // It names the draft that the schema followed before.
    let count = members.len();
    members.retain(|(name, _)| name != "$schema");
    changed |= members.len() < count;
    let types: Vec<&str> = members.iter().filter(|(name, _)| name == "type").map(|(_, value)| &**value).collect();
    if types != ["\"object\""] {
        members.retain(|(name, _)| name != "type");
        members.insert(0, ("type".into(), "\"object\"".into()));
        changed = true;
    }
    if members.len() == 1 && changed {
        members.push(("properties".into(), "{}".into()));
    }
    if changed {
        out.extend_from_slice(object(&members).as_bytes());
    } else {
        out.extend_from_slice(parameters.get().as_bytes());
    }
    Ok(())
}

/// A schema without what Messages rejects. `None` if it is in order.
fn repaired(schema: &RawValue, depth: usize) -> Option<String> {
    match schema.get().as_bytes().first() {
        Some(b't' | b'f') => None,
        Some(b'{') if depth >= DEEPEST => None,
        Some(b'{') => {
            let fields = Fields::of(schema).ok()?;
            let (members, changed) = repaired_members(&fields, depth);
            changed.then(|| object(&members))
        }
        _ => Some("{}".to_owned()),
    }
}

/// The members of a schema, and true if any differs from what was given.
fn repaired_members<'a>(fields: &Fields<'a>, depth: usize) -> (Members<'a>, bool) {
    let mut members: Members<'a> = Vec::with_capacity(fields.0.len());
    let mut changed = false;
    let tuple = fields.get("items").is_some_and(|items| items.get().starts_with('['));
    for (name, value) in &fields.0 {
        let (new_name, new) = match &**name {
            // Draft 4: a list of schemas for the first items, and `additionalItems` for the rest.
            "items" if tuple => (Some("prefixItems"), keyword("prefixItems", value, depth)),
            "additionalItems" if tuple => (Some("items"), keyword("items", value, depth)),
            // Draft 4: a mark on the limit.
            "exclusiveMinimum" | "exclusiveMaximum" if matches!(value.get(), "true" | "false") => {
                let limit = fields.get(limit_of(name)).filter(|_| value.get() == "true");
                (None, limit.map_or(Change::Remove, |limit| Change::Replace(limit.get().to_owned())))
            }
            "minimum" | "maximum" if is_exclusive(fields, name) => (None, Change::Remove),
            name => (None, keyword(name, value, depth)),
        };
        changed |= new_name.is_some() || !matches!(new, Change::Keep);
        let name = new_name.map_or_else(|| name.clone(), Cow::Borrowed);
        match new {
            Change::Keep => members.push((name, Cow::Borrowed(value.get()))),
            Change::Replace(text) => members.push((name, Cow::Owned(text))),
            Change::Remove => {}
        }
    }
    (members, changed)
}

fn limit_of(exclusive: &str) -> &'static str {
    if exclusive == "exclusiveMinimum" { "minimum" } else { "maximum" }
}

fn is_exclusive(fields: &Fields<'_>, limit: &str) -> bool {
    fields.is_true(if limit == "minimum" { "exclusiveMinimum" } else { "exclusiveMaximum" })
}

/// The fate of a member.
enum Change {
    Keep,
    Replace(String),
    Remove,
}

impl From<Option<String>> for Change {
    fn from(new: Option<String>) -> Self {
        new.map_or(Self::Keep, Self::Replace)
    }
}

/// The value of a keyword as draft 2020-12 wants it.
fn keyword(name: &str, value: &RawValue, depth: usize) -> Change {
    // Any value is an annotation there, or a value to compare with.
    if matches!(name, "const" | "default" | "example" | "examples") {
        return Change::Keep;
    }
    let first = value.get().as_bytes().first().copied().unwrap_or_default();
    match name {
        _ if first == b'n' => Change::Remove,
        "type" => types(value),
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" if first == b'{' => {
            map_of_schemas(value, depth).into()
        }
        "anyOf" | "oneOf" | "allOf" | "prefixItems" if first == b'[' && !is_empty(value) => {
            list_of_schemas(value, depth).into()
        }
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "anyOf" | "oneOf"
        | "allOf" | "prefixItems" => Change::Remove,
        "items"
        | "additionalProperties"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "unevaluatedProperties"
        | "unevaluatedItems" => repaired(value, depth + 1).into(),
        "required" => required(value),
        "enum" if first != b'[' || is_empty(value) => Change::Remove,
        _ => Change::Keep,
    }
}

fn is_empty(list: &RawValue) -> bool {
    list.get()[1..].trim_start().starts_with(']')
}

/// The types of a value, by their names in JSON Schema. Generators write those of a programming language.
fn types(value: &RawValue) -> Change {
    let list: Vec<&RawValue> = match json::inner(value) {
        Some(_) => vec![value],
        None => json::read(value).unwrap_or_default(),
    };
    let known: Vec<(&str, Option<&str>)> =
        list.iter().filter_map(|item| Some((json::inner(item)?, type_name(json::inner(item)?)))).collect();
    if known.len() == list.len() && !known.is_empty() && known.iter().all(|(given, name)| Some(*given) == *name) {
        return Change::Keep;
    }
    let mut names: Vec<&str> = Vec::new();
    for (_, name) in known {
        names.extend(name.filter(|name| !names.contains(name)));
    }
    match &*names {
        [] => Change::Remove,
        [one] => Change::Replace(["\"", one, "\""].concat()),
        several => Change::Replace(["[\"", &several.join("\",\""), "\"]"].concat()),
    }
}

fn type_name(name: &str) -> Option<&'static str> {
    Some(match &*name.to_ascii_lowercase() {
        "string" | "str" | "text" => "string",
        "number" | "float" | "double" | "decimal" => "number",
        "integer" | "int" | "long" => "integer",
        "boolean" | "bool" => "boolean",
        "array" | "list" | "tuple" => "array",
        "object" | "dict" | "map" => "object",
        "null" => "null",
        _ => return None,
    })
}

/// The names of required members, each once. Draft 3 had a mark on the member instead.
fn required(value: &RawValue) -> Change {
    let Ok(list) = json::read::<Vec<&RawValue>>(value) else { return Change::Remove };
    let mut seen = HashSet::new();
    let names: Vec<&str> = list
        .iter()
        .filter(|name| json::inner(name).is_some() && seen.insert(name.get()))
        .map(|name| name.get())
        .collect();
    if names.len() == list.len() { Change::Keep } else { Change::Replace(["[", &names.join(","), "]"].concat()) }
}

fn map_of_schemas(value: &RawValue, depth: usize) -> Option<String> {
    let fields = Fields::of(value).ok()?;
    let mut changed = false;
    let mut members: Members<'_> = Vec::with_capacity(fields.0.len());
    for (name, schema) in &fields.0 {
        let new = repaired(schema, depth + 1);
        changed |= new.is_some();
        members.push((name.clone(), new.map_or(Cow::Borrowed(schema.get()), Cow::Owned)));
    }
    changed.then(|| object(&members))
}

fn list_of_schemas(value: &RawValue, depth: usize) -> Option<String> {
    let list: Vec<&RawValue> = json::read(value).ok()?;
    let new: Vec<Option<String>> = list.iter().map(|schema| repaired(schema, depth + 1)).collect();
    new.iter().any(Option::is_some).then(|| {
        let items: Vec<&str> =
            list.iter().zip(&new).map(|(old, new)| new.as_deref().unwrap_or_else(|| old.get())).collect();
        ["[", &items.join(","), "]"].concat()
    })
}
