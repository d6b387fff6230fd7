//! Statistics of a caller's prompts: counts, recent divergences and advice.

use std::{collections::VecDeque, fmt::Write};

use serde::Serialize;

use super::tracked_prompt::{MOST_LIKE, TrackedPrompt};
use signalbox_types::{HeadEnd, Part};

/// Number of prompts over which shares are computed.
pub(super) const LATELY: usize = 256;
/// Divergences below this share of prompts are not reported as a pattern.
const PATTERN: f64 = 0.05;
/// The fewest tokens over which a cached share is judged.
const FEWEST_TOKENS: u64 = 10_000;
/// If engines report this share of a caller's prompts as cached, no advice is given, whatever is remembered here.
const WELL_CACHED: f64 = 0.7;

/// A prompt that diverged early.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Divergence {
    pub(super) part: Part,
    /// The first byte of the block in which it diverged.
    from: u64,
    to: u64,
    /// Bytes after that which would have been shared.
    lost: u64,
    /// True if the divergence lies before the client's first breakpoint.
    marked: bool,
}

impl Divergence {
    /// The divergence of a prompt that shares `shared` blocks, and would have shared `end` bytes.
    pub(super) fn new(current: &TrackedPrompt<'_>, shared: usize, end: u64, part: impl FnOnce(u64) -> Part) -> Self {
        let layout = current.prompt.layout;
        let (from, to) = (layout.bytes(shared), layout.bytes(shared + 1).min(current.prompt.bytes));
        Self {
            // The end of the block is more often in the part that changed: a part is more often changed from its start
            // than at its end.
            part: part(to.min(end).saturating_sub(1).max(from)),
            from,
            to,
            lost: end.saturating_sub(from),
            marked: current.head.end == HeadEnd::Breakpoint,
        }
    }
}

/// The classification of one prompt.
#[derive(Copy, Clone, Debug)]
enum Class {
    Matched,
    Unknown,
    Diverged(Divergence),
}

/// Statistics of a caller's prompts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    seen: u64,
    departed: u64,
    /// The most recent ones.
    lately: VecDeque<Class>,
    /// Recent answers whose engines report cached tokens.
    answers: VecDeque<CacheReport>,
}

/// The prompt tokens of an answer whose engine reports cached ones.
#[derive(Copy, Clone, Debug, Default)]
pub struct CacheReport {
    /// All prompt tokens.
    pub prompt: u64,
    /// Tokens that were predicted to be cached; no more than all.
    pub predicted: u64,
    /// Tokens that were cached; no more than all.
    pub reported: u64,
}

/// A report on the prefix stability of a caller's prompts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StabilityReport {
    /// Number of prompts so far.
    pub requests: u64,
    /// Prompts that diverged early.
    pub departed: u64,
    /// The share of tokens predicted to be cached, over recent answers that report cached tokens.
    pub predicted_cached_share: Option<f64>,
    /// The share of tokens that were cached, over the same answers.
    pub reported_cached_share: Option<f64>,
    /// The number of recent prompts that the following fields cover.
    pub lately: usize,
    /// Recent prompts that matched an earlier one.
    pub alike: usize,
    /// Recent prompts that matched none.
    pub new: usize,
    /// Bytes of prompts that would have been cached without divergences.
    pub lost_bytes: u64,
    /// Recent divergences by part, the most frequent first.
    pub departures: Vec<PartDivergences>,
    /// Advice to the caller's developers.
    pub advice: Option<String>,
}

/// Divergences in the same part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartDivergences {
    /// `tools`, `system`, `message` or `prompt`.
    pub r#where: &'static str,
    /// The message, counted from 0, of the median divergence.
    pub message: Option<u32>,
    /// Number of prompts.
    pub requests: usize,
    /// Their share of the recent prompts.
    pub share: f64,
    /// The first byte of the block of the median divergence.
    pub from_byte: u64,
    /// The byte after its last one.
    pub to_byte: u64,
    /// Prompts that diverged before their client's first breakpoint.
    pub before_breakpoint: usize,
}

impl Tally {
    pub(super) fn count(&mut self, departed: Option<Divergence>, alike: bool) {
        self.seen += 1;
        self.departed += u64::from(departed.is_some());
        let other = if alike { Class::Matched } else { Class::Unknown };
        keep(&mut self.lately, departed.map_or(other, Class::Diverged));
    }

    pub(super) fn answered(&mut self, hits: CacheReport) {
        keep(&mut self.answers, hits);
    }

