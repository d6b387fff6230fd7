//! A `response.create` frame of a client, and the body of the request that it becomes.

use bytes::Bytes;
use http::StatusCode;

use super::history::{input_items, joined};
use signalbox_protocol::json::{Member, member, members, string, unescape};
use signalbox_types::Fault;

/// Members of a frame that are about the connection and no part of a request.
const OF_THE_FRAME: [&[u8]; 5] = [b"type", b"stream_id", b"generate", b"stream", b"background"];

/// A client's frame.
pub(super) enum ClientFrame {
    /// A turn is to begin.
    Create(Create),
    /// Nothing is to be done.
    Notice,
}

/// A turn to begin.
pub(super) struct Create {
    bytes: Bytes,
    members: Vec<Member>,
    /// The lane in which it runs: turns of one lane run one after another.
    pub(super) lane: Option<String>,
    /// The response that it continues.
    pub(super) previous: Option<String>,
    /// False for a turn that only announces its input, for a later one to continue.
    pub(super) generates: bool,
    /// The model's name.
    pub(super) model: Option<String>,
}

impl ClientFrame {
    /// Reads a frame. It takes about a microsecond per kilobyte.
    ///
    /// # Errors
    /// If it is not a JSON object, or of a kind that is not served. The lane stands beside the fault, if it could be read.
    pub(super) fn read(bytes: Bytes) -> Result<Self, (Option<String>, Fault)> {
        let members = members(&bytes).map_err(|error| {
            let message = format!("the frame is not a valid JSON object: {error}");
            (None, Fault::client(StatusCode::BAD_REQUEST, "bad_json", message).with_code("invalid_json"))
        })?;
        let lane = text(&bytes, "stream_id");
        match text(&bytes, "type").as_deref() {
            Some("response.create") => {}
            // Codex says that it has processed a response.
            Some("response.processed") => return Ok(Self::Notice),
            kind => {
                let message = format!(
                    "a frame of type '{}' is not served here: turns begin with 'response.create'",
                    kind.unwrap_or_default()
                );
                return Err((lane, Fault::field("type", message)));
            }
        }
        if member(&bytes, "background") == Some(b"true") {
            let message = "'background' is not possible over a WebSocket: send this request as a POST over HTTP";
            return Err((lane, Fault::field("background", message)));
        }
        let previous = text(&bytes, "previous_response_id");
        let generates = member(&bytes, "generate") != Some(b"false");
        let model = text(&bytes, "model");
        Ok(Self::Create(Create { bytes, members, lane, previous, generates, model }))
    }
}

impl Create {
    /// The number of bytes of the frame.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// All items of the turn's input: those of the response that it continues, if only this connection knows it, and its
    /// own.
    pub(super) fn items(&self, earlier: Option<&Bytes>) -> Bytes {
        let own = member(&self.bytes, "input").map(input_items).unwrap_or_default();
        joined(earlier.map(AsRef::as_ref).unwrap_or_default(), &own)
    }

    /// The body of the request. With `items`, these are its whole input.
    pub(super) fn body(&self, items: Option<&[u8]>) -> Bytes {
        let mut body = Vec::with_capacity(self.bytes.len() + items.map_or(0, <[u8]>::len) + 32);
        body.extend_from_slice(b"{\"stream\":true");
        let is_replaced = |name: &[u8]| items.is_some() && (name == b"input" || name == b"previous_response_id");
        for member in &self.members {
            let name = member.name(&self.bytes);
            if !OF_THE_FRAME.contains(&name) && !is_replaced(name) {
                body.push(b',');
                body.extend_from_slice(&self.bytes[member.key.clone()]);
                body.push(b':');
                body.extend_from_slice(&self.bytes[member.value.clone()]);
            }
        }
        if let Some(items) = items {
            body.extend_from_slice(b",\"input\":[");
            body.extend_from_slice(items);
            body.push(b']');
        }
        body.push(b'}');
        body.into()
    }
}

/// The text of the string member `name`.
pub(super) fn text(object: &[u8], name: &str) -> Option<String> {
    let raw = string(member(object.trim_ascii_start(), name)?)?;
    let mut text = String::with_capacity(raw.len());
    unescape(raw, &mut text);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(text: &str) -> Create {
        match ClientFrame::read(Bytes::copy_from_slice(text.as_bytes())) {
            Ok(ClientFrame::Create(create)) => create,
            _ => panic!("{text}"),
        }
    }

    #[test]
    fn a_frame_becomes_a_request() {
        let frame = r#"{"type":"response.create","stream_id":"a","generate":true,"model":"m","input":"Hi", "x" : [1]}"#;
        let frame = create(frame);
        assert_eq!((frame.lane.as_deref(), frame.model.as_deref(), frame.generates), (Some("a"), Some("m"), true));
        assert_eq!(frame.body(None), r#"{"stream":true,"model":"m","input":"Hi","x":[1]}"#);
        let next =
            r#"{"type":"response.create","model":"m","previous_response_id":"r","input":[{"b":2}],"store":false}"#;
        let next = create(next);
        let items = next.items(Some(&r#"{"a":1}"#.into()));
        assert_eq!(next.body(Some(&items)), r#"{"stream":true,"model":"m","store":false,"input":[{"a":1},{"b":2}]}"#);
        assert!(!create(r#"{"type":"response.create","generate":false}"#).generates);
    }

    #[test]
    fn other_frames_are_refused_by_name() {
        for (frame, says) in [
            ("[]", "not a valid JSON object"),
            ("{", "not a valid JSON object"),
            (r#"{"type":"response.steer"}"#, "'response.steer' is not served"),
            ("{}", "turns begin with 'response.create'"),
            (r#"{"type":"response.create","background":true}"#, "POST"),
        ] {
            let Err((_, fault)) = ClientFrame::read(Bytes::from_static(frame.as_bytes())) else { panic!("{frame}") };
            assert!(fault.message.contains(says), "{}", fault.message);
        }
        assert!(matches!(ClientFrame::read(r#"{"type":"response.processed"}"#.into()), Ok(ClientFrame::Notice)));
    }
}
