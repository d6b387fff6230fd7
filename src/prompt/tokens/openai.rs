//! OpenAI's own encodings, compiled in.

use std::sync::LazyLock;

use super::{
    pairs::Scratch,
    piece::{Style, Template},
    split::Splitter,
    tally::{Tally, Weights},
    vocabulary::Vocabulary,
};

static CL100K: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::new(include_bytes!("../../../assets/tokens/cl100k.bin"), Splitter::cl100k()));
static O200K: LazyLock<Tokenizer> =
    LazyLock::new(|| Tokenizer::new(include_bytes!("../../../assets/tokens/o200k.bin"), Splitter::o200k()));

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

/// An encoding of OpenAI's models.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// `cl100k_base`: GPT-3.5, GPT-4, the third embedding models.
    Cl100k,
    /// `o200k_base`: GPT-4o, GPT-4.1, GPT-5, the o series, gpt-oss.
    O200k,
}

/// Prefixes of model names, longer ones before shorter ones, with the encoding that tiktoken uses.
const MODELS: [(&str, Encoding); 14] = [
    ("gpt-4o", Encoding::O200k),
    ("gpt-4.1", Encoding::O200k),
    ("gpt-4.5", Encoding::O200k),
    ("gpt-5", Encoding::O200k),
    ("gpt-oss", Encoding::O200k),
    ("chatgpt-4o", Encoding::O200k),
    ("o1", Encoding::O200k),
    ("o3", Encoding::O200k),
    ("o4", Encoding::O200k),
    ("gpt-4", Encoding::Cl100k),
    ("gpt-3.5", Encoding::Cl100k),
    ("gpt-35", Encoding::Cl100k),
    ("text-embedding-3", Encoding::Cl100k),
    ("text-embedding-ada-002", Encoding::Cl100k),
];

impl Encoding {
    /// The encoding of the model `name`, if it belongs to one of OpenAI's families: `gpt-4o-mini`, `openai/o3`,
    /// `ft:gpt-4.1:…`.
    pub fn of_model(name: &str) -> Option<Self> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let name = name.strip_prefix("ft:").unwrap_or(name);
        MODELS.iter().find_map(|(family, encoding)| {
            let rest = name.strip_prefix(family)?;
            (rest.is_empty() || rest.starts_with(['-', ':', '.', 'o'])).then_some(*encoding)
        })
    }

    /// Builds the tokenizer, which the first count would build otherwise.
    pub fn warm_up(self, text: &str) {
        self.count(text, u64::MAX);
    }

    fn tokenizer(self) -> &'static Tokenizer {
        match self {
            Self::Cl100k => &CL100K,
            Self::O200k => &O200K,
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
        match self {
            Self::Cl100k => &Weights::CL100K,
            Self::O200k => &Weights::O200K,
        }
    }

    /// A guaranteed lower bound. Both encodings begin a piece before every letter that follows white space, and
    /// separate digits from everything else, in pieces of at most three.
    pub(super) fn least(tally: &Tally) -> u64 {
        tally.words + tally.digits.div_ceil(3)
    }

    /// The template's tokens according to OpenAI's cookbook ("How to count tokens with tiktoken").
    pub(super) const fn template(self) -> Template {
        let function = match self {
            Self::Cl100k => 10,
            Self::O200k => 7,
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
            assert_eq!(Encoding::Cl100k.count(text, u64::MAX), cl100k, "{text}");
            assert_eq!(Encoding::O200k.count(text, u64::MAX), o200k, "{text}");
        }
    }

    /// Texts of many scripts and kinds of white space, with the counts of tiktoken (`assets/tokens/expected.py`).
    #[test]
    fn texts_are_counted_as_by_tiktoken() {
        let expected = include_str!("../../../tests/tokens/expected.jsonl");
        for line in expected.lines() {
            let (text, cl100k, o200k): (String, u64, u64) = serde_json::from_str(line).unwrap();
            assert_eq!(Encoding::Cl100k.count(&text, u64::MAX), cl100k, "{text:?}");
            assert_eq!(Encoding::O200k.count(&text, u64::MAX), o200k, "{text:?}");
        }
        assert!(expected.lines().count() > 900);
    }

    #[test]
    fn families_are_recognised_by_name() {
        use Encoding::{Cl100k, O200k};
        for (name, want) in [
            ("gpt-4o-mini", Some(O200k)),
            ("gpt-4.1", Some(O200k)),
            ("gpt-5.1-codex", Some(O200k)),
            ("gpt-5", Some(O200k)),
            ("o3", Some(O200k)),
            ("o4-mini", Some(O200k)),
            ("openai/gpt-oss-120b", Some(O200k)),
            ("ft:gpt-4o:acme::id", Some(O200k)),
            ("gpt-4-turbo", Some(Cl100k)),
            ("gpt-4", Some(Cl100k)),
            ("gpt-3.5-turbo", Some(Cl100k)),
            ("text-embedding-3-small", Some(Cl100k)),
            ("gpt-4all", None),
            ("o3x", None),
            ("o1", Some(O200k)),
            ("llama-3", None),
            ("gpt2", None),
            ("", None),
        ] {
            assert_eq!(Encoding::of_model(name), want, "{name}");
        }
    }
}
