//! Counts a prompt's tokens for one model: as bounds, as an estimate, or exactly.

use std::{
    ops::ControlFlow,
    sync::{Arc, OnceLock},
};

use super::{
    body::Rendered,
    correction::{Correction, Line},
    json::Flow,
    model_tokenizer::{ModelTokenizer, UNKNOWN},
    openai::OpenAiTokens,
    piece::{Piece, Template},
    sum::{Attachments, Passage, Sum},
    tally::{Tally, Weights},
    walk::pieces,
};
use crate::attachments::Prices;
use signalbox_types::Encoding;

/// Bytes of text above which counting is expected to take more than half a millisecond (measured by `cargo bench
/// --bench tokens`).
const ASIDE_OPENAI: u64 = 16 << 10;
const ASIDE_OWN: u64 = 1 << 10;

/// A slot for a model's tokenizer, empty until it is loaded. Shared by all counters of the model.
#[derive(Debug, Default)]
pub struct TokenizerSlot(OnceLock<Kind>);

#[derive(Debug)]
enum Kind {
    OpenAi(OpenAiTokens),
    Model(Box<ModelTokenizer>),
}

impl TokenizerSlot {
    /// An empty slot, until a tokenizer is [put](Self::put).
    pub const fn learned() -> Self {
        Self(OnceLock::new())
    }

    /// One of OpenAI's encodings.
    pub fn open_ai(encoding: Encoding) -> Self {
        Self(OnceLock::from(Kind::OpenAi(OpenAiTokens(encoding))))
    }

    /// A model's own tokenizer.
    pub fn own(own: ModelTokenizer) -> Self {
        Self(OnceLock::from(Kind::Model(Box::new(own))))
    }

    /// Sets the tokenizer for every counter that shares this slot. An existing one stays.
    pub fn put(&self, own: ModelTokenizer) {
        let _ = self.0.set(Kind::Model(Box::new(own)));
    }

    /// True if texts can be counted exactly.
    pub fn is_exact(&self) -> bool {
        self.0.get().is_some()
    }
}

/// An estimate of a prompt's tokens before it is counted.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The expected number.
    pub expected: u64,
    /// One prompt in 100 has fewer.
    pub lo: u64,
    /// One prompt in 100 has more.
    pub hi: u64,
    /// A guaranteed lower bound of the count.
    pub at_least: u64,
    /// A guaranteed upper bound of the count.
    pub at_most: u64,
    /// The cost of counting.
    pub cost: Cost,
    /// The basis to [learn](Counter::learn) from once the backend has reported its own count.
    pub known: CountBasis,
}

impl Estimate {
    /// True if the prompt has attachments whose tokens no tokenizer counts.
    pub const fn is_doubtful(&self) -> bool {
        !self.known.text
    }

    /// True or false if it is certain without counting whether the prompt has more than `limit` tokens. The answer
    /// agrees with
    /// [`Counter::exceeds`] says too.
    pub const fn exceeds(&self, limit: u64) -> Option<bool> {
        if self.at_most <= limit {
            Some(false)
        } else if self.at_least > limit {
            Some(true)
        } else {
            None
        }
    }
}

/// An estimate of a prompt, with what is in it beside text.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// The estimate of its tokens.
    pub estimate: Estimate,
    /// The number of its attachments by kind.
    pub attachments: Attachments,
    /// Its passages that are no text, in no certain order.
    pub passages: Vec<Passage>,
    /// Bytes of escapes in its texts, beyond the characters that they stand for.
    pub escapes: u64,
}

/// The cost of counting a prompt.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of text to be tokenized; 0 without a tokenizer.
    pub bytes: u64,
    /// True if counting may take longer than half a millisecond and belongs on a thread that may block.
    pub blocks: bool,
}

/// A count.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Tokens as the backend is expected to report them: the count, corrected by what was learned of its template.
    pub tokens: u64,
    /// Tokens of texts, template and tools, as counted here.
    pub counted: u64,
    /// The basis to [learn](Counter::learn) from once the backend has reported its own count.
    pub known: CountBasis,
}

