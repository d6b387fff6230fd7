//! The kind of work that a question asks for, from the weights of its words.
//!
//! A word's weight is the product of its vectors in the static embedding table with one direction, fitted by ridge
//! regression to hand-written prompts that are easy or hard (`cargo bench --bench complexity -- --fit`). Words that no
//! prompt contained thus have the weight of their neighbours; a word that the table lacks has none. Words are read as
//! word pieces (`WordPiece`: Schuster and Nakajima, 2012). Some words of other languages have the weight of an English one.

use std::sync::LazyLock;

/// The pieces by weight in fiftieths, one weight per line; `##` marks pieces within words.
const PIECES: &str = include_str!("words.txt");
/// Words that are read.
const WORDS: u32 = 400;
/// Bytes of a word that are read.
const LONGEST_WORD: usize = 36;
/// Bytes of the longest piece.
const LONGEST: usize = 24;
/// Units of a weight.
const UNIT: f32 = 50.0;
/// The mean weight at which a question counts as wholly hard; its negative as wholly easy.
const FULL: f32 = 0.75;
/// Bits of the sketch of words that were read before.
const BITS: usize = 4096;

/// Word bytes in lower case; 0 for all other bytes.
pub(super) const FOLDED: [u8; 256] = {
    let (mut table, mut at) = ([0; 256], 0);
    while at < table.len() {
        let byte = at as u8;
        if byte.is_ascii_alphabetic() || byte >= 0x80 || byte == b'\'' {
            table[at] = byte.to_ascii_lowercase();
        }
        at += 1;
    }
    table
};

/// Letters of the shortest word that may be misspelt.
const SPELT: usize = 5;

/// Open hash tables of weights: the upper 24 bits of a slot are of a hash, the lower are its weight.
struct Table(Box<[u32]>);

/// Word pieces, and whole words by what remains when one letter after the first is left out: a misspelt word has that in
/// common with the word that was meant (symmetric deletes: Garbe, 2012).
struct Tables {
    pieces: Table,
    near: Table,
}

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables { pieces: Table::new(1 << 16), near: Table::new(1 << 18) };
    for line in PIECES.lines().filter(|line| !line.starts_with('#')) {
        let (weight, pieces) = line.split_once(':').unwrap_or_default();
        let weight: i8 = weight.parse().unwrap_or(0);
        for piece in pieces.split_whitespace() {
            if let Some(rest) = piece.strip_prefix("##") {
                tables.pieces.insert(rest.bytes().fold(REST, hashed), weight);
            } else {
                tables.pieces.insert(piece.bytes().fold(BEGINNING, hashed), weight);
                spellings(piece.as_bytes()).for_each(|hash| tables.near.insert(hash, weight));
            }
        }
    }
    tables
});

/// The hashes of a word and of what remains when one of its letters but the first is left out; none of short words.
fn spellings(word: &[u8]) -> impl Iterator<Item = u64> {
    let without = |skip: usize| {
        let kept = word.iter().enumerate().filter(move |(at, _)| *at != skip);
        kept.fold(BEGINNING, |hash, (_, byte)| hashed(hash, *byte))
    };
    let word_may_be_misspelt = word.len() >= SPELT && word.is_ascii();
    (1..=word.len()).filter(move |_| word_may_be_misspelt).map(without)
}

/// No piece has this tag and weight.
const EMPTY: u32 = 0;
/// First hashes of pieces at the beginning of words, and within them.
const BEGINNING: u64 = 0xCBF2_9CE4_8422_2325;
const REST: u64 = 0x8422_2325_CBF2_9CE4;

/// FNV-1a.
fn hashed(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
}

/// The bits of a hash that a slot keeps; never 0.
fn tag(hash: u64) -> u32 {
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 & 0xFFFF_FF00 | 0x100
}

impl Table {
    fn new(slots: usize) -> Self {
        Self(vec![EMPTY; slots].into_boxed_slice())
    }

