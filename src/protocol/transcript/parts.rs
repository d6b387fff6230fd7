//! A complete answer taken apart into plain values, to be written down, and put together from such.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::whole::{Piece, TEXTS, Transcript};
use crate::types::{Endpoint, Usage};

/// What a complete answer consists of.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts<'a> {
    /// Whether it is one of chat; else of completions.
    pub chat: bool,
    /// The whole answer as JSON.
    pub whole: &'a [u8],
    /// Token counts as the engine gave them.
    pub usage: Option<Usage>,
    /// How its texts came: choice, member, length in bytes, microseconds since the piece before.
    pub pieces: Vec<[u32; 4]>,
}

/// What every whole answer has.
#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    choices: Vec<&'a RawValue>,
}

impl Transcript {
    /// What it consists of.
    pub fn parts(&self) -> Parts<'_> {
        let piece = |piece: &Piece| [piece.choice, piece.text.into(), piece.length, piece.pause];
        Parts {
            chat: self.endpoint == Endpoint::Chat,
            whole: self.whole(),
            usage: self.usage(),
            pieces: self.pieces.iter().map(piece).collect(),
        }
    }

    /// The answer that consists of these; `None` where no answer does.
    pub fn of_parts(parts: &Parts<'_>) -> Option<Self> {
        let shape: Shape<'_> = serde_json::from_slice(parts.whole).ok()?;
        let piece = |&[choice, text, length, pause]: &[u32; 4]| {
            let text = u8::try_from(text).ok().filter(|text| usize::from(*text) < TEXTS.len())?;
            Some(Piece { choice, text, length, pause })
        };
        let endpoint = if parts.chat { Endpoint::Chat } else { Endpoint::Completions };
        let pieces: Option<Box<[_]>> = parts.pieces.iter().map(piece).collect();
        let whole = Bytes::copy_from_slice(parts.whole);
        (!shape.choices.is_empty()).then_some(Self::of_kept(endpoint, whole, parts.usage, pieces?))
    }
}
