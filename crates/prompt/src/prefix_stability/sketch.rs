//! A sketch of a text's words: a few hashes that identify texts with most words in common, in any order.
//!
//! The text is split at content-defined boundaries, so that an insertion changes only the pieces near it; the lowest
//! hashes of the pieces are kept (bottom-k, Broder 1997).

use xxhash_rust::xxh3::xxh3_64;

/// Number of hashes kept.
const KEPT: usize = 16;
/// Number of bytes of a text that are read.
pub(super) const READ: usize = 8 << 10;
/// The shortest and the longest piece, in bytes.
const MIN_PIECE_BYTES: usize = 8;
const MAX_PIECE_BYTES: usize = 64;
/// A piece ends when these bits of the rolling hash are 0: after 16 bytes on average, depending on the last 16 bytes
/// alone.
const CUT: u64 = 0xF << 12;
/// The fewest pieces for a comparison.
const MIN_PIECES: usize = 4;

/// A random number for each byte.
const GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let (mut table, mut at, mut state) = ([0; 256], 0, 0x9E37_79B9_7F4A_7C15_u64);
    while at < table.len() {
        // splitmix64
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        table[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    table
}

/// The sketch of a text.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// The lowest distinct hashes, in order.
    lowest: [u32; KEPT],
    count: usize,
}

impl Sketch {
    /// The sketch of the first `bytes` bytes of a text that is given in parts.
    pub fn of<'a>(parts: impl Iterator<Item = &'a [u8]>, bytes: u64) -> Self {
        let mut sketch = Self::default();
        let mut left = READ.min(usize::try_from(bytes).unwrap_or(READ));
        for part in parts {
            let part = &part[..left.min(part.len())];
            left -= part.len();
            let (mut begun, mut rolling) = (0, 0_u64);
            for (at, byte) in part.iter().enumerate() {
                rolling = (rolling << 1).wrapping_add(GEAR[usize::from(*byte)]);
                let length = at + 1 - begun;
                if (length >= MIN_PIECE_BYTES && rolling & CUT == 0) || length == MAX_PIECE_BYTES {
                    sketch.add(&part[begun..=at]);
                    begun = at + 1;
                }
            }
            sketch.add(&part[begun..]);
            if left == 0 {
                break;
            }
        }
        sketch
    }

    fn add(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        let hash = xxh3_64(piece) as u32;
        let known = &self.lowest[..self.count];
        let Err(place) = known.binary_search(&hash) else { return };
        if place == KEPT {
            return;
        }
        self.count = (self.count + 1).min(KEPT);
        self.lowest[place..self.count].rotate_right(1);
        self.lowest[place] = hash;
    }

    /// True if the texts have an estimated half of their content in common.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (own, others) = (&self.lowest[..self.count], &other.lowest[..other.count]);
        if own.len().min(others.len()) < MIN_PIECES {
            return false;
        }
        // Among the lowest hashes of both together, those in both estimate the common share.
        let (mut one, mut two, mut seen, mut common) = (0, 0, 0, 0);
        while seen < KEPT && (one < own.len() || two < others.len()) {
            let (left, right) = (own.get(one), others.get(two));
            let both = left == right;
            common += usize::from(both);
            let first = right.is_none_or(|right| left.is_some_and(|left| left <= right));
            one += usize::from(first);
            two += usize::from(both || !first);
            seen += 1;
        }
        2 * common >= seen
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::RngSeed};

    use super::*;

    fn sketch(text: &str) -> Sketch {
        Sketch::of([text.as_bytes()].into_iter(), u64::MAX)
    }

    fn words(seed: u64, count: usize) -> String {
        let word = |at: u64| format!("w{}", xxh3_64(&(seed * 1_000_003 + at).to_le_bytes()) % 10_000);
        (0..count as u64).map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn insertions_change_little() {
        let rules = "You are the assistant of a shop. Answer in one paragraph, cite the page, and never promise a refund. \
                     When you do not know, say so and offer to ask a colleague. Prices are in euros.";
        let one = format!("Now it is 2026-11-22T10:41:33Z. {rules}");
        let other = format!("Now it is 2026-11-22T10:42:07Z. {rules}");
        assert!(sketch(&one).is_like(&sketch(&other)));
        assert!(sketch(&format!("{rules} Ticket 881.")).is_like(&sketch(&format!("{rules} Ticket 12."))));
        let another = "Translate what the user says into French, keep names as they are, and add nothing of your own to it. \
                       Dates are written as in France; the tone is that of the original.";
        assert!(!sketch(rules).is_like(&sketch(another)));
        assert!(!sketch("hi").is_like(&sketch("hi")), "too short to say");
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn similarity_is_symmetric_and_survives_insertions(seed in 0..1000_u64, count in 60..800_usize, at in 0..60_usize, put in "[a-z0-9]{1,24}") {
            let text = words(seed, count);
            let place = text.char_indices().filter(|(_, it)| *it == ' ').nth(at).map_or(0, |(place, _)| place);
            let changed = format!("{}{put}{}", &text[..place], &text[place..]);
            let other = words(seed + 5000, count);
            let [one, changed, other] = [&text, &changed, &other].map(|text| sketch(text));
            prop_assert!(one.is_like(&one) && one.is_like(&changed) && changed.is_like(&one));
            prop_assert_eq!(one.is_like(&other), other.is_like(&one));
            prop_assert!(!one.is_like(&other));
        }
    }
}