    /// The slot of a hash, or the empty one where it would be.
    fn slot(&self, hash: u64) -> usize {
        let mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) & 0xFFFF_FFFF;
        let mut slot = ((mixed * self.0.len() as u64) >> 32) as usize;
        while self.0[slot] != EMPTY && self.0[slot] & 0xFFFF_FF00 != tag(hash) {
            slot = (slot + 1) % self.0.len();
        }
        slot
    }

    /// Adds a weight; of several with the same hash the mean counts.
    fn insert(&mut self, hash: u64, weight: i8) {
        let weight = self.weight(hash).map_or(weight, |other| weight.midpoint(other));
        let slot = self.slot(hash);
        self.0[slot] = tag(hash) | u32::from(weight.cast_unsigned());
    }

    fn weight(&self, hash: u64) -> Option<i8> {
        let found = self.0[self.slot(hash)];
        (found != EMPTY).then_some((found as u8).cast_signed())
    }
}

/// The mean weight of the known words that an unknown `word` is a misspelling of.
fn meant(word: &[u8], hash: u64) -> Option<i32> {
    let mut lower = [0; LONGEST];
    let lower = lower.get_mut(..word.len())?;
    if TABLES.pieces.weight(hash).is_some() {
        return None;
    }
    lower.iter_mut().zip(word).for_each(|(lower, byte)| *lower = FOLDED[usize::from(*byte)]);
    let (mut sum, mut count) = (0, 0);
    for weight in spellings(lower).filter_map(|hash| TABLES.near.weight(hash)) {
        (sum, count) = (sum + i32::from(weight), count + 1);
    }
    (count > 0).then(|| sum / count)
}

/// Builds the tables.
pub(super) fn warm_up() {
    LazyLock::force(&TABLES);
}

/// True if the tables are built.
pub(super) fn is_warm() -> bool {
    LazyLock::get(&TABLES).is_some()
}

/// The words of a question, as they are read.
#[derive(Clone, Debug)]
pub(super) struct Work {
    seen: [u64; BITS / 64],
    /// Number of words, times two: in scripts without spaces each character counts as half a word.
    halves: u32,
    /// The sum of weights, in fiftieths.
    sum: i32,
}

impl Work {
    pub(super) fn new() -> Self {
        Self { seen: [0; BITS / 64], halves: 0, sum: 0 }
    }