/// The count or estimate of a prompt that a backend's report is compared with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CountBasis {
    tokens: u64,
    exact: bool,
    /// True if the prompt was all text: the tokens of attachments are not learned.
    text: bool,
}

/// Counts the tokens of prompts for one model, and learns from the difference to its backends' reports.
///
/// All methods but [`learn`](Self::learn) may be called at any rate; none keeps any text. [`count`](Self::count) and
/// [`exceeds`](Self::exceeds) tokenize and may block: see [`Cost`].
#[derive(Debug)]
pub struct Counter {
    source: Arc<TokenizerSlot>,
    prices: Prices,
    /// The correction of exact counts.
    counts: Correction,
    /// The correction of estimates.
    estimates: Correction,
}

impl Counter {
    /// A counter with the tokenizer of `source`, as soon as it is loaded, for a model of no known family.
    pub fn new(source: Arc<TokenizerSlot>) -> Self {
        Self::with_prices(source, Prices::default())
    }

    /// A counter for a model with these `prices` of attachments.
    pub fn with_prices(source: Arc<TokenizerSlot>, prices: Prices) -> Self {
        Self { source, prices, counts: Correction::new(), estimates: Correction::new() }
    }

    /// True if counts are exact, false if they are estimates too.
    pub fn is_exact(&self) -> bool {
        self.source.is_exact()
    }

    /// Estimates the tokens of `body` in one pass over its bytes, without a tokenizer.
    pub fn estimate(&self, body: &Rendered<'_>) -> Estimate {
        self.weigh(body).estimate
    }

    /// Estimates the tokens of `body`, and finds its attachments and the passages that are no text.
    pub fn weigh(&self, body: &Rendered<'_>) -> Weighed {
        let kind = self.source.0.get();
        let sum = Sum::of(body, kind.map_or(&UNKNOWN, Kind::template), &self.prices);
        Weighed {
            estimate: self.bounds(kind, &sum),
            attachments: sum.attachments,
            passages: sum.passages,
            escapes: sum.escapes,
        }
    }

    fn bounds(&self, kind: Option<&Kind>, sum: &Sum) -> Estimate {
        let estimates = self.estimates.line();
        let weights = weights(kind);
        let text = sum.tally.weighed(weights);
        let raw = text + sum.template;
        let media = sum.media;
        let expected = estimates.at(raw) + media.expected;
        let (at_least, at_most) = match kind {
            // Without a tokenizer a count equals the estimate.
            None => (expected, expected),
            Some(kind) => {
                let (least, most) = kind.certain(&sum.tally);
                let at = |tokens| self.counts.line().at(tokens + sum.template + media.expected);
                (at(least), at(most))
            }
        };
        let band = if self.estimates.is_learned() { &Weights::O200K } else { weights };
        let scaled = |share: f64| estimates.at((text as f64 * share) as u64 + sum.template);
        let (lo, hi) = (scaled(band.least) + media.least, scaled(band.most) + media.most);
        // The count of an attachment is no more certain with a tokenizer.
        let is_sure = kind.is_some() && media.least == media.most;
        let (lo, hi) = if is_sure { (lo.max(at_least), hi.min(at_most)) } else { (lo, hi) };
        let aside = match kind {
            None => u64::MAX,
            Some(Kind::OpenAi(_)) => ASIDE_OPENAI,
            Some(Kind::Model(_)) => ASIDE_OWN,
        };
        let bytes = if kind.is_some() { sum.tally.bytes } else { 0 };
        Estimate {
            expected: expected.clamp(lo.min(hi), hi),
            lo: lo.min(hi),
            hi,
            at_least,
            at_most,
            cost: Cost { bytes, blocks: bytes > aside },
            known: CountBasis { tokens: raw, exact: false, text: sum.attachments.count() == 0 },
        }
    }

