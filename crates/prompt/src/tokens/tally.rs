//! Estimates tokens from characters: counts the kinds of characters in one pass, and weights each kind by its usual
//! number of tokens.

/// The characters of a prompt by kind. A character beyond ASCII is classified by its first byte.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Total bytes of its texts.
    pub bytes: u64,
    /// Number of texts.
    pub texts: u64,
    /// ASCII letters at the beginning of a text or after white space.
    pub words: u64,
    /// ASCII letters.
    pub letters: u64,
    /// ASCII digits.
    pub digits: u64,
    /// ASCII punctuation.
    pub marks: u64,
    /// Line feeds.
    pub lines: u64,
    /// Capitals after small letters, and letters next to digits: rare in prose, frequent in identifiers, hashes and
    /// base64.
    pub mixes: u64,
    /// Characters of two bytes: Latin with accents, Greek, Cyrillic, Arabic, Hebrew.
    pub two: u64,
    /// Characters of three bytes up to U+2FFF: Indic scripts, Thai, Georgian, typographic marks.
    pub three: u64,
    /// Characters of three bytes from U+3000 on: Chinese, Japanese, Korean.
    pub cjk: u64,
    /// Characters of four bytes: emoji, rare ideographs.
    pub four: u64,
}

/// Mean tokens per character of each kind.
#[derive(Copy, Clone, Debug)]
pub(super) struct Weights {
    pub two: f64,
    pub three: f64,
    pub cjk: f64,
    /// The 1st and 99th percentile of the true number of tokens, relative to the estimate.
    pub least: f64,
    pub most: f64,
}

// Origin of the weights: non-negative least squares of relative errors on 5,479 pieces of 512 bytes and 3,595 of 4,096,
// counted with tiktoken 0.14 in both encodings. The pieces are prompts of public benchmarks, questions, Rust, C,
// Python, JavaScript, JSON, TOML, Markdown, base64, hexadecimal digits, and Django's translations into 94 languages.
// Tokenizers differ little on ASCII and much on the rest, hence one column for each. `FOUR` was set by hand, because
// there were too few such characters to fit it. `least` and `most` cover the 1st and 99th percentile of the pieces of
// 512 bytes (0.71 to 1.66, 0.74 to 1.55, and 0.70 to 2.43 for either encoding with the column between); longer pieces
// stay within them.
const LETTER: f64 = 0.24;
const DIGIT: f64 = 0.40;
const MARK: f64 = 0.48;
const LINE: f64 = 1.05;
const MIX: f64 = 0.71;
const FOUR: f64 = 3.0;

impl Weights {
    /// Of `cl100k_base`.
    pub(super) const CL100K: Self = Self { two: 0.80, three: 1.35, cjk: 1.05, least: 0.7, most: 1.7 };
    /// Of `o200k_base`.
    pub(super) const O200K: Self = Self { two: 0.42, three: 0.44, cjk: 0.73, least: 0.7, most: 1.6 };
    /// Of an unknown tokenizer: between the two.
    pub(super) const ANY: Self = Self { two: 0.52, three: 0.56, cjk: 0.85, least: 0.7, most: 2.5 };
}

/// Bytes that are counted in one-byte counters before these are summed.
const RUN: usize = 255;

impl Tally {
    /// Adds a text that is tokenized on its own.
    pub(super) fn add(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let Some((first, rest)) = bytes.split_first() else { return };
        self.bytes += bytes.len() as u64;
        self.texts += 1;
        // The beginning of a text is the beginning of a word.
        self.run(&[*first], b" ");
        for (now, before) in rest.chunks(RUN).zip(bytes.chunks(RUN)) {
            self.run(now, before);
        }
    }

