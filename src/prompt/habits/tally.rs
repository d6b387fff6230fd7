//! What came of comparing a caller's prompts: counts, the last departures, and words of advice.

use std::{collections::VecDeque, fmt::Write};

use serde::Serialize;

use super::begun::{Begun, MOST_LIKE};
use crate::types::{HeadEnd, Part};

/// Prompts over which shares are told.
pub(super) const LATELY: usize = 256;
/// Departures below this share of prompts are no habit.
const HABIT: f64 = 0.05;
/// Tokens below which nothing is said of a share.
const FEWEST_TOKENS: u64 = 10_000;
/// Where engines report this share of a caller's prompts as cached, they know how these begin, whatever is remembered of them here.
const WELL_CACHED: f64 = 0.7;

/// A prompt that departed early.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Departed {
    pub(super) part: Part,
    /// The block in which it did.
    from: u64,
    to: u64,
    /// Bytes behind that which would have been the same.
    lost: u64,
    /// Whether that was before the first breakpoint of its client.
    marked: bool,
}

impl Departed {
    /// A prompt that shares so many blocks with the next one, and would have shared `end` bytes.
    pub(super) fn new(begun: &Begun<'_>, shared: usize, end: u64, part: impl FnOnce(u64) -> Part) -> Self {
        let layout = begun.prompt.layout;
        let (from, to) = (layout.bytes(shared), layout.bytes(shared + 1).min(begun.prompt.bytes));
        Self {
            // What changes is more often a part that is another from its beginning than the end of the one before.
            part: part(to.min(end).saturating_sub(1).max(from)),
            from,
            to,
            lost: end.saturating_sub(from),
            marked: begun.head.end == HeadEnd::Breakpoint,
        }
    }
}

/// What came of one prompt.
#[derive(Copy, Clone, Debug)]
enum Came {
    Alike,
    New,
    Departed(Departed),
}

/// What came of a caller's prompts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    seen: u64,
    departed: u64,
    /// The last of them.
    lately: VecDeque<Came>,
    /// The last answers whose engines report what was cached, no more of them.
    answers: VecDeque<Hits>,
}

/// The prompt tokens of an answer whose engine reports how many were cached.
#[derive(Copy, Clone, Debug, Default)]
pub struct Hits {
    /// All of them.
    pub prompt: u64,
    /// Those that were expected to be cached; no more than all.
    pub predicted: u64,
    /// Those that were; no more than all.
    pub reported: u64,
}

/// How a caller's prompts begin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Habit {
    /// Prompts so far.
    pub requests: u64,
    /// Of these, the ones that departed early.
    pub departed: u64,
    /// The share of tokens that was predicted to be cached, of the last answers that report it.
    pub predicted_cached_share: Option<f64>,
    /// The share that was.
    pub reported_cached_share: Option<f64>,
    /// The prompts that all of the following is about: the last ones.
    pub lately: usize,
    /// Of these, the ones that began like one before.
    pub alike: usize,
    /// Those that began like none.
    pub new: usize,
    /// Bytes of prompts that engines would have had, had these not departed.
    pub lost_bytes: u64,
    /// Those that departed, by part, the most frequent first.
    pub departures: Vec<Departures>,
    /// What to do about it.
    pub advice: Option<String>,
}

/// Prompts that departed in the same part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Departures {
    /// `tools`, `system`, `message` or `prompt`.
    pub r#where: &'static str,
    /// The message, counted from 0, of the one in the middle.
    pub message: Option<u32>,
    /// How many.
    pub requests: usize,
    /// Their share of the last prompts.
    pub share: f64,
    /// The block in which the one in the middle departed: its first byte.
    pub from_byte: u64,
    /// The byte after its last one.
    pub to_byte: u64,
    /// Of these prompts, the ones that did before their client's first breakpoint.
    pub before_breakpoint: usize,
}

impl Tally {
    pub(super) fn count(&mut self, departed: Option<Departed>, alike: bool) {
        self.seen += 1;
        self.departed += u64::from(departed.is_some());
        let other = if alike { Came::Alike } else { Came::New };
        keep(&mut self.lately, departed.map_or(other, Came::Departed));
    }

    pub(super) fn answered(&mut self, hits: Hits) {
        keep(&mut self.answers, hits);
    }

