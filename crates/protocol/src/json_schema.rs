//! Validates a JSON value against a JSON schema, as far as that is cheap and certain.
//!
//! Supports the part of JSON Schema (draft 2020-12; Wright, Andrews, Hutton, Dennis) that structured outputs and tools
//! use: `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `const`, `anyOf`, `allOf`, local
//! `$ref`, and limits on numbers and on the lengths of strings and lists. Other keywords are ignored, and so is
//! everything beyond the step limit: a valid value is never rejected, an invalid one may pass. There are no patterns,
//! and nothing is fetched.

use serde_json::{Map, Value};

/// The most steps of one check, each a comparison of at most 256 bytes. Schema and value may come from untrusted
/// parties, and recursive schemas must terminate.
const MOST_STEPS: usize = 200_000;
/// The deepest nesting of schemas.
const DEEPEST: u32 = 128;

/// True if `value` satisfies `schema`, or if that cannot be decided.
pub(super) fn satisfies(value: &Value, schema: &Value) -> bool {
    Checker { root: schema, steps: MOST_STEPS }.check(value, schema, DEEPEST)
}

struct Checker<'a> {
    root: &'a Value,
    steps: usize,
}

impl<'a> Checker<'a> {
    fn check(&mut self, value: &Value, schema: &'a Value, depth: u32) -> bool {
        if depth == 0 || !self.may(size(value)) {
            return true;
        }
        let depth = depth - 1;
        let schema = match schema {
            Value::Bool(any) => return *any,
            Value::Object(schema) => schema,
            _ => return true,
        };
        // OpenAPI's notation for a type that may be null.
        if value.is_null() && schema.get("nullable") == Some(&Value::Bool(true)) {
            return true;
        }
        // In older drafts a reference excludes other keywords; it is read that way here.
        if let Some(reference) = schema.get("$ref") {
            return self.resolve(reference).is_none_or(|schema| self.check(value, schema, depth));
        }
        of_type(value, schema)
            && schema.get("const").is_none_or(|wanted| self.one_of(value, std::slice::from_ref(wanted)))
            && schema.get("enum").and_then(Value::as_array).is_none_or(|all| self.one_of(value, all))
            && self.alternatives(value, schema, depth)
            && match value {
                Value::Object(object) => self.object(object, schema, depth),
                Value::Array(items) => self.list(items, schema, depth),
                Value::String(text) => within(text.chars().count() as f64, schema, "minLength", "maxLength"),
                Value::Number(number) => number.as_f64().is_none_or(|number| in_range(number, schema)),
                _ => true,
            }
    }

    /// Takes `steps` steps if as many are left.
    fn may(&mut self, steps: usize) -> bool {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or(0);
        left.is_some()
    }

    /// For lists and objects only the kind is compared: a full comparison could take as long as they are large, each
    /// time.
    fn one_of(&mut self, value: &Value, all: &[Value]) -> bool {
        if !self.may(size(value).saturating_mul(all.len())) {
            return true;
        }
        all.iter().any(|one| match (one, value) {
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => true,
            _ => same(one, value),
        })
    }

    fn resolve(&self, reference: &Value) -> Option<&'a Value> {
        let root = self.root;
        root.pointer(reference.as_str()?.strip_prefix('#')?)
    }

    fn alternatives(&mut self, value: &Value, schema: &'a Map<String, Value>, depth: u32) -> bool {
        let any = match schema.get("anyOf") {
            Some(Value::Array(any)) => any.iter().any(|schema| self.check(value, schema, depth)),
            _ => true,
        };
        any && match schema.get("allOf") {
            Some(Value::Array(all)) => all.iter().all(|schema| self.check(value, schema, depth)),
            _ => true,
        }
    }

    fn object(&mut self, object: &Map<String, Value>, schema: &'a Map<String, Value>, depth: u32) -> bool {
        if let Some(Value::Array(required)) = schema.get("required")
            && self.may(required.len())
            && !required.iter().filter_map(Value::as_str).all(|name| object.contains_key(name))
        {
            return false;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        // A property that is not listed may match a pattern.
        let further = schema.get("additionalProperties").filter(|_| !schema.contains_key("patternProperties"));
        object.iter().all(|(name, value)| match properties.and_then(|properties| properties.get(name)).or(further) {
            Some(schema) => self.check(value, schema, depth),
            None => true,
        })
    }

    fn list(&mut self, items: &[Value], schema: &'a Map<String, Value>, depth: u32) -> bool {
        let each = schema.get("items").filter(|_| !schema.contains_key("prefixItems"));
        within(items.len() as f64, schema, "minItems", "maxItems")
            && each.is_none_or(|schema| items.iter().all(|item| self.check(item, schema, depth)))
    }
}

/// The steps needed to check a value, without its children.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len() / 256,
        Value::Object(object) => object.len(),
        _ => 0,
    }
}

fn of_type(value: &Value, schema: &Map<String, Value>) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    };
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
        None => true,
    }
}

/// Equality as defined by JSON Schema: 1 and 1.0 are the same number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

