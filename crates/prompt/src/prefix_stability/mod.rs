//! Detects prompts of a caller that diverge early from earlier ones, which defeats the engines' prefix caches, and the
//! part that causes it. Only hashes are kept.
//!
//! A prompt is compared with up to sixteen earlier ones of its caller by the chained hashes of its blocks, so the
//! divergence is known to the block. A prompt matches if it contains an earlier one entirely (the conversation went on)
//! or shares its whole head (another conversation of the same application). Otherwise, if its head has most words in
//! common with an earlier one, it diverges: something that changes precedes something that stays the same. Otherwise it
//! belongs to another application and is not judged. After the head, only prompts of the same conversation are
//! compared, if the client names it: this shows whether an earlier message is sent differently than before.
//!
//! If clients set breakpoints for their provider's cache (`cache_control`), the head ends at the first of them.
//! Breakpoints move with the conversation and are bytes of the prompt, so nothing after the head is judged then.

mod sketch;
mod tally;
mod tracked_prompt;

use parking_lot::Mutex;

pub use self::{
    sketch::Sketch,
    tally::{CacheReport, PartDivergences, StabilityReport},
    tracked_prompt::{LazyPrompt, TrackedPrompt},
};
use self::{
    tally::{Divergence, Tally},
    tracked_prompt::MOST_LIKE,
};
use signalbox_types::{Head, HeadEnd, Part};

/// Number of prompts remembered per caller.
const MOST_PROMPTS: usize = 16;
/// Number of blocks remembered per prompt: 192 KB of prompt. With half of each hash that is 2 KB per prompt and 32 KB
/// per caller; with all counters 52 KB per caller.
const MOST_BLOCKS: usize = 512;
/// Number of prompts remembered with the same head.
const MOST_OF_HEAD: usize = 6;

/// The recent prompts of one caller.
#[derive(Debug, Default)]
pub struct PromptHistory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    known: Vec<Known>,
    /// Number of prompts so far.
    seen: u64,
    tally: Tally,
}

/// A remembered prompt.
#[derive(Debug, Default)]
struct Known {
    /// The lower halves of its blocks' hashes.
    blocks: Vec<u32>,
    head: Head,
    opening: Opening,
    session: Option<u64>,
    sketch: Sketch,
    /// Its sequence number.
    number: u64,
}

/// The identity of a head: its length in bytes, and the hash of its last whole block.
type Opening = (u64, Option<u32>);

/// The relation of a remembered prompt to a new one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Relation {
    /// One contains the other entirely.
    Contained,
    /// They share the whole head.
    SameHead,
    /// They share less.
    Other,
}

/// The result of comparing a prompt with all remembered ones.
#[derive(Copy, Clone, Debug)]
enum Comparison {
    /// It matches one of them, or is too short to judge.
    Matched,
    /// It matches none.
    Unknown,
    /// It shares this many blocks with a prompt whose head is similar.
    Diverged(usize),
    /// It shares this many blocks with the last prompt of its conversation; both reach at least to this byte.
    Rewritten(usize, u64),
}

impl PromptHistory {
    /// Compares a prompt with the earlier ones, and remembers it. Returns the part in which it diverged, if it did.
    /// Prompts of less than a block are not counted.
    pub fn observe(&self, current: &TrackedPrompt<'_>, look: &impl LazyPrompt) -> Option<Part> {
        let blocks = &current.prompt.blocks[..current.prompt.blocks.len().min(MOST_BLOCKS)];
        if blocks.is_empty() {
            return None;
        }
        // The text is read without holding the lock: all callers without a key share one history.
        let found = self.0.lock().compare(current, blocks, None);
        let found = found.or_else(|| {
            let sketch = look.sketch();
            self.0.lock().compare(current, blocks, Some(sketch))
        })?;
        let departed = match found {
            Comparison::Matched | Comparison::Unknown => None,
            Comparison::Diverged(shared) => {
                Some(Divergence::new(current, shared, current.head.bytes, |place| look.locate(place).part))
            }
            Comparison::Rewritten(shared, end) => {
                let mut goes_on = false;
                let departed = Divergence::new(current, shared, end, |place| {
                    let located = look.locate(place);
                    goes_on = located.goes_on;
                    located.part
                });
                goes_on.then_some(departed)
            }
        };
        self.0.lock().tally.count(departed, !matches!(found, Comparison::Unknown));
        departed.map(|departed| departed.part)
    }

    /// Records an engine's report of cached tokens.
    pub fn answered(&self, hits: CacheReport) {
        self.0.lock().tally.answered(hits);
    }

    /// A report on the caller's recent prompts.
    pub fn report(&self) -> StabilityReport {
        self.0.lock().tally.report()
    }
}

impl State {
    /// Compares a prompt with the earlier ones and remembers it; `None` if the `sketch` of its head is needed first.
    fn compare(&mut self, current: &TrackedPrompt<'_>, blocks: &[u64], sketch: Option<Sketch>) -> Option<Comparison> {
        let mut relations = [(Relation::Other, 0); MOST_PROMPTS];
        for (relation, known) in relations.iter_mut().zip(&self.known) {
            *relation = known.relation_to(current, blocks);
        }
        let relations = &relations[..self.known.len()];
        let alike =
            (0..relations.len()).filter(|at| relations[*at].0 != Relation::Other).max_by_key(|at| relations[*at].1);
        // A shorter head cannot be judged.
        let is_short = current.head.bytes < current.prompt.layout.bytes(1);
        let (sketch, found) = match alike {
            Some(at) => {
                let known = &self.known[at];
                let same_words =
                    known.head == current.head || current.prompt.layout.bytes(relations[at].1) >= sketch::READ as u64;
                let sketch = sketch.or(same_words.then_some(known.sketch))?;
                (sketch, self.rewritten(current, blocks, relations).unwrap_or(Comparison::Matched))
            }
            None if is_short => (Sketch::default(), Comparison::Matched),
            None => (sketch?, self.divergence(current, &sketch?, relations).unwrap_or(Comparison::Unknown)),
        };
        self.remember(current, blocks, sketch, relations);
        Some(found)
    }

