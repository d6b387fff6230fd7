//! How one caller's prompts begin: which of them depart early from those before, where engines' prefix caches would have had the rest, and in
//! which part. Only hashes are kept.
//!
//! A prompt is compared with up to sixteen earlier ones of its caller, by the chained hashes of its blocks, so where it departs is known to a
//! block. It begins alike where one of them is all in it (the conversation went on), or has its whole head (another conversation of the same
//! application). Else, where one of them has most of its head's words, it has departed: something that changes stands before what stays the
//! same. Where none has, it is of another application, and nothing is said. After the head only prompts of the same conversation are compared,
//! where its client names it: whether an earlier message is sent differently than before.
//!
//! Where clients set breakpoints for their provider's cache (`cache_control`), the head ends at the first of them; and since breakpoints move on
//! with a conversation, and are bytes of the prompt, what comes after is not judged.

mod begun;
mod sketch;
mod tally;

use std::sync::Mutex;

use self::{
    begun::MOST_LIKE,
    tally::{Departed, Tally},
};
pub use self::{
    begun::{Begun, Look},
    sketch::Sketch,
    tally::{Departures, Habit, Hits},
};
use crate::{
    measure::lock,
    types::{Head, HeadEnd, Part},
};

/// Prompts that are remembered of a caller.
const MOST_PROMPTS: usize = 16;
/// Of each, so many blocks: 192 KB. With half of each hash that is 2 KB, and 32 KB a caller; with all that is counted of one it is 52 KB.
const MOST_BLOCKS: usize = 512;
/// Of one head so many are remembered.
const MOST_OF_HEAD: usize = 6;

/// How the prompts of one caller begin.
#[derive(Debug, Default)]
pub struct Habits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    known: Vec<Known>,
    /// Prompts so far.
    seen: u64,
    tally: Tally,
}

/// A prompt that is remembered.
#[derive(Debug, Default)]
struct Known {
    /// The lower halves of its blocks' hashes.
    blocks: Vec<u32>,
    head: Head,
    opening: Opening,
    session: Option<u64>,
    sketch: Sketch,
    /// Which prompt it was.
    number: u64,
}

/// By which heads are told from one another: how many bytes they have, and the hash up to the last whole block of them.
type Opening = (u64, Option<u32>);

/// What a remembered prompt is to a new one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Kin {
    /// All of it is in the new one, or the new one in it.
    Same,
    /// They have the whole head in common.
    Alike,
    /// They have less in common.
    Other,
}

/// What a prompt is to all that are remembered.
#[derive(Copy, Clone, Debug)]
enum Found {
    /// It begins like one of them, or is too short to say.
    Alike,
    /// It begins like none.
    New,
    /// It has so many blocks in common with one whose head is much the same.
    Departed(usize),
    /// It has so many blocks in common with the last one of its conversation, where that or it goes on to this byte.
    Rewritten(usize, u64),
}

impl Habits {
    /// Compares a prompt with those before it, and remembers it. Gives the part in which it departed, if it did. Prompts of less than a block
    /// are not counted.
    pub fn see(&self, begun: &Begun<'_>, look: &impl Look) -> Option<Part> {
        let blocks = &begun.prompt.blocks[..begun.prompt.blocks.len().min(MOST_BLOCKS)];
        if blocks.is_empty() {
            return None;
        }
        // Texts are read while nobody has to wait for it: all callers without a key are one.
        let found = lock(&self.0).compare(begun, blocks, None);
        let found = found.or_else(|| {
            let sketch = look.sketch();
            lock(&self.0).compare(begun, blocks, Some(sketch))
        })?;
        let departed = match found {
            Found::Alike | Found::New => None,
            Found::Departed(shared) => {
                Some(Departed::new(begun, shared, begun.head.bytes, |place| look.locate(place).part))
            }
            Found::Rewritten(shared, end) => {
                let mut goes_on = false;
                let departed = Departed::new(begun, shared, end, |place| {
                    let located = look.locate(place);
                    goes_on = located.goes_on;
                    located.part
                });
                goes_on.then_some(departed)
            }
        };
        lock(&self.0).tally.count(departed, !matches!(found, Found::New));
        departed.map(|departed| departed.part)
    }

    /// An engine reports how much of a prompt it had cached.
    pub fn answered(&self, hits: Hits) {
        lock(&self.0).tally.answered(hits);
    }

    /// How the caller's prompts began lately.
    pub fn told(&self) -> Habit {
        lock(&self.0).tally.told()
    }
}

