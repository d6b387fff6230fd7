//! A model's own tokenizer, from its `tokenizer.json`.

use tokenizers::{ModelWrapper, PostProcessor, Tokenizer};

use super::{
    piece::{Style, Template},
    tally::{Tally, Weights},
};

/// Long texts are tokenized in parts of about this many bytes, so that little memory is needed and counting can stop
/// early.
const PART: usize = 4096;
/// The distance after a part's nominal end within which a good split point is searched.
const SEARCH: usize = 4096;
/// NFKC normalisation expands a byte beyond ASCII to at most this many (Unicode's FAQ on normalisation).
const EXPANSION: u64 = 11;
/// A text that every tokenizer which can be split at spaces must count the same in parts and as a whole.
const PROBE: &str = "the quick brown fox jumps over the lazy dog";

/// A model's own tokenizer, ready to count.
pub struct ModelTokenizer {
    tokenizer: Tokenizer,
    /// True if a part keeps its leading space. Tokenizers that prepend a space to every text would count one too many
    /// otherwise.
    with_space: bool,
    /// The most word starts in one token; `None` if that does not bound the number of tokens.
    words: Option<u64>,
    /// True if texts are normalised and may grow.
    normalises: bool,
    template: Template,
}

/// A file is not a usable tokenizer.
#[derive(Debug, thiserror::Error)]
#[error("not a tokenizer.json that can be used: {0}")]
pub struct TokenizerError(String);

impl std::fmt::Debug for ModelTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own").field("words", &self.words).field("template", &self.template).finish_non_exhaustive()
    }
}

impl ModelTokenizer {
    /// Reads the text of a `tokenizer.json`. Takes up to seconds for large vocabularies. Truncation and padding are
    /// switched off.
    pub fn read(json: &[u8]) -> Result<Self, TokenizerError> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|error| TokenizerError(error.to_string()))?;
        tokenizer.with_truncation(None).map_err(|error| TokenizerError(error.to_string()))?;
        tokenizer.with_padding(None);
        let special = tokenizer.get_post_processor().map_or(0, |it| it.added_tokens(false)) as u64;
        let mut own = Self {
            with_space: true,
            words: words(&tokenizer),
            normalises: tokenizer.get_normalizer().is_some(),
            // A template like ChatML, the most common one: `<|im_start|>role
            // …<|im_end|>
            // `, and `<|im_start|>assistant
            // ` at the end. The file's own chat template is not run: its additional tokens are learned.
            template: Template { message: 4, name: 1, reply: 3, plain: special, tools: Style::Json },
            tokenizer,
        };
        let whole = own.part(PROBE);
        let parts = |with_space: bool| -> u64 {
            let cuts = PROBE.match_indices(' ').map(|(at, _)| at);
            let ends = cuts.clone().chain([PROBE.len()]);
            let starts = std::iter::once(0).chain(cuts.map(|at| at + usize::from(!with_space)));
            starts.zip(ends).map(|(start, end)| own.part(&PROBE[start..end])).sum()
        };
        own.with_space = parts(true) == whole || parts(false) != whole;
        Ok(own)
    }

    /// Tokens of `text` alone, without those that begin and end a text. Stops above `most` with any number above it.
    ///
    /// Texts of more than [`PART`] bytes are counted in parts. A split between two words of ASCII letters changes
    /// nothing for common tokenizers, because none joins words there (except those with multi-word tokens, which may
    /// count one more per split). Without such a place for [`SEARCH`] bytes, as in Chinese, the text is split at a
    /// line's end or at any character, which may count two tokens more or fewer: one in 500.
    pub(super) fn count(&self, text: &str, most: u64) -> u64 {
        let (mut tokens, mut rest) = (0, text);
        while !rest.is_empty() && tokens <= most {
            let at = cut(rest);
            let (part, next) = rest.split_at(at);
            tokens += self.part(part);
            rest = if self.with_space { next } else { next.strip_prefix(' ').unwrap_or(next) };
        }
        tokens
    }

    fn part(&self, text: &str) -> u64 {
        if let Ok(encoding) = self.tokenizer.encode_fast(text, false) {
            return encoding.len() as u64;
        }
        // The pattern failed, or an unknown character has no token.
        let mut tally = Tally::default();
        tally.add(text);
        tally.weighed(&Weights::ANY)
    }

    /// A guaranteed lower bound.
    pub(super) fn least(&self, tally: &Tally) -> u64 {
        self.words.map_or(0, |most| tally.words / most)
    }

    /// A guaranteed upper bound: the number of bytes, plus one token that may be prepended to each part of a text.
    pub(super) fn most(&self, tally: &Tally) -> u64 {
        let growth = if self.normalises { tally.foreign() * (EXPANSION - 1) } else { 0 };
        tally.bytes + growth + tally.texts + tally.bytes / PART as u64
    }

    pub(super) const fn template(&self) -> &Template {
        &self.template
    }
}

/// The template that is assumed without a tokenizer.
pub(super) const UNKNOWN: Template = Template { message: 4, name: 1, reply: 3, plain: 0, tools: Style::Json };

/// The end of the first part of `text`: before a space between two ASCII letters, before a line feed after a letter or
/// a digit, or at any character.
fn cut(text: &str) -> usize {
    if text.len() <= PART + SEARCH {
        return text.len();
    }
    let bytes = text.as_bytes();
    let between = |at: &usize, wanted: fn(u8, u8, u8) -> bool| wanted(bytes[at - 1], bytes[*at], bytes[at + 1]);
    let places = PART..PART + SEARCH - 1;
    let space = |a: u8, b: u8, c: u8| b == b' ' && a.is_ascii_alphabetic() && c.is_ascii_alphabetic();
    let line = |a: u8, b: u8, _: u8| b == b'\n' && a.is_ascii_alphanumeric();
    let found = places.clone().find(|at| between(at, space)).or_else(|| places.clone().find(|at| between(at, line)));
    found.unwrap_or_else(|| text.floor_char_boundary(PART))
}

/// The most word starts in any token, for BPE without a normaliser that could remove some: a text then has at least its
/// number of words divided by this many tokens. Each ASCII letter must have a token, because unknown ones may be fused.
fn words(tokenizer: &Tokenizer) -> Option<u64> {
    let tame = |normaliser: &serde_json::Value| {
        normaliser["type"].as_str().is_some_and(|kind| matches!(kind, "NFC" | "NFD" | "NFKC" | "NFKD"))
    };
    let normaliser = serde_json::to_value(tokenizer.get_normalizer()).ok()?;
    let tame = normaliser.is_null()
        || tame(&normaliser)
        || normaliser["normalizers"].as_array().is_some_and(|all| all.iter().all(tame));
    if !tame || !matches!(tokenizer.get_model(), ModelWrapper::BPE(_)) {
        return None;
    }
    let letters = (b'a'..=b'z').chain(b'A'..=b'Z');
    if letters.clone().any(|letter| tokenizer.token_to_id(char::from(letter).encode_utf8(&mut [0; 4])).is_none()) {
        return None;
    }
    let most = tokenizer.get_vocab(true).keys().map(|token| beginnings(token)).max();
    Some(most.unwrap_or(0).max(1))
}

/// Number of ASCII letters after white space, in the notation of byte-level and `SentencePiece` vocabularies.
fn beginnings(token: &str) -> u64 {
    let white = |c: char| c.is_whitespace() || matches!(c, 'Ġ' | 'Ċ' | 'ĉ' | 'č' | '▁');
    let pairs = token.chars().zip(token.chars().skip(1));
    pairs.filter(|(before, now)| white(*before) && now.is_ascii_alphabetic()).count() as u64
}