fn limit(schema: &Map<String, Value>, name: &str) -> Option<f64> {
    schema.get(name).and_then(Value::as_f64)
}

fn within(count: f64, schema: &Map<String, Value>, least: &str, most: &str) -> bool {
    limit(schema, least).is_none_or(|least| count >= least) && limit(schema, most).is_none_or(|most| count <= most)
}

fn in_range(number: f64, schema: &Map<String, Value>) -> bool {
    // In older drafts the exclusive ones are flags that change the meaning of the others.
    let flagged =
        ["exclusiveMinimum", "exclusiveMaximum"].iter().any(|name| schema.get(*name).is_some_and(Value::is_boolean));
    flagged
        || (within(number, schema, "minimum", "maximum")
            && limit(schema, "exclusiveMinimum").is_none_or(|least| number > least)
            && limit(schema, "exclusiveMaximum").is_none_or(|most| number < most))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn person() -> Value {
        json!({
            "type": "object", "additionalProperties": false, "required": ["name", "age"],
            "properties": {
                "name": { "type": "string", "minLength": 1 },
                "age": { "type": "integer", "minimum": 0, "exclusiveMaximum": 150 },
                "kind": { "enum": ["a", "b", 3] },
                "tags": { "type": "array", "items": { "type": ["string", "null"] }, "maxItems": 2 },
                "boss": { "anyOf": [{ "$ref": "#" }, { "type": "null" }] },
                "home": { "$ref": "#/$defs/home" },
            },
            "$defs": { "home": { "type": "object", "required": ["city"], "additionalProperties": { "type": "string" } } },
        })
    }

    #[test]
    fn supported_keywords_are_enforced() {
        let schema = person();
        let good = json!({
            "name": "Ada", "age": 36.0, "kind": 3.0, "tags": ["x", null], "home": { "city": "Ulm", "road": "1" },
            "boss": { "name": "Bo", "age": 50, "boss": null },
        });
        assert!(satisfies(&good, &schema));
        for (pointer, bad) in [
            ("/name", json!("")),
            ("/name", json!(1)),
            ("/age", json!(36.5)),
            ("/age", json!(150)),
            ("/age", json!("36")),
            ("/kind", json!("c")),
            ("/tags", json!(["x", 1])),
            ("/tags", json!(["x", "y", "z"])),
            ("/home", json!({})),
            ("/home", json!({ "city": 1 })),
            ("/boss", json!("Bo")),
            ("/boss/boss", json!({ "name": "Cy" })),
        ] {
            let mut value = good.clone();
            *value.pointer_mut(pointer).unwrap() = bad.clone();
            assert!(!satisfies(&value, &schema), "{pointer}: {bad}");
        }
        assert!(!satisfies(&json!({ "name": "Ada" }), &schema), "an age is missing");
        assert!(!satisfies(&json!({ "name": "Ada", "age": 1, "more": 1 }), &schema), "one too many");
    }

    #[test]
    fn undecided_values_pass() {
        for schema in [
            json!({ "$ref": "https://example.com/schema.json" }),
            json!({ "$ref": "#/nowhere" }),
            json!({ "$ref": "#" }),
            json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
            json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
            json!({ "type": "made-up" }),
            json!({ "pattern": "^b$", "not": {}, "if": false }),
            json!({ "additionalProperties": false, "patternProperties": { ".": {} } }),
            json!({ "type": "string", "nullable": true }),
            json!({ "const": { "a": [2] } }),
            json!("no schema"),
        ] {
            let value = if schema["nullable"] == true { Value::Null } else { json!({ "a": [1] }) };
            assert!(satisfies(&value, &schema), "{schema}");
        }
        assert!(satisfies(&json!(5), &json!({ "minimum": 5, "exclusiveMinimum": true })));
        assert!(!satisfies(&json!(1), &json!(false)));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9f64).prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-d]{1,2}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// The narrowest schema that a value satisfies.
    fn schema_of(value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let properties: Map<_, _> =
                    object.iter().map(|(name, value)| (name.clone(), schema_of(value))).collect();
                let required: Vec<_> = object.keys().cloned().collect();
                json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
            }
            Value::Array(items) => {
                let any: Vec<_> = items.iter().map(schema_of).collect();
                let items = if any.is_empty() { json!(true) } else { json!({ "anyOf": any }) };
                json!({ "type": "array", "items": items, "minItems": value.as_array().unwrap().len() })
            }
            other => json!({ "enum": [other] }),
        }
    }

    proptest! {
        #[test]
        fn a_value_satisfies_exactly_its_own_schema(value in values()) {
            let object = json!({ "a": value });
            let schema = schema_of(&object);
            prop_assert!(satisfies(&object, &schema));
            let other = if value.is_object() { json!([]) } else { json!({}) };
            for bad in [json!({}), json!({ "a": value, "b": 1 }), json!({ "a": other }), value] {
                prop_assert!(!satisfies(&bad, &schema) || bad == object);
            }
        }

        #[test]
        fn any_value_can_be_checked_against_any_schema(value in values(), schema in values()) {
            satisfies(&value, &schema);
        }
    }
}
