//! A Response object in pieces. Its output items are pieces of their own, and so are its long members, such as tools, which
//! are the same in every turn.

use std::ops::Range;

use super::item::Item;
use signalbox_protocol::json::{elements, members};

/// Length from which a member is a piece of its own, in bytes.
const LONG: usize = 512;

/// A finished response to store.
#[derive(Clone, Debug)]
pub struct NewResponse {
    /// Its id.
    pub id: Box<str>,
    pub(super) pieces: Vec<Item>,
    /// The pieces that are its output.
    pub(super) output: Range<usize>,
    /// The items that led to it.
    pub(super) input: Vec<Item>,
}

impl NewResponse {
    /// Reads a Response object with the items that led to it. `None` if it is not one.
    pub fn read(object: &str, input: Vec<Item>) -> Option<Self> {
        let found = members(object.as_bytes()).ok()?;
        let (mut pieces, mut output, mut id, mut at) = (Vec::new(), None, None, 0);
        for member in &found {
            let value = &object[member.value.clone()];
            match member.name(object.as_bytes()) {
                b"output" if value.starts_with('[') && output.is_none() => {
                    pieces.push(Item::new(&object[at..member.value.start]));
                    let first = pieces.len();
                    let items = elements(value.as_bytes()).filter_map(|item| std::str::from_utf8(item).ok());
                    pieces.extend(items.map(Item::new));
                    output = Some(first..pieces.len());
                    at = member.value.end;
                }
                b"id" => id = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')),
                _ if value.len() >= LONG => {
                    pieces.push(Item::new(&object[at..member.value.start]));
                    pieces.push(Item::new(value));
                    at = member.value.end;
                }
                _ => {}
            }
        }
        pieces.push(Item::new(&object[at..]));
        Some(Self { id: id?.into(), pieces, output: output?, input })
    }

    /// The output items.
    pub fn output(&self) -> &[Item] {
        &self.pieces[self.output.clone()]
    }
}

/// Writes the object of these pieces, of which those at `output` are its output items.
pub(super) fn written(pieces: &[Item], output: &Range<usize>) -> String {
    let length = pieces.iter().map(|piece| piece.text().len() + 1).sum::<usize>() + 2;
    let mut text = String::with_capacity(length);
    let (before, rest) = pieces.split_at(output.start);
    let (items, after) = rest.split_at(output.len());
    for piece in before {
        text.push_str(piece.text());
    }
    text.push('[');
    for (index, item) in items.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(item.text());
    }
    text.push(']');
    for piece in after {
        text.push_str(piece.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(object: &str) -> String {
        let NewResponse { pieces, output, .. } = NewResponse::read(object, Vec::new()).unwrap();
        written(&pieces, &output)
    }

    #[test]
    fn an_object_comes_out_as_it_went_in() {
        let long = "ü".repeat(LONG);
        for object in [
            r#"{"id":"r","output":[],"x":1}"#.to_owned(),
            r#"{"output":[{"a":"]\""}],"id":"r"}"#.to_owned(),
            format!(
                r#"{{"instructions":"{long}","id":"r","output":[{{}},{{"b":[1]}},{{}}],"tools":["{long}"],"z":null}}"#
            ),
        ] {
            assert_eq!(again(&object), object);
        }
        let spaced = again(r#"{ "id": "r", "output": [ {"a": 1} , {} ] }"#);
        assert_eq!(spaced, r#"{ "id": "r", "output": [{"a": 1},{}] }"#);
    }

    #[test]
    fn long_members_and_items_are_pieces() {
        let tools = format!("[\"{}\"]", "t".repeat(LONG));
        let object = |id: &str| format!(r#"{{"id":"{id}","tools":{tools},"output":[{{"n":1}},{{"n":2}}]}}"#);
        let read = |id: &str| NewResponse::read(&object(id), Vec::new()).unwrap();
        let (first, second) = (read("a"), read("b"));
        assert_eq!((&*first.id, first.output().len(), first.output()[1].text()), ("a", 2, r#"{"n":2}"#));
        let shared = first.pieces.iter().filter(|piece| second.pieces.contains(piece));
        assert!(shared.count() >= 3, "tools and both items are the same pieces");
        for other in ["[]", "{}", r#"{"id":"a"}"#, r#"{"output":[]}"#, "{", r#"{"id":"a","output":null}"#] {
            assert!(NewResponse::read(other, Vec::new()).is_none(), "{other}");
        }
    }
}