    /// Memory used, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.lately.capacity() * size_of::<Class>() + self.answers.capacity() * size_of::<CacheReport>()
    }

    /// The first byte of the block in which the last prompt diverged, if it did.
    #[cfg(test)]
    pub(super) fn last_from(&self) -> Option<u64> {
        self.lately.back()?.divergence().map(|departed| departed.from)
    }

    pub(super) fn report(&self) -> StabilityReport {
        let lately = self.lately.len();
        let is = |wanted: fn(&&Class) -> bool| self.lately.iter().filter(wanted).count();
        let departed: Vec<Divergence> = self.lately.iter().filter_map(Class::divergence).collect();
        let mut departures: Vec<_> = ["tools", "system", "message", "prompt"]
            .into_iter()
            .filter_map(|part| PartDivergences::of(part, &departed, lately))
            .collect();
        departures.sort_by_key(|it| std::cmp::Reverse(it.requests));
        let sum = |of: fn(&CacheReport) -> u64| self.answers.iter().map(of).sum::<u64>();
        let hits = CacheReport {
            prompt: sum(|it| it.prompt),
            predicted: sum(|it| it.predicted),
            reported: sum(|it| it.reported),
        };
        let advice = advice(&departures, hits);
        let [predicted_cached_share, reported_cached_share] =
            [hits.predicted, hits.reported].map(|tokens| hits.share(tokens).map(rounded));
        StabilityReport {
            requests: self.seen,
            departed: self.departed,
            predicted_cached_share,
            reported_cached_share,
            lately,
            alike: is(|came| matches!(came, Class::Matched)),
            new: is(|came| matches!(came, Class::Unknown)),
            lost_bytes: departed.iter().map(|it| it.lost).sum(),
            departures,
            advice,
        }
    }
}

/// Appends to a bounded list of recent items.
fn keep<T>(last: &mut VecDeque<T>, new: T) {
    if last.len() == LATELY {
        last.pop_front();
    }
    last.push_back(new);
}

impl CacheReport {
    fn share(&self, tokens: u64) -> Option<f64> {
        (self.prompt > 0).then(|| tokens as f64 / self.prompt as f64)
    }
}

impl Class {
    fn divergence(&self) -> Option<Divergence> {
        if let Self::Diverged(departed) = self { Some(*departed) } else { None }
    }
}

impl PartDivergences {
    fn of(part: &'static str, all: &[Divergence], lately: usize) -> Option<Self> {
        let mut here: Vec<_> = all.iter().filter(|it| it.part.label() == part).collect();
        here.sort_by_key(|it| it.from);
        let middle = here.get(here.len() / 2)?;
        let message = if let Part::Message(number) = middle.part { Some(number) } else { None };
        Some(Self {
            r#where: part,
            message,
            requests: here.len(),
            share: rounded(here.len() as f64 / lately as f64),
            from_byte: middle.from,
            to_byte: middle.to,
            before_breakpoint: here.iter().filter(|it| it.marked).count(),
        })
    }
}

fn rounded(share: f64) -> f64 {
    (share * 1e3).round() / 1e3
}

/// The advice for these divergences.
fn advice(departures: &[PartDivergences], hits: CacheReport) -> Option<String> {
    // Each variant of a system prompt diverges from the others when it first appears.
    let history = departures.iter().filter(|it| it.share >= PATTERN && it.requests >= MOST_LIKE);
    let [predicted, reported] = [hits.predicted, hits.reported].map(|tokens| hits.share(tokens).unwrap_or(0.0));
    let mut text = String::new();
    if reported < WELL_CACHED {
        for report in history {
            report.advise(&mut text);
        }
    }
    if hits.prompt >= FEWEST_TOKENS && predicted - reported > 0.2 {
        let (predicted, reported) = (predicted * 100.0, reported * 100.0);
        let _ = write!(
            text,
            "{}Judging by their prefixes, {predicted:.0} % of the prompts' tokens should have been cached, but the engines report {reported:.0} %: \
             check that prefix caching is enabled there and that their KV caches are large enough.",
            if text.is_empty() { "" } else { " " },
        );
    }
    (!text.is_empty()).then_some(text)
}

impl PartDivergences {
    fn advise(&self, text: &mut String) {
        let Self { share, from_byte, to_byte, .. } = self;
        let part = match (self.r#where, self.message) {
            ("tools", _) => "the tools".to_owned(),
            ("system", _) => "the system prompt".to_owned(),
            (_, Some(number)) => format!("message {number}"),
            _ => "the prompt".to_owned(),
        };
        let what = match (self.r#where, self.message) {
            ("tools", _) => "Send the same tools in the same order, with their members in the same order",
            ("message", Some(1..)) => "Append to a conversation, and send its earlier messages unchanged",
            _ => {
                "A value that changes (a date, an id, a name) precedes text that stays the same: move it to the end, best of all into the last message"
            }
        };
        let comma = if text.is_empty() { "" } else { " " };
        let _ = write!(
            text,
            "{comma}{:.0} % of prompts change at bytes {from_byte} to {to_byte}, in {part}. {what}.",
            share * 100.0
        );
        if 2 * self.before_breakpoint > self.requests {
            *text += " These bytes precede the first cache_control, so the marked prefix is written to the cache each time and never read.";
        }
    }
}
