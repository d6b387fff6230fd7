//! Tokeniser of the built-in models: texts to word-piece numbers.

use std::collections::HashMap;

use tokenizers::{Model as _, Tokenizer};

/// Assumed longest word piece in bytes, with surrounding blanks. Text beyond the maximum number of such pieces is
/// ignored, so that the work is bounded for any input.
const MAX_PIECE_BYTES: usize = 64;
/// Longest word that is split; a longer one is a single unknown piece (`max_input_chars_per_word` of BERT's tokenizer).
const LONGEST_WORD: usize = 100;

/// A tokenizer, without the truncation and padding that its file may specify.
///
/// ASCII texts, the majority, are split here in a tenth of the time: the library tracks the origin of each character,
/// which is not needed. All others, and those with a bracket, which may be one of the model's special tokens
/// (`"[MASK]"`), go to the library.
#[derive(Debug)]
pub(super) struct WordPiece {
    tokenizer: Tokenizer,
    /// Pieces at the beginning of words.
    beginnings: HashMap<Box<str>, u32>,
    /// Pieces within words.
    rests: HashMap<Box<str>, u32>,
    unknown: u32,
}

impl WordPiece {
    /// Reads a `tokenizer.json`.
    pub(super) fn read(json: &[u8]) -> Result<Self, String> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|error| error.to_string())?;
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        tokenizer.with_padding(None);
        let unknown = tokenizer.token_to_id("[UNK]").ok_or("it has no [UNK] piece")?;
        let (mut beginnings, mut rests) = (HashMap::new(), HashMap::new());
        for (piece, number) in tokenizer.get_model().get_vocab() {
            match piece.strip_prefix("##").filter(|rest| !rest.is_empty()) {
                Some(rest) => rests.insert(rest.into(), number),
                None => beginnings.insert(piece.into(), number),
            };
        }
        Ok(Self { tokenizer, beginnings, rests, unknown })
    }

    /// Number of pieces.
    pub(super) fn len(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// True if a word is one piece.
    pub(super) fn knows(&self, word: &str) -> bool {
        self.beginnings.contains_key(word)
    }

    /// Number of one piece.
    pub(super) fn number(&self, piece: &str) -> Option<u32> {
        self.tokenizer.token_to_id(piece)
    }

    /// Appends the numbers of the first pieces of `text`, at most `most`, to `pieces`, without begin and end tokens.
    pub(super) fn pieces(&self, text: &str, most: usize, pieces: &mut Vec<u32>) -> Result<(), String> {
        let text = &text[..text.floor_char_boundary(most.saturating_mul(MAX_PIECE_BYTES))];
        let from = pieces.len();
        if text.is_ascii() && !text.contains('[') {
            self.ascii(text, from.saturating_add(most), pieces);
        } else {
            let encoding = self.tokenizer.encode_fast(text, false).map_err(|error| error.to_string())?;
            pieces.extend_from_slice(encoding.get_ids());
        }
        pieces.truncate(from.saturating_add(most));
        Ok(())
    }

    /// True if `text` has at most `most` pieces, all of them known.
    pub(super) fn fits(&self, text: &str, most: usize) -> bool {
        let mut pieces = Vec::new();
        text.len() <= most.saturating_mul(MAX_PIECE_BYTES)
            && self.pieces(text, most + 1, &mut pieces).is_ok()
            && pieces.len() <= most
            && !pieces.contains(&self.unknown)
    }

    /// Splits an ASCII text until there are `enough` pieces: words in lower case, each punctuation mark a word of its
    /// own, control characters removed (`BasicTokenizer` of BERT; Devlin and others, 2019).
    fn ascii(&self, text: &str, enough: usize, pieces: &mut Vec<u32>) {
        let mut word = String::with_capacity(32);
        for byte in text.bytes() {
            if pieces.len() >= enough {
                return;
            }
            if byte.is_ascii_alphanumeric() {
                word.push(char::from(byte.to_ascii_lowercase()));
            } else if byte.is_ascii_punctuation() || matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                self.word(&word, pieces);
                word.clear();
                if byte.is_ascii_punctuation() {
                    word.push(char::from(byte));
                    self.word(&word, pieces);
                    word.clear();
                }
            }
        }
        self.word(&word, pieces);
    }

    /// Splits a word greedily into the longest pieces; a single unknown piece if that fails.
    fn word(&self, word: &str, pieces: &mut Vec<u32>) {
        let from = pieces.len();
        let mut start = if word.len() > LONGEST_WORD { return pieces.push(self.unknown) } else { 0 };
        while start < word.len() {
            let known = if start == 0 { &self.beginnings } else { &self.rests };
            let longest = (start + 1..=word.len()).rev().find_map(|end| Some((end, *known.get(&word[start..end])?)));
            let Some((end, number)) = longest else {
                pieces.truncate(from);
                return pieces.push(self.unknown);
            };
            pieces.push(number);
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wordpiece() -> &'static WordPiece {
        static MADE: std::sync::LazyLock<WordPiece> =
            std::sync::LazyLock::new(|| WordPiece::read(&signalbox_minilm::data::tokenizer().unwrap()).unwrap());
        &MADE
    }

    fn both(text: &str) -> (Vec<u32>, Vec<u32>) {
        let mut own = Vec::new();
        wordpiece().ascii(text, usize::MAX, &mut own);
        (own, wordpiece().tokenizer.encode_fast(text, false).unwrap().get_ids().to_vec())
    }

    #[test]
    fn every_piece_and_character_is_split_like_the_library() {
        let pieces = wordpiece().tokenizer.get_vocab(true).into_keys();
        for text in pieces.filter(|piece| piece.is_ascii() && !piece.contains('[')) {
            let (own, library) = both(&text);
            assert_eq!(own, library, "{text:?}");
        }
        for byte in (0..128u8).filter(|byte| *byte != b'[') {
            let text = format!("a{}b {0}", char::from(byte));
            let (own, library) = both(&text);
            assert_eq!(own, library, "{text:?}");
        }
        for text in ["x".repeat(100), "x".repeat(101), "qzxwvk".repeat(9), String::new()] {
            let (own, library) = both(&text);
            assert_eq!(own, library, "{text:?}");
        }
    }

    #[test]
    fn the_number_of_pieces_is_bounded() {
        let mut pieces = vec![7];
        wordpiece().pieces("unbelievably unbelievable things", 2, &mut pieces).unwrap();
        assert_eq!(pieces.len(), 3);
        assert!(wordpiece().fits("one two three", 3) && !wordpiece().fits("one two three", 2));
        assert!(!wordpiece().fits(&"a".repeat(101), 9), "an unknown word");
    }

    proptest! {
        #[test]
        fn texts_are_split_like_the_library(text in "([a-zA-Z0-9]{0,12}|[ -Z\\\\-~]{0,6}|[\\x00-\\x7f&&[^\\[]]{0,3}){0,20}") {
            let (own, library) = both(&text);
            prop_assert_eq!(own, library);
        }
    }
}