    /// Adds at most [`RUN`] bytes, given the byte before each. Branch-free, so that the compiler vectorises it.
    fn run(&mut self, now: &[u8], before: &[u8]) {
        let (mut words, mut letters, mut digits, mut marks, mut lines) = (0_u8, 0_u8, 0_u8, 0_u8, 0_u8);
        let (mut mixes, mut two, mut three, mut cjk, mut four) = (0_u8, 0_u8, 0_u8, 0_u8, 0_u8);
        let within = |byte: u8, first: u8, last: u8| u8::from(byte.wrapping_sub(first) <= last - first);
        for (&now, &before) in now.iter().zip(before) {
            let (upper, lower) = (within(now, b'A', b'Z'), within(now, b'a', b'z'));
            let (upper_before, lower_before) = (within(before, b'A', b'Z'), within(before, b'a', b'z'));
            let (letter, letter_before) = (upper | lower, upper_before | lower_before);
            let (digit, digit_before) = (within(now, b'0', b'9'), within(before, b'0', b'9'));
            words += letter & (u8::from(before == b' ') | within(before, b'\t', b'\r'));
            letters += letter;
            digits += digit;
            marks += within(now, b'!', b'~') & (1 ^ (letter | digit));
            lines += u8::from(now == b'\n');
            mixes += (upper & lower_before) | (letter & digit_before) | (digit & letter_before);
            two += within(now, 0xC2, 0xDF);
            three += within(now, 0xE0, 0xE2);
            cjk += within(now, 0xE3, 0xEF);
            four += within(now, 0xF0, 0xF4);
        }
        self.words += u64::from(words);
        self.letters += u64::from(letters);
        self.digits += u64::from(digits);
        self.marks += u64::from(marks);
        self.lines += u64::from(lines);
        self.mixes += u64::from(mixes);
        self.two += u64::from(two);
        self.three += u64::from(three);
        self.cjk += u64::from(cjk);
        self.four += u64::from(four);
    }

    /// The expected tokens of the texts; at least one each, and at most one per byte.
    pub(super) fn weighed(&self, weights: &Weights) -> u64 {
        let kinds = [
            (self.letters, LETTER),
            (self.digits, DIGIT),
            (self.marks, MARK),
            (self.lines, LINE),
            (self.mixes, MIX),
            (self.two, weights.two),
            (self.three, weights.three),
            (self.cjk, weights.cjk),
            (self.four, FOUR),
        ];
        let sum: f64 = kinds.iter().map(|(count, weight)| *count as f64 * weight).sum();
        (sum.round() as u64).clamp(self.texts, self.bytes)
    }

    /// Bytes beyond ASCII.
    pub(super) const fn foreign(&self) -> u64 {
        2 * self.two + 3 * (self.three + self.cjk) + 4 * self.four
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(text: &str) -> Tally {
        let mut tally = Tally::default();
        tally.add(text);
        tally
    }

    #[test]
    fn characters_are_counted_by_kind() {
        let got = tally("Hello World2,\n  fooBar é नी 你好 😀");
        let want = Tally {
            bytes: 44,
            texts: 1,
            words: 3,
            letters: 16,
            digits: 1,
            marks: 1,
            lines: 1,
            mixes: 2,
            two: 1,
            three: 2,
            cjk: 2,
            four: 1,
        };
        assert_eq!(got, want);
        assert_eq!(got.foreign(), 2 + 6 + 6 + 4);
        assert_eq!(tally("").texts, 0);
    }

    proptest! {
        #[test]
        fn runs_add_up_exactly(text in "[a-zA-Z0-9 ,\\n\\té你😀]{0,2000}") {
            let mut slow = Tally::default();
            let mut before = ' ';
            for now in text.chars() {
                let letter = now.is_ascii_alphabetic();
                slow.letters += u64::from(letter);
                slow.words += u64::from(letter && before.is_ascii_whitespace());
                slow.cjk += u64::from(now == '你');
                before = now;
            }
            let fast = tally(&text);
            prop_assert_eq!((fast.letters, fast.words, fast.cjk), (slow.letters, slow.words, slow.cjk));
            prop_assert_eq!(fast.foreign(), text.bytes().filter(|byte| !byte.is_ascii()).count() as u64);
            prop_assert!(fast.weighed(&Weights::ANY) <= text.len() as u64);
        }
    }
}