    /// Counts the tokens of `body`, exactly if there is a tokenizer: texts are tokenized one by one, plus the
    /// template's tokens around them, tools, and attachments at their price. The time grows with the text.
    pub fn count(&self, body: &Rendered<'_>) -> Count {
        let Some(kind) = self.source.0.get() else {
            let Estimate { expected, known, .. } = self.estimate(body);
            return Count { tokens: expected, counted: known.tokens, known };
        };
        let (mut counted, mut text) = (0, true);
        let _ = pieces(body, kind.template(), &mut |piece| {
            text &= !matches!(piece, Piece::Attachment(_));
            counted += kind.piece(piece, &self.prices, u64::MAX);
            Flow::Continue(())
        });
        Count {
            tokens: self.counts.line().at(counted),
            counted,
            known: CountBasis { tokens: counted, exact: true, text },
        }
    }

    /// True if `body` has more than `limit` tokens. The result is that of [`count`](Self::count), but bounds decide if
    /// they can, and counting stops at the limit.
    pub fn exceeds(&self, body: &Rendered<'_>, limit: u64) -> bool {
        let Some(kind) = self.source.0.get() else { return self.estimate(body).expected > limit };
        let sum = Sum::of(body, kind.template(), &self.prices);
        let beside = sum.template + sum.media.expected;
        let line: Line = self.counts.line();
        // The most that may be counted, and the part of it for texts.
        let most = line.within(limit);
        let (least_text, most_text) = kind.certain(&sum.tally);
        if most_text + beside <= most {
            return false;
        }
        if line.at(0) > limit || least_text + beside > most {
            return true;
        }
        let (mut text, budget) = (0, most - beside);
        let flow = pieces(body, kind.template(), &mut |piece| {
            if let Piece::Text(_) = piece {
                text += kind.piece(piece, &self.prices, budget - text);
            }
            if text > budget { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        flow.is_break()
    }

    /// Learns that the backend reported `reported` prompt tokens for a prompt with the basis `known` of an [`Estimate`]
    /// or a [`Count`]. Prompts with attachments, and reports that are off by a factor of eight, are ignored.
    pub fn learn(&self, known: CountBasis, reported: u64) {
        if known.text {
            let correction = if known.exact { &self.counts } else { &self.estimates };
            correction.learn(known.tokens, reported);
        }
    }
}

const fn weights(kind: Option<&Kind>) -> &'static Weights {
    match kind {
        Some(Kind::OpenAi(encoding)) => encoding.weights(),
        _ => &Weights::ANY,
    }
}

impl Kind {
    const fn template(&self) -> &Template {
        match self {
            Self::OpenAi(OpenAiTokens(Encoding::Cl100k)) => &CL100K,
            Self::OpenAi(OpenAiTokens(Encoding::O200k)) => &O200K,
            Self::Model(own) => own.template(),
        }
    }

    /// Guaranteed bounds of the texts' tokens.
    fn certain(&self, tally: &Tally) -> (u64, u64) {
        match self {
            Self::OpenAi(_) => (OpenAiTokens::least(tally), tally.bytes),
            Self::Model(own) => (own.least(tally), own.most(tally)),
        }
    }

    /// Tokens of a piece; any number above `most` if a text has more.
    fn piece(&self, piece: Piece<'_>, prices: &Prices, most: u64) -> u64 {
        match (piece, self) {
            (Piece::Tokens(tokens), _) => tokens,
            (Piece::Attachment(attachment), _) => attachment.weight(prices).expected,
            (Piece::Escapes(_) | Piece::Opaque(_), _) => 0,
            (Piece::Text(text), Self::OpenAi(encoding)) => encoding.count(text, most),
            (Piece::Text(text), Self::Model(own)) => own.count(text, most),
        }
    }
}

const CL100K: Template = OpenAiTokens(Encoding::Cl100k).template();
const O200K: Template = OpenAiTokens(Encoding::O200k).template();

#[cfg(test)]
mod tests;
