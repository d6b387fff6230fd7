//! Lists of items, page by page, as the API shows them.

use super::item::Item;
use signalbox_protocol::json::{member, members};

/// Items of a page if the caller names no number, and the most.
const PAGE: usize = 20;
const LARGEST_PAGE: usize = 100;

/// A page that a caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Oldest items first. The API's default is newest first.
    pub ascending: bool,
    /// Id of the item before the first one.
    pub after: Option<String>,
    /// The most items.
    pub limit: usize,
}

impl Page {
    /// Reads the query of a URL. Parameters other than `order`, `after` and `limit` are ignored.
    ///
    /// # Errors
    /// The name of a parameter with an invalid value, and what it may be.
    pub fn of_query(query: Option<&str>) -> Result<Self, (&'static str, &'static str)> {
        let mut page = Self { ascending: false, after: None, limit: PAGE };
        for (name, value) in query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('=')) {
            match (name, value) {
                ("order", "asc") => page.ascending = true,
                ("order", "desc") => page.ascending = false,
                ("order", _) => return Err(("order", "`order` is `asc` or `desc`")),
                ("after", id) if !id.is_empty() => page.after = Some(id.to_owned()),
                ("limit", number) => {
                    let number = number.parse().ok().filter(|number| (1..=LARGEST_PAGE).contains(number));
                    page.limit = number.ok_or(("limit", "`limit` is a number from 1 to 100"))?;
                }
                _ => {}
            }
        }
        Ok(page)
    }

    /// Writes the page of these items, which have ids and come oldest first, as a list object. `None` if there is no item
    /// with the id `after`.
    pub fn of(&self, items: &[(Box<str>, Item)]) -> Option<String> {
        let mut ordered: Vec<_> = items.iter().collect();
        if !self.ascending {
            ordered.reverse();
        }
        let start = match &self.after {
            Some(after) => ordered.iter().position(|(id, _)| **id == **after)? + 1,
            None => 0,
        };
        let shown = &ordered[start..ordered.len().min(start + self.limit)];
        let data: Vec<_> = shown.iter().map(|(id, item)| listed(id, item.text())).collect();
        let id = |entry: Option<&&(Box<str>, Item)>| entry.map_or("null".to_owned(), |(id, _)| quoted(id));
        Some(format!(
            r#"{{"object":"list","data":[{}],"first_id":{},"last_id":{},"has_more":{}}}"#,
            data.join(","),
            id(shown.first()),
            id(shown.last()),
            start + shown.len() < ordered.len()
        ))
    }
}

/// Writes an item as lists show it: with an id, a type and a status, and a message's content as a list.
pub fn listed(id: &str, item: &str) -> String {
    let bytes = item.as_bytes();
    let Ok(found) = members(bytes) else { return item.to_owned() };
    let get = |name: &str| {
        let member = found.iter().find(|member| member.name(bytes) == name.as_bytes())?;
        Some(&item[member.value.clone()]).filter(|value| *value != "null")
    };
    let kind = get("type").unwrap_or("\"message\"");
    let mut written: Vec<String> = vec![format!(r#""id":{}"#, get("id").map_or_else(|| quoted(id), str::to_owned))];
    written.push(format!(r#""type":{kind}"#));
    let is_plain = matches!(kind, "\"message\"" | "\"function_call\"" | "\"function_call_output\"");
    if is_plain && get("status").is_none() {
        written.push(r#""status":"completed""#.to_owned());
    }
    for member in &found {
        let (name, value) = (member.name(bytes), &item[member.value.clone()]);
        match name {
            b"id" | b"type" => {}
            b"status" if value == "null" => {}
            b"content" if kind == "\"message\"" && value.starts_with('"') => {
                let part = if get("role") == Some("\"assistant\"") {
                    format!(r#""content":[{{"type":"output_text","text":{value},"annotations":[]}}]"#)
                } else {
                    format!(r#""content":[{{"type":"input_text","text":{value}}}]"#)
                };
                written.push(part);
            }
            _ => written.push(format!("{}:{value}", &item[member.key.clone()])),
        }
    }
    format!("{{{}}}", written.join(","))
}

/// Gives the input items of the response with this common part their ids: their own, or those of their places.
pub fn named(root: &str, items: &[Item]) -> Vec<(Box<str>, Item)> {
    let id = |(at, item): (usize, &Item)| {
        let own = own_id(item.text()).unwrap_or_else(|| format!("{}_{root}i{at}", prefix(item.text())));
        (own.into(), item.clone())
    };
    items.iter().enumerate().map(id).collect()
}

/// The id that an item names itself.
pub fn own_id(item: &str) -> Option<String> {
    let raw = member(item.as_bytes(), "id")?;
    serde_json::from_slice::<String>(raw).ok().filter(|id| !id.is_empty())
}

/// The prefix that ids of such items have.
pub(super) fn prefix(item: &str) -> &'static str {
    match member(item.as_bytes(), "type") {
        Some(b"\"function_call\"") => "fc",
        Some(b"\"function_call_output\"") => "fco",
        Some(b"\"custom_tool_call\"") => "ctc",
        Some(b"\"custom_tool_call_output\"") => "ctco",
        Some(b"\"reasoning\"") => "rs",
        Some(b"\"message\"") | None => "msg",
        Some(_) => "item",
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn items() -> Vec<(Box<str>, Item)> {
        let texts = [
            r#"{"role":"user","content":"a"}"#,
            r#"{"id":"own","type":"message","role":"assistant","content":"b","x":1}"#,
            r#"{"type":"function_call_output","call_id":"c","output":"d","status":null}"#,
        ];
        named("sb1", &texts.map(Item::new))
    }

    fn page(query: &str) -> Value {
        let page = Page::of_query(Some(query)).unwrap();
        page.of(&items()).map_or(Value::Null, |text| serde_json::from_str(&text).unwrap())
    }

    fn ids(list: &Value) -> Vec<&str> {
        list["data"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
    }

    #[test]
    fn pages_follow_each_other_in_both_directions() {
        let all = page("");
        assert_eq!(ids(&all), ["fco_sb1i2", "own", "msg_sb1i0"]);
        assert_eq!((&all["object"], &all["has_more"]), (&json!("list"), &json!(false)));
        let first = page("order=asc&limit=2&include[]=x");
        assert_eq!(ids(&first), ["msg_sb1i0", "own"]);
        assert_eq!((&first["last_id"], &first["has_more"]), (&json!("own"), &json!(true)));
        assert_eq!(ids(&page("order=asc&limit=2&after=own")), ["fco_sb1i2"]);
        assert_eq!(page("after=fco_sb1i0"), Value::Null, "an unknown id");
        for query in ["limit=0", "limit=101", "limit=x", "order=up"] {
            assert!(Page::of_query(Some(query)).is_err(), "{query}");
        }
    }

    #[test]
    fn shown_items_have_the_members_that_the_schema_requires() {
        let list = page("order=asc");
        let user = json!({ "id": "msg_sb1i0", "type": "message", "status": "completed", "role": "user",
            "content": [{ "type": "input_text", "text": "a" }] });
        assert_eq!(list["data"][0], user);
        let text = json!([{ "type": "output_text", "text": "b", "annotations": [] }]);
        assert_eq!((&list["data"][1]["content"], &list["data"][1]["x"]), (&text, &json!(1)));
        assert_eq!(list["data"][2]["status"], "completed");
    }
}
