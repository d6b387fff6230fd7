//! Conversations that the gateway holds: `/v1/conversations` and below.

use http::Method;

use super::{faults, new_id::new_state_root, objects, state_request::Held};
use signalbox_cache::responses::{Conversation, Item, Page, listed, own_id};
use signalbox_protocol::json::elements;
use signalbox_types::{Fault, wall_clock};

/// The most items that one request adds, as OpenAI limits them.
const MOST_ADDED: usize = 20;
/// The most items that a page shows.
const PAGE: usize = 100;
/// The most bytes of metadata: sixteen pairs of the longest names and values that OpenAI takes.
const MOST_METADATA: usize = 16 << 10;

/// Creates a conversation: `POST /v1/conversations`.
pub(super) fn create(held: &Held) -> Result<String, Fault> {
    if held.call.method != Method::POST {
        return Err(faults::unknown_path(&held.call.method, &held.call.path));
    }
    let items = added(held)?.into_iter().map(|item| (Box::default(), item)).collect();
    let metadata = metadata(held)?.unwrap_or_else(|| "{}".into());
    let conversation = Conversation { created: wall_clock::seconds(), metadata, items };
    let id = held.answers.responses.create(&held.owner, &new_state_root(), &conversation, held.now);
    Ok(object(&id, &conversation))
}

/// Answers a request for a conversation, or for what is `below` it.
pub(super) fn answer(held: &Held, id: &str, below: Option<&str>) -> Result<String, Fault> {
    let (store, owner, now) = (&held.answers.responses, &held.owner, held.now);
    let missing = || faults::no_conversation(id);
    let method = &held.call.method;
    if (method, below) == (&Method::DELETE, None) {
        let is_gone = store.remove(owner, id, now);
        return is_gone
            .then(|| format!(r#"{{"id":"{id}","object":"conversation.deleted","deleted":true}}"#))
            .ok_or_else(missing);
    }
    let found = store.conversation(owner, id, now).ok_or_else(missing)?;
    let item = |item: &str| {
        let known = found.items.iter().find(|(known, _)| **known == *item);
        known.ok_or_else(|| faults::no_item(item, "item_id".to_owned()))
    };
    match (method, below) {
        (&Method::GET | &Method::HEAD, None) => Ok(object(id, &found)),
        (&Method::POST, None) => {
            let metadata = metadata(held)?.unwrap_or_else(|| found.metadata.clone());
            store.set_metadata(owner, id, metadata.clone(), now);
            Ok(object(id, &Conversation { metadata, ..found }))
        }
        (&Method::GET | &Method::HEAD, Some("items")) => objects::listed(held, &found.items),
        (&Method::POST, Some("items")) => {
            let items: Vec<_> =
                added(held)?.into_iter().map(|item| (own_id(item.text()).map(Into::into), item)).collect();
            if items.is_empty() {
                return Err(Fault::field("items", "name the items to add in `items`"));
            }
            let texts: Vec<_> = items.iter().map(|(_, item)| item.clone()).collect();
            let ids = store.extend(owner, id, items, now).ok_or_else(missing)?;
            let page = Page { ascending: true, after: None, limit: PAGE };
            Ok(page.of(&ids.into_iter().zip(texts).collect::<Vec<_>>()).unwrap_or_default())
        }
        (&Method::GET | &Method::HEAD, Some(below)) if let Some(name) = below.strip_prefix("items/") => {
            item(name).map(|(id, item)| listed(id, item.text()))
        }
        (&Method::DELETE, Some(below)) if let Some(name) = below.strip_prefix("items/") => {
            item(name)?;
            store.remove_item(owner, id, name, now);
            Ok(object(id, &found))
        }
        _ => Err(faults::unknown_path(method, &held.call.path)),
    }
}

/// The items in the body.
fn added(held: &Held) -> Result<Vec<Item>, Fault> {
    let Some(list) = held.call.body.member("items").filter(|raw| *raw != b"null") else { return Ok(Vec::new()) };
    if !list.starts_with(b"[") {
        return Err(Fault::field("items", "`items` is a list of items, as in the input of a response"));
    }
    let items: Vec<_> = elements(list).map(|item| std::str::from_utf8(item).unwrap_or("null")).collect();
    if items.len() > MOST_ADDED {
        let message = format!("one request adds {MOST_ADDED} items at most; add the others with further ones");
        return Err(Fault::field("items", message));
    }
    if let Some(index) = items.iter().position(|item| !item.starts_with('{')) {
        return Err(Fault::field(format!("items[{index}]"), "an item is an object, as in the input of a response"));
    }
    Ok(items.into_iter().map(Item::new).collect())
}

/// The metadata in the body, if there is any.
fn metadata(held: &Held) -> Result<Option<Box<str>>, Fault> {
    let Some(raw) = held.call.body.member("metadata").filter(|raw| *raw != b"null") else { return Ok(None) };
    let text = std::str::from_utf8(raw).unwrap_or_default();
    if !text.starts_with('{') || text.len() > MOST_METADATA {
        let message = format!("`metadata` is an object of texts, of {MOST_METADATA} bytes at most");
        return Err(Fault::field("metadata", message));
    }
    Ok(Some(text.into()))
}

fn object(id: &str, conversation: &Conversation) -> String {
    let Conversation { created, metadata, .. } = conversation;
    format!(r#"{{"id":"{id}","object":"conversation","created_at":{created},"metadata":{metadata}}}"#)
}
