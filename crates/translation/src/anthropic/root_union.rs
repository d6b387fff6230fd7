//! Unions and references at the root of a tool's schema, which Messages rejects, as one object.
//!
//! The object has the properties of all alternatives, and requires what each of them requires. It allows more than the union
//! did: the tool's own check still finds a call that mixes alternatives.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use serde_json::value::RawValue;

use super::members::{Members, object};
use crate::{fields::Fields, json};

/// The levels of unions within unions that are read.
const DEEPEST: usize = 4;

/// Properties and required names under construction. Names are quoted.
#[derive(Default)]
struct Merged {
    /// Each property with its different schemas.
    properties: Vec<(String, Vec<String>)>,
    /// The index of each property.
    places: HashMap<String, usize>,
    required: Vec<String>,
    known: HashSet<String>,
}

/// The members of a root without unions and references. `None` if it has none.
pub(super) fn merged(members: &Members<'_>) -> Option<Members<'static>> {
    let is_union = |name: &str| matches!(name, "anyOf" | "oneOf" | "allOf" | "$ref");
    if !members.iter().any(|(name, _)| is_union(name)) {
        return None;
    }
    let root = object(members);
    let root: &RawValue = serde_json::from_str(&root).ok()?;
    let mut merged = Merged::default();
    merged.add(root, root, 0);
    let mut out: Members<'static> = Vec::new();
    for (name, value) in members.iter().filter(|(name, _)| !is_union(name)) {
        if !matches!(&**name, "properties" | "required") {
            out.push((Cow::Owned(name.clone().into_owned()), Cow::Owned(value.clone().into_owned())));
        }
    }
    let properties: Vec<String> =
        merged.properties.iter().map(|(name, schemas)| [name, ":", &one_of(schemas)].concat()).collect();
    out.push(("properties".into(), ["{", &properties.join(","), "}"].concat().into()));
    if !merged.required.is_empty() {
        out.push(("required".into(), ["[", &merged.required.join(","), "]"].concat().into()));
    }
    Some(out)
}

fn one_of(schemas: &[String]) -> String {
    match schemas {
        [one] => one.clone(),
        several => ["{\"anyOf\":[", &several.join(","), "]}"].concat(),
    }
}

impl Merged {
    /// Adds the properties and required names of a schema. References are looked up in `root`.
    fn add(&mut self, schema: &RawValue, root: &RawValue, depth: usize) {
        let Ok(fields) = Fields::of(schema) else { return };
        if depth > DEEPEST {
            return;
        }
        if let Some(properties) = fields.get("properties").and_then(|properties| Fields::of(properties).ok()) {
            for (name, schema) in &properties.0 {
                self.property(name, schema.get());
            }
        }
        if let Some(required) = fields.get("required") {
            let names: Vec<&RawValue> = json::read(required).unwrap_or_default();
            for name in names {
                self.require(name.get());
            }
        }
        if let Some(target) = fields.get("$ref").and_then(json::text).and_then(|path| resolved(root, &path)) {
            self.add(target, root, depth + 1);
        }
        for branch in branches(&fields, "allOf") {
            self.add(branch, root, depth + 1);
        }
        for union in ["anyOf", "oneOf"] {
            let alternatives: Vec<Self> = branches(&fields, union)
                .into_iter()
                .map(|branch| {
                    let mut alone = Self::default();
                    alone.add(branch, root, depth + 1);
                    alone
                })
                .collect();
            self.alternatives(alternatives);
        }
    }

    fn alternatives(&mut self, alternatives: Vec<Self>) {
        if let Some((first, others)) = alternatives.split_first() {
            let common = first.required.iter().filter(|name| others.iter().all(|other| other.known.contains(*name)));
            for name in common {
                self.require(name);
            }
        }
        for alternative in alternatives {
            for (name, schemas) in alternative.properties {
                let place = self.place(name);
                for schema in schemas {
                    if !place.contains(&schema) {
                        place.push(schema);
                    }
                }
            }
        }
    }

    fn property(&mut self, name: &str, schema: &str) {
        let mut quoted = Vec::with_capacity(name.len() + 2);
        json::string(&mut quoted, name);
        let place = self.place(String::from_utf8(quoted).unwrap_or_default());
        if !place.iter().any(|known| known == schema) {
            place.push(schema.to_owned());
        }
    }

    fn place(&mut self, name: String) -> &mut Vec<String> {
        let next = self.properties.len();
        let at = *self.places.entry(name.clone()).or_insert(next);
        if at == next {
            self.properties.push((name, Vec::new()));
        }
        &mut self.properties[at].1
    }

    fn require(&mut self, quoted: &str) {
        if self.known.insert(quoted.to_owned()) {
            self.required.push(quoted.to_owned());
        }
    }
}

fn branches<'a>(fields: &Fields<'a>, union: &str) -> Vec<&'a RawValue> {
    fields.get(union).and_then(|list| json::read(list).ok()).unwrap_or_default()
}

/// The schema at a path such as `#/$defs/Name`.
fn resolved<'a>(root: &'a RawValue, path: &str) -> Option<&'a RawValue> {
    let mut at = root;
    for step in path.strip_prefix("#/")?.split('/') {
        at = Fields::of(at).ok()?.get(step)?;
    }
    Some(at)
}