    /// The divergence of a prompt whose head is new, if its application is known.
    fn divergence(
        &self,
        current: &TrackedPrompt<'_>,
        sketch: &Sketch,
        relations: &[(Relation, usize)],
    ) -> Option<Comparison> {
        let near = self.known.iter().zip(relations).filter(|(known, _)| sketch.is_like(&known.sketch));
        let shared = near.map(|(_, (_, shared))| *shared).max()?;
        // Without a system prompt, instructions and question are one text: only a divergence in its first quarter
        // counts.
        let unmarked = current.head.end == HeadEnd::Unmarked;
        let from = current.prompt.layout.bytes(shared);
        (!unmarked || from <= current.head.bytes / 4).then_some(Comparison::Diverged(shared))
    }

    /// The divergence of a prompt from its conversation, after its head.
    fn rewritten(
        &self,
        current: &TrackedPrompt<'_>,
        blocks: &[u64],
        relations: &[(Relation, usize)],
    ) -> Option<Comparison> {
        let same = self.known.iter().zip(relations).filter(|(known, _)| known.is_of(current.session));
        let (known, (relations, shared)) = same.max_by_key(|(_, (_, shared))| *shared)?;
        let both = known.blocks.len().min(blocks.len());
        if *relations == Relation::Contained
            || *shared + 1 >= both
            || [known.head.end, current.head.end].contains(&HeadEnd::Breakpoint)
        {
            return None;
        }
        Some(Comparison::Rewritten(*shared, current.prompt.layout.bytes(both)))
    }

    fn remember(
        &mut self,
        current: &TrackedPrompt<'_>,
        blocks: &[u64],
        sketch: Sketch,
        relations: &[(Relation, usize)],
    ) {
        let head = current.head;
        let within = current.prompt.layout.blocks(head.bytes).min(blocks.len());
        let opening = (head.bytes, blocks[..within].last().map(|hash| *hash as u32));
        // The slot to reuse: the conversation's last prompt; else one with the same head, a similar head, or any, once
        // there are enough.
        let all = 0..relations.len();
        let is_whole =
            |at: &usize| relations[*at].0 == Relation::Contained && self.known[*at].blocks.len() <= blocks.len();
        let went_on = all.clone().filter(is_whole).max_by_key(|at| relations[*at].1);
        let has_head = |at: &usize| relations[*at].0 != Relation::Other;
        let is_near = |at: &usize| has_head(at) || sketch.is_like(&self.known[*at].sketch);
        let place = went_on
            .or_else(|| self.spare(all.clone().filter(has_head), MOST_OF_HEAD, opening))
            .or_else(|| self.spare(all.clone().filter(is_near), MOST_LIKE, opening))
            .or_else(|| self.spare(all, MOST_PROMPTS, opening));
        let place = place.unwrap_or_else(|| {
            self.known.push(Known { blocks: Vec::with_capacity(MOST_BLOCKS), ..Known::default() });
            self.known.len() - 1
        });
        self.seen += 1;
        let known = &mut self.known[place];
        known.blocks.clear();
        known.blocks.extend(blocks.iter().map(|hash| *hash as u32));
        (known.head, known.opening, known.session, known.sketch, known.number) =
            (head, opening, current.session, sketch, self.seen);
    }

    /// The prompt to forget if there are `most` of these: the oldest whose head a later one has too, counting the new
    /// one with this `opening`; else the oldest. All variants of a system prompt are therefore remembered as long as
    /// there is space for one prompt of each.
    fn spare(&self, places: impl Iterator<Item = usize> + Clone, most: usize, opening: Opening) -> Option<usize> {
        let is_again = |known: &Known| {
            let is_later = |other: &Known| other.number > known.number && other.opening == known.opening;
            known.opening == opening || self.known.iter().any(is_later)
        };
        let is_full = places.clone().count() >= most;
        places.filter(|_| is_full).min_by_key(|at| (!is_again(&self.known[*at]), self.known[*at].number))
    }
}

impl Known {
    /// Its relation to a new prompt, and the number of shared blocks.
    fn relation_to(&self, current: &TrackedPrompt<'_>, blocks: &[u64]) -> (Relation, usize) {
        let both = self.blocks.len().min(blocks.len());
        // Hashes are chained: if two are equal, so are all before them.
        let (mut shared, mut end) = (0, both);
        while shared < end {
            let middle = usize::midpoint(shared, end);
            if self.blocks[middle] == blocks[middle] as u32 {
                shared = middle + 1;
            } else {
                end = middle;
            }
        }
        // A divergence within the block in which the head ends may lie behind the head.
        let reaches = |head: Head| shared > 0 && current.prompt.layout.bytes(shared + 1) > head.bytes;
        let marked = [self.head.end, current.head.end] == [HeadEnd::Breakpoint; 2];
        let relations = match () {
            () if shared == both => Relation::Contained,
            () if reaches(current.head) || (marked && reaches(self.head)) => Relation::SameHead,
            () => Relation::Other,
        };
        (relations, shared)
    }

    fn is_of(&self, session: Option<u64>) -> bool {
        session.is_some() && self.session == session
    }
}

#[cfg(test)]
mod tests;