impl State {
    /// What a prompt is to those before it, which it is then one of; `None` where that cannot be told without the `sketch` of its head.
    fn compare(&mut self, begun: &Begun<'_>, blocks: &[u64], sketch: Option<Sketch>) -> Option<Found> {
        let mut kin = [(Kin::Other, 0); MOST_PROMPTS];
        for (kin, known) in kin.iter_mut().zip(&self.known) {
            *kin = known.kin(begun, blocks);
        }
        let kin = &kin[..self.known.len()];
        let alike = (0..kin.len()).filter(|at| kin[*at].0 != Kin::Other).max_by_key(|at| kin[*at].1);
        // Of a shorter head nothing can be told.
        let is_short = begun.head.bytes < begun.prompt.layout.bytes(1);
        let (sketch, found) = match alike {
            Some(at) => {
                let known = &self.known[at];
                let same_words =
                    known.head == begun.head || begun.prompt.layout.bytes(kin[at].1) >= sketch::READ as u64;
                let sketch = sketch.or(same_words.then_some(known.sketch))?;
                (sketch, self.rewritten(begun, blocks, kin).unwrap_or(Found::Alike))
            }
            None if is_short => (Sketch::default(), Found::Alike),
            None => (sketch?, self.departed(begun, &sketch?, kin).unwrap_or(Found::New)),
        };
        self.remember(begun, blocks, sketch, kin);
        Some(found)
    }

    /// Where a prompt departs whose head nobody has, if it is of an application that is known.
    fn departed(&self, begun: &Begun<'_>, sketch: &Sketch, kin: &[(Kin, usize)]) -> Option<Found> {
        let near = self.known.iter().zip(kin).filter(|(known, _)| sketch.is_like(&known.sketch));
        let shared = near.map(|(_, (_, shared))| *shared).max()?;
        // Without a system prompt, what stays the same and what is asked are one text: only what is behind counts against it.
        let untold = begun.head.end == HeadEnd::Unmarked;
        let from = begun.prompt.layout.bytes(shared);
        (!untold || from <= begun.head.bytes / 4).then_some(Found::Departed(shared))
    }

    /// Where a conversation was changed that is known, behind its head.
    fn rewritten(&self, begun: &Begun<'_>, blocks: &[u64], kin: &[(Kin, usize)]) -> Option<Found> {
        let same = self.known.iter().zip(kin).filter(|(known, _)| known.is_of(begun.session));
        let (known, (kin, shared)) = same.max_by_key(|(_, (_, shared))| *shared)?;
        let both = known.blocks.len().min(blocks.len());
        if *kin == Kin::Same || *shared + 1 >= both || [known.head.end, begun.head.end].contains(&HeadEnd::Breakpoint) {
            return None;
        }
        Some(Found::Rewritten(*shared, begun.prompt.layout.bytes(both)))
    }

    fn remember(&mut self, begun: &Begun<'_>, blocks: &[u64], sketch: Sketch, kin: &[(Kin, usize)]) {
        let head = begun.head;
        let within = begun.prompt.layout.blocks(head.bytes).min(blocks.len());
        let opening = (head.bytes, blocks[..within].last().map(|hash| *hash as u32));
        // The conversation's last prompt, else one of its head, of what is like it, or of all, where there are enough.
        let all = 0..kin.len();
        let is_whole = |at: &usize| kin[*at].0 == Kin::Same && self.known[*at].blocks.len() <= blocks.len();
        let went_on = all.clone().filter(is_whole).max_by_key(|at| kin[*at].1);
        let has_head = |at: &usize| kin[*at].0 != Kin::Other;
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
            (head, opening, begun.session, sketch, self.seen);
    }

    /// The prompt to forget where there are so many: the oldest whose head a later one has, the new one with this `opening` included; else the
    /// oldest. So the variants of a system prompt are all remembered, as long as there is room for one prompt of each.
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
    /// What it is to a new prompt, and how many blocks they share.
    fn kin(&self, begun: &Begun<'_>, blocks: &[u64]) -> (Kin, usize) {
        let both = self.blocks.len().min(blocks.len());
        // Hashes are chained: where two are equal, all before them are.
        let (mut shared, mut end) = (0, both);
        while shared < end {
            let middle = usize::midpoint(shared, end);
            if self.blocks[middle] == blocks[middle] as u32 {
                shared = middle + 1;
            } else {
                end = middle;
            }
        }
        // What departs within the block in which the head ends may well do so behind it.
        let reaches = |head: Head| shared > 0 && begun.prompt.layout.bytes(shared + 1) > head.bytes;
        let marked = [self.head.end, begun.head.end] == [HeadEnd::Breakpoint; 2];
        let kin = match () {
            () if shared == both => Kin::Same,
            () if reaches(begun.head) || (marked && reaches(self.head)) => Kin::Alike,
            () => Kin::Other,
        };
        (kin, shared)
    }

    fn is_of(&self, session: Option<u64>) -> bool {
        session.is_some() && self.session == session
    }
}

#[cfg(test)]
mod tests;
