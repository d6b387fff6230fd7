//! OpenAI's own encodings, compiled in.

use std::sync::LazyLock;

use super::{
    pairs::Scratch,
    piece::{Style, Template},
    split::Splitter,
    tally::{Tally, Weights},
    vocabulary::Vocabulary,
};
use signalbox_types::Encoding;

static CL100K: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::new(include_bytes!("../../assets/tokens/cl100k.bin"), Splitter::cl100k()));
static O200K: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::new(include_bytes!("../../assets/tokens/o200k.bin"), Splitter::o200k()));

/// A vocabulary, and the rule that splits texts into the pieces that it encodes.
#[derive(Debug)]
struct Tokenizer {
    vocabulary: Vocabulary,
    splitter: Splitter,
}

impl Tokenizer {
    fn new(file: &[u8], splitter: Splitter) -> Self {
        let vocabulary = Vocabulary::read(file).expect("a file that tests read");
        Self { vocabulary, splitter }
    }
}

/// Builds the tokenizer of an encoding, which the first count would build otherwise.
pub fn warm_up_encoding(encoding: Encoding, text: &str) {
    OpenAiTokens(encoding).count(text, u64::MAX);
}

/// Counts tokens as an encoding does.
#[derive(Copy, Clone, Debug)]
pub(super) struct OpenAiTokens(pub(super) Encoding);

impl OpenAiTokens {
    fn tokenizer(self) -> &'static Tokenizer {
        match self.0 {
            Encoding::Cl100k => &CL100K,
            Encoding::O200k => &O200K,
        }
    }

    #[cfg(test)]
    pub(super) fn vocabulary(self) -> &'static Vocabulary {
        &self.tokenizer().vocabulary
    }

    /// Tokens of `text` alone; special tokens in it count as text. Stops above `most` with any number above it. The
    /// time grows linearly with the text, for any content.
    pub(super) fn count(self, text: &str, most: u64) -> u64 {
        let tokenizer = self.tokenizer();
        let (mut tokens, mut scratch) = (0, Scratch::default());
        for piece in tokenizer.splitter.pieces(text) {
            tokens += scratch.count(&tokenizer.vocabulary, piece.as_bytes()) as u64;
            if tokens > most {
                break;
            }
        }
        tokens
    }

    pub(super) const fn weights(self) -> &'static Weights {
        match self.0 {
            Encoding::Cl100k => &Weights::CL100K,
            Encoding::O200k => &Weights::O200K,
        }
    }

    /// A guaranteed lower bound. Both encodings begin a piece before every letter that follows white space, and
    /// separate digits from everything else, in pieces of at most three.
    pub(super) fn least(tally: &Tally) -> u64 {
        tally.words + tally.digits.div_ceil(3)
    }

    /// The template's tokens according to OpenAI's cookbook ("How to count tokens with tiktoken").
    pub(super) const fn template(self) -> Template {
        let function = match self.0 {
            Encoding::Cl100k => 10,
            Encoding::O200k => 7,
        };
        Template { message: 3, name: 1, reply: 3, plain: 0, tools: Style::Namespace { function } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts that OpenAI publishes (the cookbook, and tiktoken's README).
    #[test]
    fn published_counts_are_reproduced() {
        for (text, cl100k, o200k) in [
            ("antidisestablishmentarianism", 6, 6),
            ("2 + 2 = 4", 7, 7),
            ("お誕生日おめでとう", 9, 8),
            ("tiktoken is great!", 6, 6),
            ("hello world", 2, 2),
            ("", 0, 0),
        ] {
            assert_eq!(OpenAiTokens(Encoding::Cl100k).count(text, u64::MAX), cl100k, "{text}");
            assert_eq!(OpenAiTokens(Encoding::O200k).count(text, u64::MAX), o200k, "{text}");
        }
    }

    /// Texts of many scripts and kinds of white space, with the counts of tiktoken (`crates/prompt/assets/tokens/expected.py`).
    #[test]
    fn texts_are_counted_as_by_tiktoken() {
        let expected = include_str!("../../../../tests/tokens/expected.jsonl");
        for line in expected.lines() {
            let (text, cl100k, o200k): (String, u64, u64) = serde_json::from_str(line).unwrap();
            assert_eq!(OpenAiTokens(Encoding::Cl100k).count(&text, u64::MAX), cl100k, "{text:?}");
            assert_eq!(OpenAiTokens(Encoding::O200k).count(&text, u64::MAX), o200k, "{text:?}");
        }
        assert!(expected.lines().count() > 900);
    }
}
