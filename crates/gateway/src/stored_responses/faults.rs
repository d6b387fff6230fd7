//! Errors of stored state, in the words and with the codes of OpenAI, followed by what the caller can do.

use http::StatusCode;

use signalbox_types::Fault;

/// Kind of a fault caused by state that is not stored.
const NOT_STORED: &str = "state_not_found";
/// Characters of an id that errors repeat.
const SHOWN: usize = 100;

/// The end of a message about state that was evicted or never was.
const GONE: &str = "Stored responses expire and give way to newer ones (`responses` in the gateway's policy)";

pub(super) fn no_previous(id: &str) -> Fault {
    let message = format!(
        "Previous response with id '{}' not found. {GONE}: send all earlier items in `input` instead of `previous_response_id`.",
        shown(id)
    );
    let fault = Fault::client(StatusCode::BAD_REQUEST, NOT_STORED, message);
    Fault { param: Some("previous_response_id".into()), ..fault.with_code("previous_response_not_found") }
}

pub(super) fn no_response(id: &str) -> Fault {
    let message = format!("Response with id '{}' not found. {GONE}.", shown(id));
    Fault::client(StatusCode::NOT_FOUND, NOT_STORED, message)
}

pub(super) fn no_item(id: &str, param: String) -> Fault {
    let message = format!(
        "Item with id '{}' not found. Items are not stored with `store: false`. {GONE}: send the item itself, or remove it from the input.",
        shown(id)
    );
    Fault { param: Some(param.into()), ..Fault::client(StatusCode::NOT_FOUND, NOT_STORED, message) }
}

pub(super) fn no_conversation(id: &str) -> Fault {
    let message = format!("Conversation with id '{}' not found. {GONE}: create another one.", shown(id));
    Fault { param: Some("conversation".into()), ..Fault::client(StatusCode::NOT_FOUND, NOT_STORED, message) }
}

pub(super) fn two_histories() -> Fault {
    Fault::field(
        "previous_response_id",
        "`previous_response_id` and `conversation` are mutually exclusive: each is a history of its own; send one of them",
    )
}

pub(super) fn too_long(what: &str, most: usize) -> Fault {
    let message = format!("with the stored items, the input has more than {most} {what}: start a new conversation");
    let fault = Fault::client(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message).with_code("body_too_large");
    Fault { param: Some("input".into()), ..fault }
}

pub(super) fn not_in_background() -> Fault {
    let message = "Cannot cancel a synchronous response. Close the connection of its request to end it.";
    Fault::client(StatusCode::BAD_REQUEST, "invalid_request", message)
}

pub(super) fn unknown_path(method: &http::Method, path: &str) -> Fault {
    let message = format!("there is no {method} {path} for state that this gateway stores");
    Fault::client(StatusCode::NOT_FOUND, "unknown_path", message).with_code("unknown_url")
}

fn shown(id: &str) -> String {
    id.chars().take(SHOWN).collect()
}
