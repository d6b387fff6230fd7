//! Stored responses by their ids: retrieval, deletion and their input items.

use http::Method;

use super::{faults, state_request::Held};
use signalbox_cache::responses::{Page, StateId, named};
use signalbox_types::Fault;

/// Answers a request for a response, or for what is `below` it.
pub(super) fn answer(held: &Held, id: &str, below: Option<&str>) -> Result<String, Fault> {
    let store = &held.answers.responses;
    let missing = || faults::no_response(id);
    let method = &held.call.method;
    if (method, below) == (&Method::DELETE, None) {
        if !store.remove(&held.owner, id, held.now) {
            return Err(missing());
        }
        return Ok(format!(r#"{{"id":"{id}","object":"response","deleted":true}}"#));
    }
    let found = store.response(&held.owner, id, held.now).ok_or_else(missing)?;
    match (method, below) {
        (&Method::GET | &Method::HEAD, None) => {
            let streams = held.call.query.as_deref().unwrap_or_default().split('&').any(|pair| pair == "stream=true");
            if streams {
                let message = "only a response in the background can be streamed later: retrieve it without `stream`";
                return Err(Fault::field("stream", message));
            }
            Ok(found.object())
        }
        (&Method::GET | &Method::HEAD, Some("input_items")) => {
            let items = named(StateId::read(id).map_or(id, |id| id.root), &found.input);
            listed(held, &items)
        }
        (&Method::POST, Some("cancel")) => Err(faults::not_in_background()),
        _ => Err(faults::unknown_path(method, &held.call.path)),
    }
}

/// The page of a list that the query asks for.
pub(super) fn listed(held: &Held, items: &[(Box<str>, signalbox_cache::responses::Item)]) -> Result<String, Fault> {
    let page = Page::of_query(held.call.query.as_deref()).map_err(|(name, message)| Fault::field(name, message))?;
    page.of(items).ok_or_else(|| faults::no_item(page.after.as_deref().unwrap_or_default(), "after".to_owned()))
}
