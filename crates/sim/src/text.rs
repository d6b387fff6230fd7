//! Text for engines that have no tokenizer and no model: token counts, block hashes and English filler.
//!
//! A token is taken to be four bytes in any language. That is close to byte-pair tokenizers on English prose, and it makes a prompt's blocks
//! fixed ranges of bytes.

use std::sync::Arc;

use super::trace::log_normal;

/// Bytes of text that count as one token.
pub(super) const TOKEN_BYTES: usize = 4;

/// Most bytes of a piece of an answer, a leading space included, so that pieces are about [`TOKEN_BYTES`] long.
const PIECE_BYTES: usize = 5;

/// Words of answers after their first sentence.
const SENTENCES: [&str; 24] = [
    "A signal box stands where lines meet, and its levers decide which way a train goes.",
    "The signaller looks at what is on the line now, not at what was there a minute ago.",
    "A short train may pass a long one, if the long one can wait in a siding.",
    "Before a lever moves, the interlocking makes sure that no other train is on its way.",
    "Every train that enters a section is written down, and so is every train that leaves it.",
    "When a line is closed, the next train takes another one and arrives a little later.",
    "It is better to hold a train at the platform than to stop it in a tunnel.",
    "The timetable is a promise, and the day is what becomes of it.",
    "Freight moves at night, when nobody minds that it is slow.",
    "A bell rings once to ask a question and twice to answer it.",
    "Good rules are short, because they are read in a hurry.",
    "Most delays are small, and most of them come from one place.",
    "If two trains follow the same route, the second one finds the points already set.",
    "A repeated journey is quicker, since everyone remembers how it went.",
    "Rain makes the rails slippery, so the drivers leave more room.",
    "The lamp is green, the road is clear, and the guard waves a flag.",
    "Somebody has to count the wagons, or one of them will be left behind.",
    "An express needs a free line more than it needs a strong engine.",
    "The last train of the day waits for the connection, if it is not too late.",
    "What cannot be measured from the box has to be asked by telephone.",
    "A spare engine is kept warm in the yard, which costs coal and saves mornings.",
    "Nothing is gained by sending every train to the shortest platform.",
    "Passengers forgive a delay sooner than a silence.",
    "In the end the book has a line for each train, and none is missing.",
];

/// Estimated tokens of `text`.
pub(super) fn tokens(text: &str) -> u32 {
    u32::try_from(text.len().div_ceil(TOKEN_BYTES)).unwrap_or(u32::MAX)
}

/// 64-bit hash of `bytes`, chained to `before`. Fast and well distributed, not cryptographic.
pub(super) fn hash(before: u64, bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |state: u64, word: u64| {
        let wide = u128::from(state ^ word) * u128::from(FACTOR);
        (wide >> 64) as u64 ^ wide as u64
    };
    let mut state = mix(before ^ 0x51_6E_A1_B0_C5, bytes.len() as u64 ^ FACTOR);
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        state = mix(state.rotate_left(23), word.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
    }
    mix(state.rotate_left(23), words.remainder().iter().fold(1, |all, byte| all << 8 | u64::from(*byte)))
}

/// Chained hashes of the whole blocks of a prompt of `prompt_tokens` tokens that begins with `text`. If the text is shorter, the other
/// blocks are derived from it.
pub(super) fn blocks(text: &str, prompt_tokens: u32, block_tokens: u32) -> Arc<[u64]> {
    let size = block_tokens.max(1) as usize * TOKEN_BYTES;
    let mut chunks = text.as_bytes().chunks(size);
    let mut state = 0;
    let block = |_| {
        state = hash(state, chunks.next().unwrap_or_default());
        state
    };
    (0..prompt_tokens / block_tokens.max(1)).map(block).collect()
}

/// A text with the ends of its one-token pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pieces {
    text: String,
    ends: Vec<usize>,
}

impl Pieces {
    /// Cuts `text` into pieces.
    pub(super) fn of(text: &str) -> Self {
        let mut pieces = Self::default();
        pieces.push(text, TOKEN_BYTES);
        pieces
    }

