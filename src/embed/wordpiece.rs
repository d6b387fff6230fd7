//! Texts to numbers of word pieces, as the built-in models were trained on them.

use tokenizers::Tokenizer;

/// A word piece is seldom longer than this, blanks around it included. What lies beyond `most` such pieces is not looked at, so that
/// the work is bounded whatever is sent.
const LONGEST: usize = 64;

/// A tokenizer, without the truncation and the padding that its file may ask for.
#[derive(Debug)]
pub(super) struct WordPiece(Tokenizer);

impl WordPiece {
    /// Reads a `tokenizer.json`.
    pub(super) fn read(json: &[u8]) -> Result<Self, String> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        Ok(Self(tokenizer))
    }

    /// How many pieces it knows.
    pub(super) fn len(&self) -> usize {
        self.0.get_vocab_size(true)
    }

    /// The number of one piece.
    pub(super) fn number(&self, piece: &str) -> Option<u32> {
        self.0.token_to_id(piece)
    }

    /// Writes the numbers of the first pieces of `text`, at most `most`, at the end of `pieces`. Those that begin and end a text are
    /// not among them.
    pub(super) fn pieces(&self, text: &str, most: usize, pieces: &mut Vec<u32>) -> Result<(), String> {
        let text = &text[..text.floor_char_boundary(most.saturating_mul(LONGEST))];
        let encoding = self.0.encode_fast(text, false).map_err(|error| error.to_string())?;
        pieces.extend(encoding.get_ids().iter().take(most));
        Ok(())
    }

    /// Whether `text` has at most so many pieces, all of them known.
    pub(super) fn fits(&self, text: &str, most: usize) -> bool {
        let unknown = self.number("[UNK]");
        text.len() <= most.saturating_mul(LONGEST)
            && self.0.encode_fast(text, false).is_ok_and(|encoding| {
                encoding.len() <= most && !encoding.get_ids().iter().any(|piece| Some(*piece) == unknown)
            })
    }
}
