//! YAML of unknown shape, with the line of every value.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::json;
use serde_saphyr::Spanned;

/// A value and its line.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) line: usize,
}

/// A value.
#[derive(Clone, Debug, Default)]
pub(super) enum Value {
    #[default]
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The value of `key`, unless it is null or this is no mapping.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let (_, node) = self.entries().iter().find(|(name, _)| name == key)?;
        (!node.is_null()).then_some(node)
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// True for `true` and its spellings as text.
    pub(super) fn is_true(&self) -> bool {
        match &self.value {
            Value::Bool(value) => *value,
            Value::Text(text) => matches!(&*text.to_ascii_lowercase(), "true" | "yes" | "on"),
            _ => false,
        }
    }

    /// The scalar as text.
    pub(super) fn text(&self) -> Option<String> {
        match &self.value {
            Value::Text(text) => Some(text.clone()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The scalar as a finite number.
    pub(super) fn number(&self) -> Option<f64> {
        let number = match &self.value {
            Value::Number(number) => *number,
            Value::Text(text) => text.trim().parse().ok()?,
            _ => return None,
        };
        number.is_finite().then_some(number)
    }

    /// The scalar as a whole number above zero.
    pub(super) fn count(&self) -> Option<u64> {
        let number = self.number()?;
        (1.0..1e15).contains(&number).then_some(number as u64)
    }

    pub(super) fn list(&self) -> &[Node] {
        match &self.value {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// The elements of a list, or a scalar as the only element.
    pub(super) fn texts(&self) -> Vec<String> {
        match &self.value {
            Value::List(list) => list.iter().filter_map(Node::text).collect(),
            _ => self.text().into_iter().collect(),
        }
    }

    pub(super) fn entries(&self) -> &[(String, Node)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Sets `key` of a mapping; a value that is no mapping becomes one.
    pub(super) fn set(&mut self, key: &str, node: Node) {
        if !matches!(self.value, Value::Map(_)) {
            self.value = Value::Map(Vec::new());
        }
        let Value::Map(entries) = &mut self.value else { return };
        match entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = node,
            None => entries.push((key.to_owned(), node)),
        }
    }

    /// The value as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => json!(value),
            Value::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => json!(*number as i64),
            Value::Number(number) => json!(number),
            Value::Text(text) => json!(text),
            Value::List(list) => list.iter().map(Node::json).collect(),
            Value::Map(entries) => {
                serde_json::Value::Object(entries.iter().map(|(key, node)| (key.clone(), node.json())).collect())
            }
        }
    }

    /// Calls `visit` with every text in it.
    pub(super) fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        match &self.value {
            Value::Text(text) => visit(text),
            Value::List(list) => list.iter().for_each(|node| node.each_text(visit)),
            Value::Map(entries) => entries.iter().for_each(|(_, node)| node.each_text(visit)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        let line = usize::try_from(spanned.referenced.line()).unwrap_or(0);
        Ok(Self { value: spanned.value, line })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        while let Some((key, node)) = map.next_entry::<Value, Node>()? {
            let key = Node { value: key, line: 0 }.text().unwrap_or_default();
            entries.push((key, node));
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_any_shape_have_lines() {
        let text = "a: &x\n  b: [1, 'two', ~]\n  4: 0.5\nc:\n  <<: *x\n  d: yes\n";
        let node: Node = signalbox_config::yaml(text).unwrap();
        let b = node.get("a").unwrap().get("b").unwrap();
        assert_eq!((b.line, b.list().len(), b.texts()), (2, 3, vec!["1".to_owned(), "two".to_owned()]));
        assert_eq!(node.get("a").unwrap().get("4").unwrap().number(), Some(0.5));
        let c = node.get("c").unwrap();
        assert!(c.get("d").unwrap().is_true() && c.get("b").is_some(), "merge keys are resolved: {c:?}");
        assert_eq!(c.get("b").unwrap().json().to_string(), "[1,\"two\",null]");
    }
}
