//! Converts a complete answer to plain values for storage, and back.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::whole::{Piece, TEXTS, Transcript};
use signalbox_types::{Endpoint, Usage};

/// The stored parts of a complete answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<'a> {
    /// True for chat; false for completions.
    pub chat: bool,
    /// The whole answer as JSON.
    pub whole: &'a [u8],
    /// Token counts as reported by the engine.
    pub usage: Option<Usage>,
    /// The pieces in which its texts arrived: choice, member, length in bytes, microseconds since the previous piece.
    pub pieces: Vec<[u32; 4]>,
}

/// The members that every whole answer has.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    choices: Vec<&'a RawValue>,
}

impl Transcript {
    /// The answer as parts.
    pub fn parts(&self) -> Parts<'_> {
        let piece = |piece: &Piece| [piece.choice, piece.text.into(), piece.length, piece.pause];
        Parts {
            chat: self.endpoint == Endpoint::Chat,
            whole: self.whole(),
            usage: self.usage(),
            pieces: self.pieces.iter().map(piece).collect(),
        }
    }

    /// The answer with these parts; `None` if they are not a valid answer.
    pub fn of_parts(parts: &Parts<'_>) -> Option<Self> {
        let shape: Shape<'_> = serde_json::from_slice(parts.whole).ok()?;
        let piece = |&[choice, text, length, pause]: &[u32; 4]| {
            let text = u8::try_from(text).ok().filter(|text| usize::from(*text) < TEXTS.len())?;
            Some(Piece { choice, text, length, pause })
        };
        let endpoint = if parts.chat { Endpoint::Chat } else { Endpoint::Completions };
        let pieces: Option<Box<[_]>> = parts.pieces.iter().map(piece).collect();
        let whole = Bytes::copy_from_slice(parts.whole);
        (!shape.choices.is_empty()).then_some(Self::restored(endpoint, whole, parts.usage, pieces?))
    }
}