    /// Bytes that it takes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.lately.capacity() * size_of::<Came>() + self.answers.capacity() * size_of::<Hits>()
    }

    /// Where the last prompt departed, if it did.
    #[cfg(test)]
    pub(super) fn last_from(&self) -> Option<u64> {
        self.lately.back()?.departed().map(|departed| departed.from)
    }

    pub(super) fn told(&self) -> Habit {
        let lately = self.lately.len();
        let is = |wanted: fn(&&Came) -> bool| self.lately.iter().filter(wanted).count();
        let departed: Vec<Departed> = self.lately.iter().filter_map(Came::departed).collect();
        let mut departures: Vec<_> = ["tools", "system", "message", "prompt"]
            .into_iter()
            .filter_map(|part| Departures::of(part, &departed, lately))
            .collect();
        departures.sort_by_key(|it| std::cmp::Reverse(it.requests));
        let sum = |of: fn(&Hits) -> u64| self.answers.iter().map(of).sum::<u64>();
        let hits =
            Hits { prompt: sum(|it| it.prompt), predicted: sum(|it| it.predicted), reported: sum(|it| it.reported) };
        let advice = advice(&departures, hits);
        let [predicted_cached_share, reported_cached_share] =
            [hits.predicted, hits.reported].map(|tokens| hits.share(tokens).map(rounded));
        Habit {
            requests: self.seen,
            departed: self.departed,
            predicted_cached_share,
            reported_cached_share,
            lately,
            alike: is(|came| matches!(came, Came::Alike)),
            new: is(|came| matches!(came, Came::New)),
            lost_bytes: departed.iter().map(|it| it.lost).sum(),
            departures,
            advice,
        }
    }
}

/// Adds to the last ones.
fn keep<T>(last: &mut VecDeque<T>, new: T) {
    if last.len() == LATELY {
        last.pop_front();
    }
    last.push_back(new);
}

impl Hits {
    fn share(&self, tokens: u64) -> Option<f64> {
        (self.prompt > 0).then(|| tokens as f64 / self.prompt as f64)
    }
}

impl Came {
    fn departed(&self) -> Option<Departed> {
        if let Self::Departed(departed) = self { Some(*departed) } else { None }
    }
}

impl Departures {
    fn of(part: &'static str, all: &[Departed], lately: usize) -> Option<Self> {
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

/// What to do about the departures.
fn advice(departures: &[Departures], hits: Hits) -> Option<String> {
    // Each variant of a system prompt departs from the others where it comes for the first time.
    let habits = departures.iter().filter(|it| it.share >= HABIT && it.requests >= MOST_LIKE);
    let [predicted, reported] = [hits.predicted, hits.reported].map(|tokens| hits.share(tokens).unwrap_or(0.0));
    let mut text = String::new();
    if reported < WELL_CACHED {
        for habit in habits {
            habit.advise(&mut text);
        }
    }
    if hits.prompt >= FEWEST_TOKENS && predicted - reported > 0.2 {
        let (predicted, reported) = (predicted * 100.0, reported * 100.0);
        let _ = write!(
            text,
            "{}By how its prompts begin {predicted:.0} % of their tokens should have been cached, its engines report {reported:.0} %: see whether \
             prefix caching is on there, and whether their caches are too small.",
            if text.is_empty() { "" } else { " " },
        );
    }
    (!text.is_empty()).then_some(text)
}

impl Departures {
    fn advise(&self, text: &mut String) {
        let Self { share, from_byte, to_byte, .. } = self;
        let part = match (self.r#where, self.message) {
            ("tools", _) => "the tools".to_owned(),
            ("system", _) => "the system prompt".to_owned(),
            (_, Some(number)) => format!("message {number}"),
            _ => "the prompt".to_owned(),
        };
        let what = match (self.r#where, self.message) {
            ("tools", _) => "Send the same tools in the same order, each with its members in the same order",
            ("message", Some(1..)) => "Append to a conversation, and send what was said before as it was sent then",
            _ => {
                "What changes there (a date, an id, a name) stands before what stays the same: put it behind, best of all into the last message"
            }
        };
        let comma = if text.is_empty() { "" } else { " " };
        let _ = write!(
            text,
            "{comma}{:.0} % of prompts change at bytes {from_byte} to {to_byte}, in {part}. {what}.",
            share * 100.0
        );
        if 2 * self.before_breakpoint > self.requests {
            *text +=
                " That is before the first cache_control, so what is marked is written anew each time, and never read.";
        }
    }
}