    /// Number of pieces.
    pub(super) fn count(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The piece at `index`; empty past the end.
    pub(super) fn get(&self, index: u32) -> &str {
        let index = index as usize;
        let start = if index == 0 { 0 } else { self.ends.get(index - 1).copied().unwrap_or(self.text.len()) };
        &self.text[start..self.ends.get(index).copied().unwrap_or(self.text.len()).max(start)]
    }

    /// The whole text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Truncates to `count` pieces.
    pub(super) fn keep(&mut self, count: u32) {
        self.ends.truncate(count as usize);
        self.text.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Truncates before the first of `stops`, as an engine does: the piece that completes it is computed, but not shown. True if one was found.
    pub(super) fn stop_at(&mut self, stops: &[String]) -> bool {
        let found = stops.iter().filter(|stop| !stop.is_empty());
        let Some((start, end)) = found.filter_map(|stop| Some((self.text.find(stop)?, stop.len()))).min() else {
            return false;
        };
        let count = self.ends.partition_point(|piece| *piece < start + end) + 1;
        self.ends.truncate(count);
        self.text.truncate(start);
        for piece in &mut self.ends {
            *piece = (*piece).min(start);
        }
        true
    }

    fn push(&mut self, text: &str, most: usize) {
        let mut start = self.text.len();
        self.text.push_str(text);
        while start < self.text.len() {
            let mut end = (start + most).min(self.text.len());
            while !self.text.is_char_boundary(end) {
                end += 1;
            }
            self.ends.push(end);
            start = end;
        }
    }

    fn sentence(&mut self, sentence: &str) {
        for word in sentence.split(' ') {
            if self.text.is_empty() {
                self.push(word, PIECE_BYTES);
            } else {
                self.push(&format!(" {word}"), PIECE_BYTES);
            }
        }
    }
}

/// A made-up answer of at least `tokens` pieces that ends with a full stop and says that it is simulated. Deterministic by seed.
pub(super) fn filler(seed: u64, model: &str, tokens: u32) -> Pieces {
    let mut dice = fastrand::Rng::with_seed(seed);
    let mut pieces = Pieces::default();
    pieces.sentence(&format!(
        "This is a simulated answer: no model was run, {model} only keeps the time that one would take."
    ));
    while pieces.count() < tokens {
        pieces.sentence(SENTENCES[dice.usize(..SENTENCES.len())]);
    }
    pieces
}

/// Length of an answer that is not otherwise bounded: log-normal around 120 tokens, at most 4096.
pub(super) fn natural_length(seed: u64) -> u32 {
    let mut dice = fastrand::Rng::with_seed(seed);
    (log_normal(&mut dice, 120.0, 0.8) as u32).clamp(1, 4_096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_four_bytes() {
        assert_eq!([tokens(""), tokens("a"), tokens("abcd"), tokens("abcde")], [0, 1, 1, 2]);
    }

    #[test]
    fn prompts_that_begin_alike_have_blocks_in_common() {
        let common = "x".repeat(200);
        let [one, other] = [format!("{common} one"), format!("{common} other")];
        let (a, b) = (blocks(&one, tokens(&one), 16), blocks(&other, tokens(&other), 16));
        assert_eq!(a.len(), 3);
        assert_eq!(a[..3], b[..3]);
        assert_ne!(blocks("y", 100, 16)[0], blocks("x", 100, 16)[0]);
        let padded = blocks("x", 100, 16);
        assert_eq!(padded.len(), 6);
        assert!(padded.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn filler_is_readable_and_repeatable() {
        let pieces = filler(1, "sim-small", 80);
        assert_eq!(pieces, filler(1, "sim-small", 80));
        assert_ne!(pieces, filler(2, "sim-small", 80));
        assert!(
            pieces.text().starts_with("This is a simulated answer: no model was run, sim-small only")
                && pieces.text().ends_with('.')
        );
        assert!((80..110).contains(&pieces.count()));
        let whole: String = (0..pieces.count()).map(|index| pieces.get(index)).collect();
        assert_eq!(whole, pieces.text());
        let bytes = pieces.text().len() as f64 / f64::from(pieces.count());
        assert!((3.0..4.5).contains(&bytes), "{bytes} bytes a piece");
    }

    #[test]
    fn natural_lengths_have_the_documented_median() {
        let mut lengths: Vec<_> = (0..1_001).map(|seed| natural_length(hash(seed, b""))).collect();
        lengths.sort_unstable();
        assert!((105..135).contains(&lengths[500]), "{}", lengths[500]);
    }

    #[test]
    fn pieces_stop_before_a_stop_sequence_after_computing_it() {
        let mut pieces = Pieces::of("aaaabbbbcccc");
        assert!(pieces.stop_at(&["cc".into(), "bcc".into()]));
        assert_eq!((pieces.text(), pieces.count(), pieces.get(1), pieces.get(2)), ("aaaabbb", 3, "bbb", ""));
        assert!(!pieces.stop_at(&["nowhere".into(), String::new()]));
    }

    #[test]
    fn pieces_do_not_split_characters() {
        let pieces = Pieces::of("ééééé…");
        assert_eq!((0..pieces.count()).map(|index| pieces.get(index)).collect::<String>(), "ééééé…");
        assert_eq!(pieces.get(99), "");
    }
}
