//! A prompt's words and word pairs, hashed into a fixed number of places: the inputs of weights learned on own traffic
//! (feature hashing: Weinberger et al., 2009).

/// Number of places that words and pairs are hashed into.
pub const PLACES: usize = 4096;

/// Number of words read from the text's beginning.
const WORDS: usize = 400;

/// A set of places, at most two for each word.
#[derive(Clone, PartialEq)]
pub struct Terms {
    places: [u16; 2 * WORDS + 1],
    count: usize,
}

impl Terms {
    /// The terms of a text: words in lower case, all numbers as one word, each sign as a word; the first word also as a
    /// term of its own.
    pub(super) fn of(text: &str) -> Self {
        let mut terms = Self { places: [0; 2 * WORDS + 1], count: 0 };
        let mut seen = [0_u64; PLACES / 64];
        let mut add = |hash: u64| {
            // The upper bits of a product are well mixed.
            let place = (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % PLACES;
            let (slot, bit) = (place / 64, 1 << (place % 64));
            if seen[slot] & bit == 0 && terms.count < terms.places.len() {
                seen[slot] |= bit;
                terms.places[terms.count] = place as u16;
                terms.count += 1;
            }
        };
        let mut previous = None;
        for hash in hashes(text.as_bytes()).take(WORDS) {
            add(hash);
            match previous {
                Some(previous) => add(hash.rotate_left(21) ^ previous),
                None => add(!hash),
            }
            previous = Some(hash);
        }
        terms
    }

    /// The distinct places.
    pub fn places(&self) -> &[u16] {
        &self.places[..self.count]
    }

    /// The value of each place, which keeps long texts from weighing more than short ones.
    pub fn scale(&self) -> f32 {
        1.0 / (self.count.max(1) as f32).sqrt()
    }
}

impl std::fmt::Debug for Terms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.places()).finish()
    }
}

/// Byte classes.
const SPACE: u8 = 0;
const SIGN: u8 = 1;
const DIGIT: u8 = 2;
const LETTER: u8 = 3;

const CLASSES: [u8; 256] = {
    let (mut table, mut at) = ([SIGN; 256], 0);
    while at < table.len() {
        let byte = at as u8;
        if byte.is_ascii_whitespace() {
            table[at] = SPACE;
        } else if byte.is_ascii_digit() {
            table[at] = DIGIT;
        } else if byte.is_ascii_alphabetic() || byte >= 0x80 {
            table[at] = LETTER;
        }
        at += 1;
    }
    table
};

/// FNV-1a over each word in lower case and over each sign; all numbers are one word.
fn hashes(text: &[u8]) -> impl Iterator<Item = u64> {
    let class = |at: usize| text.get(at).map(|byte| CLASSES[usize::from(*byte)]);
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01B3);
    let mut at = 0;
    std::iter::from_fn(move || {
        while class(at) == Some(SPACE) {
            at += 1;
        }
        let of = class(at)?;
        let mut hash = fold(0xCBF2_9CE4_8422_2325, if of == DIGIT { b'0' } else { text[at] });
        at += 1;
        while of != SIGN && class(at) == Some(of) {
            hash = if of == LETTER { fold(hash, text[at]) } else { hash };
            at += 1;
        }
        Some(hash)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_signs_are_separated() {
        let found: Vec<u64> = hashes(b" It's 42, or 7.5 x_1 ").collect();
        let parted: Vec<u64> = hashes(b"it ' s 6 , OR 1 . 2 x _ 0").collect();
        assert_eq!((found.len(), &found), (12, &parted));
    }

    #[test]
    fn equal_texts_have_equal_terms_whatever_their_case_and_numbers() {
        assert_eq!(Terms::of("Add 17 to 4"), Terms::of("add 2 to 99"));
        assert_ne!(Terms::of("add two"), Terms::of("two add"), "the order counts");
        let long = Terms::of(&"many different words ".repeat(10_000));
        assert!(long.places().len() <= 8 && Terms::of("").places().is_empty());
    }
}
