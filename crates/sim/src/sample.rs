//! Sample values for a JSON schema: structured answers and tool arguments of engines without a model.

use serde_json::{Map, Value, json};

/// Nesting depth from which only required parts are sampled; at twice the depth none are. Schemas may be recursive.
const DEEP: usize = 6;

/// A value for `schema`. Supports types, `enum`, `const`, `default`, `properties`, `required`, `items`, `prefixItems`, `$ref` within the schema,
/// `anyOf`, `oneOf`, `allOf`, common formats and bounds. Ignores everything else, such as `pattern`, `if` and `not`.
pub(super) fn sample(schema: &Value) -> Value {
    value(schema, schema, "value", 0)
}

fn value(schema: &Value, root: &Value, name: &str, depth: usize) -> Value {
    if depth > 2 * DEEP {
        return Value::Null;
    }
    if let Some(target) = schema["$ref"].as_str().and_then(|target| root.pointer(target.strip_prefix('#')?)) {
        return value(target, root, name, depth + 1);
    }
    if let Some(given) = schema.get("const").or_else(|| schema.get("default")) {
        return given.clone();
    }
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[union].as_array() {
            let null = choices.iter().find(|choice| depth >= DEEP && choice["type"] == "null");
            if let Some(choice) = null.or(choices.first()) {
                return value(choice, root, name, depth + 1);
            }
        }
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let mut all = schema.as_object().cloned().unwrap_or_default();
        all.remove("allOf");
        for part in parts {
            let part = part["$ref"].as_str().and_then(|target| root.pointer(target.strip_prefix('#')?)).unwrap_or(part);
            merge(&mut all, part);
        }
        return value(&Value::Object(all), root, name, depth + 1);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find_map(Value::as_str),
        kind => kind.as_str(),
    };
    match kind {
        Some("string") => Value::String(string(schema, name)),
        Some("integer") => json!(number(schema, 1.0) as i64),
        Some("number") => json!(number(schema, 0.0)),
        Some("boolean") => Value::Bool(true),
        Some("null") => Value::Null,
        Some("array") => array(schema, root, name, depth),
        Some("object") => object(schema, root, depth),
        _ if schema.get("properties").is_some() => object(schema, root, depth),
        _ if schema.get("items").is_some() => array(schema, root, name, depth),
        _ => Value::String(string(schema, name)),
    }
}

/// Merges `part` into `all`: properties and requirements are united, otherwise the last one wins.
fn merge(all: &mut Map<String, Value>, part: &Value) {
    for (key, more) in part.as_object().into_iter().flatten() {
        match (all.get_mut(key), more) {
            (Some(Value::Object(old)), Value::Object(more)) => {
                old.extend(more.iter().map(|(name, schema)| (name.clone(), schema.clone())));
            }
            (Some(Value::Array(old)), Value::Array(more)) => old.extend(more.iter().cloned()),
            _ => {
                all.insert(key.clone(), more.clone());
            }
        }
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut fields = Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if depth < DEEP || required.iter().any(|field| field == name) {
            fields.insert(name.clone(), value(property, root, name, depth + 1));
        }
    }
    for name in required.iter().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            fields.insert(name.to_owned(), value(&schema["additionalProperties"], root, name, depth + 1));
        }
    }
    Value::Object(fields)
}

fn array(schema: &Value, root: &Value, name: &str, depth: usize) -> Value {
    let bound = |key: &str| schema[key].as_u64().map(|bound| bound as usize);
    let first = schema["prefixItems"].as_array().map(Vec::as_slice).unwrap_or_default();
    let usual = if depth >= DEEP { 0 } else { first.len().max(1) };
    let count = usual.max(bound("minItems").unwrap_or(0)).min(bound("maxItems").unwrap_or(usize::MAX)).min(1_000);
    (0..count).map(|index| value(first.get(index).unwrap_or(&schema["items"]), root, name, depth + 1)).collect()
}

/// A number within the schema's bounds that is a multiple of its `multipleOf`, or of `unit`.
fn number(schema: &Value, unit: f64) -> f64 {
    let bound = |key: &str| schema[key].as_f64();
    let unit = bound("multipleOf").filter(|unit| *unit > 0.0).unwrap_or(unit);
    let nudge = if unit > 0.0 { unit } else { 0.5 };
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + nudge / 2.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - nudge / 2.0));
    let wish = 3.0_f64.min(most.unwrap_or(f64::MAX)).max(least.unwrap_or(f64::MIN));
    if unit <= 0.0 {
        return wish;
    }
    let above = (wish / unit).ceil() * unit;
    if above <= most.unwrap_or(f64::MAX) { above } else { (wish / unit).floor() * unit }
}

fn string(schema: &Value, name: &str) -> String {
    let mut text = match schema["format"].as_str() {
        Some("date") => "2025-01-01".to_owned(),
        Some("time") => "12:00:00Z".to_owned(),
        Some("date-time") => "2025-01-01T12:00:00Z".to_owned(),
        Some("email") => "someone@example.com".to_owned(),
        Some("uri" | "url") => "https://example.com/".to_owned(),
        Some("hostname") => "example.com".to_owned(),
        Some("ipv4") => "192.0.2.1".to_owned(),
        Some("uuid") => "00000000-0000-4000-8000-000000000000".to_owned(),
        _ => format!("simulated {}", name.replace('_', " ")),
    };
    let length = |key: &str| schema[key].as_u64().map(|length| length as usize);
    let least = length("minLength").unwrap_or(0).min(100_000);
    text.extend(std::iter::repeat_n('.', least.saturating_sub(text.chars().count())));
    text.chars().take(length("maxLength").unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_their_properties_within_bounds() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["C", "F"]},
                "days": {"type": "integer", "minimum": 5, "maximum": 9},
                "ratio": {"type": "number", "exclusiveMaximum": 1},
                "step": {"type": "integer", "multipleOf": 7},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 4}, "minItems": 2},
                "when": {"type": ["string", "null"], "format": "date"},
                "code": {"type": "string", "minLength": 30}
            },
            "required": ["city", "extra"]
        });
        let value = sample(&schema);
        assert_eq!(value["city"], "simulated city");
        assert_eq!(value["unit"], "C");
        assert_eq!((&value["days"], &value["step"]), (&json!(5), &json!(7)));
        assert!(value["ratio"].as_f64().unwrap() < 1.0);
        assert_eq!(value["tags"], json!(["simu", "simu"]));
        assert_eq!(value["when"], "2025-01-01");
        assert_eq!(value["code"].as_str().unwrap().len(), 30);
        assert!(value["extra"].is_string());
    }

    #[test]
    fn references_and_unions_are_followed_and_loops_end() {
        let schema = json!({
            "$defs": {"node": {"type": "object", "required": ["next"], "properties": {
                "kind": {"const": "node"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}
            }}},
            "allOf": [{"$ref": "#/$defs/node"}, {"properties": {"more": {"type": "boolean"}}}]
        });
        let value = sample(&schema);
        assert_eq!((&value["kind"], &value["more"]), (&json!("node"), &json!(true)));
        assert!(value["next"].is_object());
        assert!(value.to_string().len() < 1_000);
        assert_eq!(sample(&json!({"$ref": "#"})), Value::Null, "a loop of references ends");
    }
}