    /// Reads a word with the hash of its folded bytes. A word read before does not count again.
    pub(super) fn read(&mut self, word: &[u8], hash: u64) {
        // The upper bits of a product are well mixed.
        let bit = (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % BITS;
        if self.seen[bit / 64] >> (bit % 64) & 1 == 1 {
            return;
        }
        self.seen[bit / 64] |= 1 << (bit % 64);
        let word = if unspaced(word[0]) { word } else { &word[..word.len().min(LONGEST_WORD)] };
        self.halves += if unspaced(word[0]) { 0 } else { 2 };
        if let Some(weight) = meant(word, hash) {
            self.sum += weight;
            return;
        }
        let (mut at, mut start) = (0, BEGINNING);
        while at < word.len() && self.halves <= 2 * WORDS {
            let free = unspaced(word[at]);
            let piece = longest(&word[at..], if free { BEGINNING } else { start });
            let (length, weight) = match piece {
                Some(piece) => piece,
                None if free => (3, 0),
                None => return,
            };
            self.halves += if free { (length as u32 / 3).max(1) } else { 0 };
            self.sum += i32::from(weight);
            (at, start) = (at + length, REST);
        }
    }

    /// The kind of work: 0 is the easiest, 1 the hardest, 0.5 unknown.
    pub(super) fn level(&self) -> f32 {
        let value = self.sum as f32 / UNIT / (self.halves as f32 / 2.0).max(1.0);
        (0.5 + value / (2.0 * FULL)).clamp(0.0, 1.0)
    }
}

/// True if a byte begins a character of a script without spaces.
fn unspaced(byte: u8) -> bool {
    matches!(byte, 0xE3..=0xEF)
}

/// The longest piece that `word` begins with: its length in bytes and its weight.
fn longest(word: &[u8], start: u64) -> Option<(usize, i8)> {
    let mut hashes = [(0, 0); LONGEST];
    let (mut count, mut at, mut hash) = (0, 0, start);
    while at < word.len().min(LONGEST) {
        let (letters, length) = folded(&word[at..]);
        hash = letters.iter().filter(|byte| **byte != 0).fold(hash, |hash, byte| hashed(hash, *byte));
        at += length;
        hashes[count] = (at, hash);
        count += 1;
    }
    hashes[..count].iter().rev().find_map(|(length, hash)| Some((*length, TABLES.pieces.weight(*hash)?)))
}

/// The first letter in lower case and without accents, with its length in bytes before that.
fn folded(word: &[u8]) -> ([u8; 3], usize) {
    match word {
        // Latin letters with accents, U+00C0 to U+00FF.
        [0xC3, low, ..] => {
            const BASES: &[u8; 32] = b"aaaaaaaceeeeiiiidnooooo\0ouuuuyts";
            ([BASES[usize::from(low & 0x1F)], 0, 0], 2)
        }
        [0xD0, low @ 0x90..=0x9F, ..] => ([0xD0, low + 0x20, 0], 2),
        [0xD0, low @ 0xA0..=0xAF, ..] => ([0xD1, low - 0x20, 0], 2),
        [one @ 0xC2..=0xDF, two, ..] => ([*one, *two, 0], 2),
        [one @ 0xE0..=0xEF, two, three, ..] => ([*one, *two, *three], 3),
        _ => ([FOLDED[usize::from(word[0])], 0, 0], 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::complexity::Features;
    use signalbox_types::Outline;

    fn level(text: &str) -> f32 {
        let at = super::super::TABLE.iter().position(|feature| feature.name == "kind_of_work").unwrap();
        Features::of(&Outline::of_text(text)).levels[at]
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        let filled = TABLES.pieces.0.iter().filter(|slot| **slot != EMPTY).count();
        let lines = PIECES.lines().filter(|line| !line.starts_with('#'));
        let pieces: usize = lines.map(|line| line.split_once(':').unwrap().1.split_whitespace().count()).sum();
        // A few have the tag of another.
        assert!(filled <= pieces && pieces - filled < pieces / 500, "{filled} of {pieces}");
        assert!(pieces < TABLES.pieces.0.len() / 2 && PIECES.len() <= 300_000);
        let near = TABLES.near.0.iter().filter(|slot| **slot != EMPTY).count();
        assert!(near < TABLES.near.0.len() * 2 / 3, "{near}");
        for line in PIECES.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.split_once(':').is_some_and(|(weight, _)| weight.parse::<i8>().is_ok()), "{line:.40}");
        }
    }

    #[test]
    fn hard_work_differs_from_easy_in_several_languages() {
        for hard in [
            "Prove the theorem.",
            "Beweise den Satz.",
            "Démontrez le théorème.",
            "Докажите теорему",
            "证明这个定理",
            "derive the equation",
        ] {
            assert!(level(hard) > 0.6, "{hard}: {}", level(hard));
        }
        for easy in ["hi", "tell me a joke", "Erzähl mir einen Witz", "спасибо", "谢谢", "What is the capital of Peru?"]
        {
            assert!(level(easy) < 0.4, "{easy}: {}", level(easy));
        }
    }

    #[test]
    fn misspelt_words_have_the_weight_of_what_was_meant() {
        for (right, wrong) in [
            ("prove the theorem", "proove the theoerm"),
            ("derive the equation", "dervie the equaton"),
            ("design a strategy", "Desing a stratgy"),
            ("translate the sentence", "tranlsate the sentense"),
        ] {
            assert!((level(right) - level(wrong)).abs() < 0.15, "{wrong}: {} for {}", level(wrong), level(right));
        }
    }

    #[test]
    fn words_that_nobody_knows_move_nothing_and_repeated_ones_count_once() {
        for unknown in ["", "42 + 17", "ሀገር", "مرحبا", "\u{ffff}"] {
            assert!((level(unknown) - 0.5).abs() < 1e-6, "{unknown}: {}", level(unknown));
        }
        assert!((level("prove it") - level(&"Prove it, ".repeat(300))).abs() < 1e-6);
        assert!((level("proof") - 0.5).abs() > (level("proof ሀገር") - 0.5).abs() - 1e-6, "unknown words dilute");
    }

    #[test]
    fn long_words_and_texts_are_read_in_part() {
        for text in ["x".repeat(100_000), "证明".repeat(50_000), format!("{}é", "q".repeat(23)), "\u{10400}".repeat(99)]
        {
            assert!((0.0..=1.0).contains(&level(&text)));
        }
    }
}
