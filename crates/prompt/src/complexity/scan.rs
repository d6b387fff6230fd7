//! Counts words, sentences, cues and signs of code in one pass over a prompt's bytes.
//!
//! Code in fences, quoted lines, documents and reminders between tags, unmarked material (`pasted`), and the middle of
//! very long texts are counted separately: pasted text makes a prompt long, not hard.

use super::{
    lexicon::{self, CUES},
    pasted::{Kind, Pasted, is_item as is_choice_or_item},
    routing::without_routing,
    task::Prose,
    work::{FOLDED, Work},
};

/// Bytes of the user's own text that are scanned at its head and at its tail; the text between is taken as pasted.
const END: usize = 3 << 10;

/// Choices from which a question is one of an exam.
const CHOICES: u32 = 3;

/// The kind of work up to which a task beside long prose is easy.
const EASY: f32 = 0.6;

/// Tags without an end that are searched for one.
const UNCLOSED: usize = 8;

/// The counts of a prompt.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Words that are no cues, variables, calls or indices. These measure length.
    pub(super) words: u32,
    pub(super) sentences: u32,
    pub(super) numbers: u32,
    pub(super) list_items: u32,
    pub(super) trace_lines: u32,
    /// Bytes in fences, and bytes of quoted and pasted text.
    pub(super) fenced: u32,
    pub(super) quoted: u32,
    pub(super) cues: [u32; CUES],
    /// The kind of work, from 0 for the easiest to 1; 0.5 if unknown.
    pub(super) work: f32,
}

/// Counts the features of `text`. Beside an easy task its material counts as pasted; a hard one is as long as its
/// material, and of the kind of work that the task is alone.
pub(super) fn scan(text: &str) -> Counts {
    let bytes = text.as_bytes();
    let pasted = Pasted::of(lines(bytes));
    let Some(task) = prose(bytes, &pasted).task() else { return whole(bytes, &pasted) };
    let mut pass = Pass::new();
    task.into_iter().flat_map(without_routing).for_each(|part| pass.own(part));
    let mut alone = pass.finish();
    if alone.work > EASY {
        return Counts { work: alone.work, ..whole(bytes, &pasted) };
    }
    alone.fenced = lines(bytes).filter(|(_, kind)| *kind == Kind::Fenced).map(|(line, _)| line.len() as u32).sum();
    alone.quoted = (bytes.len() - task[0].len() - task[1].len()) as u32 - alone.fenced;
    alone
}

/// The user's own lines.
fn prose<'a>(text: &'a [u8], pasted: &Pasted) -> Prose<'a> {
    let mut prose = Prose::default();
    for (at, (line, kind)) in lines(text).enumerate() {
        if kind == Kind::Own && !pasted.has(at) {
            prose.add(line, is_choice_or_item(line.trim_ascii()));
        } else {
            prose.part();
        }
    }
    prose
}

/// Counts the features of all of the user's own lines.
fn whole(bytes: &[u8], pasted: &Pasted) -> Counts {
    let is_own = |(at, (_, kind)): (usize, (&[u8], Kind))| kind == Kind::Own && !pasted.has(at);
    let own: usize = lines(bytes).enumerate().filter(|line| is_own(*line)).map(|(_, (line, _))| line.len()).sum();
    let (head, tail) = if own > 2 * END { (END, own - END) } else { (own, own) };
    let mut pass = Pass::new();
    let mut at = 0;
    for (number, (line, kind)) in lines(bytes).enumerate() {
        match kind {
            Kind::Own if pasted.has(number) => pass.counts.quoted += line.len() as u32,
            Kind::Fenced => pass.counts.fenced += line.len() as u32,
            Kind::Quoted => pass.counts.quoted += line.len() as u32,
            Kind::Own => {
                let first = head.saturating_sub(at).min(line.len());
                let last = tail.saturating_sub(at).clamp(first, line.len());
                without_routing(&line[..first]).for_each(|part| pass.own(part));
                pass.counts.quoted += (last - first) as u32;
                without_routing(&line[last..]).for_each(|part| pass.own(part));
                at += line.len();
            }
        }
    }
    pass.finish()
}

/// The lines of a text with their line breaks, and the origin of each.
fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], Kind)> {
    let (mut at, mut fence, mut tag): (usize, Option<Fence>, Option<&[u8]>) = (0, None, None);
    let mut unclosed = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let line = &rest[..memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1)];
        at += line.len();
        let start = line.trim_ascii_start();
        if let Some(open) = fence {
            if open.is_closed_by(start) {
                fence = None;
            }
            return Some((line, Kind::Fenced));
        }
        if let Some(name) = tag {
            if closes(line, name) {
                tag = None;
            }
            return Some((line, Kind::Quoted));
        }
        fence = Fence::opened_by(start);
        if fence.is_some() {
            return Some((line, Kind::Fenced));
        }
        if let Some(name) = opened(start).filter(|_| unclosed < UNCLOSED) {
            if line.trim_ascii_end().ends_with(b">") && closes(line, name) {
                return Some((line, Kind::Quoted));
            }
            if closes(text.get(at..).unwrap_or_default(), name) {
                tag = Some(name);
                return Some((line, Kind::Quoted));
            }
            unclosed += 1;
        }
        let quoted = start.starts_with(b"> ");
        Some((line, if quoted { Kind::Quoted } else { Kind::Own }))
    })
}

/// A Markdown code fence.
#[derive(Copy, Clone)]
struct Fence {
    mark: u8,
    length: usize,
}

impl Fence {
    /// A fence has three marks or more. Text after backticks must not contain another backtick: that is inline code.
    fn opened_by(line: &[u8]) -> Option<Self> {
        let mark = *line.first().filter(|mark| matches!(mark, b'`' | b'~'))?;
        let length = marks(line, mark);
        let fences = length >= 3 && (mark == b'~' || memchr::memchr(b'`', &line[length..]).is_none());
        fences.then_some(Self { mark, length })
    }

    /// A fence is closed by at least as many marks without a language name. Users may continue on the same line.
    fn is_closed_by(self, line: &[u8]) -> bool {
        let length = marks(line, self.mark);
        length >= self.length && line.get(length).is_none_or(|next| !next.is_ascii_alphanumeric())
    }
}

/// Number of `mark` bytes at the start of a line.
fn marks(line: &[u8], mark: u8) -> usize {
    line.iter().take_while(|byte| **byte == mark).count()
}

/// The name of the tag that a line begins with: what stands between it and its end is material.
fn opened(line: &[u8]) -> Option<&[u8]> {
    let name = line.strip_prefix(b"<")?;
    let end = name.iter().position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-'))?;
    (end > 0 && matches!(name[end], b'>' | b' ')).then_some(&name[..end])
}

fn closes(line: &[u8], tag: &[u8]) -> bool {
    memchr::memmem::find_iter(line, b"</").any(|at| {
        line.get(at + 2..at + 2 + tag.len()).is_some_and(|name| name.eq_ignore_ascii_case(tag))
            && line.get(at + 2 + tag.len()) == Some(&b'>')
    })
}

/// The state carried from one stretch of the user's own text to the next.
struct Pass {
    counts: Counts,
    /// Words of the current sentence that count as length.
    in_sentence: u32,
    /// Lines that are choices of an exam.
    choices: u32,
    work: Work,
}

impl Pass {
    fn new() -> Self {
        Self { counts: Counts::default(), in_sentence: 0, choices: 0, work: Work::new() }
    }

    /// Scans a line of the user's own text, or the scanned part of it.
    fn own(&mut self, line: &[u8]) {
        let mut cues = lexicon::find(line).peekable();
        let start = line.trim_ascii_start();
        self.counts.list_items += u32::from(is_item(start));
        self.counts.trace_lines += u32::from(is_trace(start));
        self.choices += u32::from(is_choice(start));
        let digit = |at: usize| line.get(at).is_some_and(u8::is_ascii_digit);
        let mut at = 0;
        while let Some(byte) = line.get(at) {
            at += if byte.is_ascii_alphabetic() || *byte >= 0x80 {
                while let Some((_, kinds)) = cues.next_if(|(cue, _)| cue.end <= at) {
                    self.cue(kinds);
                }
                let in_cue = cues.peek().is_some_and(|(cue, _)| cue.contains(&at));
                self.word(line, at, in_cue)
            } else {
                let next = line.get(at + 1);
                // A number counts at its last digit.
                let goes_on = |next: &u8| next.is_ascii_digit() || matches!(next, b'.' | b',' | b'/') && digit(at + 2);
                self.counts.numbers += u32::from(digit(at) && !next.is_some_and(goes_on));
                let ends = next.is_none_or(|next| next.is_ascii_whitespace() || *next == b'"');
                if *byte == b'\n' || matches!(byte, b'.' | b'!' | b'?') && ends {
                    self.end_sentence();
                }
                1
            };
        }
        cues.for_each(|(_, kinds)| self.cue(kinds));
    }

    fn cue(&mut self, mut kinds: u32) {
        while kinds != 0 {
            self.counts.cues[kinds.trailing_zeros() as usize] += 1;
            kinds &= kinds - 1;
        }
    }

    /// Counts a word and returns its length in bytes. In scripts without spaces, two characters count as a word. Words
    /// counted as a cue, as mathematics or as code do not count as length too.
    fn word(&mut self, line: &[u8], at: usize, cue: bool) -> usize {
        let (mut hash, mut unspaced, mut end) = (0xCBF2_9CE4_8422_2325_u64, 0, at);
        while let Some(byte) = line.get(end) {
            let folded = FOLDED[usize::from(*byte)];
            if folded == 0 {
                break;
            }
            hash = (hash ^ u64::from(folded)).wrapping_mul(0x0100_0000_01B3);
            unspaced += u32::from(matches!(byte, 0xE3..=0xEF));
            end += 1;
        }
        let word = &line[at..end];
        // Typographic quotation marks.
        if let [0xE2, 0x80, _] = word {
            return word.len();
        }
        self.work.read(word, hash);
        let variable = word.len() == 1 && !matches!(word[0], b'a' | b'A' | b'I' | b'i');
        // A call or an index as in code, or a LaTeX command.
        let next = line.get(end);
        let command = at > 0 && line[at - 1] == b'\\';
        let code = matches!(next, Some(b'(' | b'[')) || command;
        if !(cue || variable || code) {
            let words = if unspaced > 2 { unspaced / 2 } else { 1 };
            self.counts.words += words;
            self.in_sentence += words;
        }
        word.len()
    }

    fn end_sentence(&mut self) {
        self.counts.sentences += u32::from(self.in_sentence > 0);
        self.in_sentence = 0;
    }

    fn finish(mut self) -> Counts {
        self.end_sentence();
        // The words of an exam's question and of its choices name the subject, not the work, which is to choose.
        self.counts.work = if self.choices < CHOICES { self.work.level() } else { 0.5 };
        self.counts
    }
}

/// True if a line begins like a list item: `-`, `*`, `•`, or a number with a point.
fn is_item(line: &[u8]) -> bool {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match line.get(digits..) {
        Some([b'.' | b')', b' ', ..]) => (1..=3).contains(&digits),
        Some([b'-' | b'*', b' ', ..] | [0xE2, 0x80, 0xA2, ..]) => digits == 0,
        _ => false,
    }
}

/// True if a line begins like a choice of an exam: `A.`, `A)`, `A:` or `(A)`.
fn is_choice(line: &[u8]) -> bool {
    matches!(line, [b'A'..=b'J', b'.' | b')' | b':', b' ', ..] | [b'(', b'A'..=b'J', b')', ..])
}

/// True if a line belongs to a stack trace of a common language.
fn is_trace(line: &[u8]) -> bool {
    let starts = |prefix: &str| line.starts_with(prefix.as_bytes());
    starts("Traceback (")
        || starts("File \"")
        || starts("at ") && memchr::memchr(b'(', line).is_some() && memchr::memchr(b':', line).is_some()
        || starts("thread '")
        || starts("goroutine ")
        || starts("Caused by:")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_sentences_and_numbers_are_counted() {
        let found = scan("Jan has 3 pets, and Marcia's dog cost $4.50. How many pets does Jan have?");
        assert_eq!((found.words, found.sentences, found.numbers), (11, 2, 2), "`how many` is a cue");
        assert_eq!(scan("Take f(x) = \\frac{1}{y} + z.").words, 1, "variables and commands are none");
    }

    #[test]
    fn pasted_text_is_counted_separately() {
        let own = scan("Fix this.\nThanks.\n");
        let text = "Fix this.\n```rust\nfn prove() { derive(1 + 2); }\n```\n> prove that\n<document index=\"1\">\nprove it\n\
            </document>\n<system-reminder>prove</system-reminder>\nThanks.\n";
        let found = scan(text);
        assert_eq!((found.words, found.cues, found.work), (own.words, own.cues, own.work));
        assert_eq!(found.fenced as usize, "```rust\nfn prove() { derive(1 + 2); }\n```\n".len());
        assert_eq!(found.fenced + found.quoted, (text.len() - "Fix this.\nThanks.\n".len()) as u32);
        for not_pasted in
            ["```max(a)``` is ours.\nSuppose it.", "<context >\nSuppose it.", "<file>\n<file>\nSuppose it."]
        {
            assert_eq!(scan(not_pasted).cues[lexicon::Cue::Condition as usize], 1, "{not_pasted}");
        }
        assert_eq!(scan("````\n```\nsuppose\n````\n~~~\nsuppose").cues, [0; CUES]);
        assert_eq!(scan("```\n```rust\n``` Go on.\nSuppose it.").cues[lexicon::Cue::Condition as usize], 1);
        let long = scan(&format!("Sum up. {} What follows?", "Lorem ipsum dolor. ".repeat(2_000)));
        assert_eq!(long.sentences, scan("Sum up.").sentences + long.words / 3);
        assert!(long.quoted > 30_000 && long.words < 1_200);
    }

    #[test]
    fn words_of_an_exam_do_not_count_as_its_kind_of_work() {
        let question = "Prove the theorem: which of these follows?\n";
        assert!(scan(question).work > 0.6);
        for choices in ["A. one\nB. two\nC. three\n", "(A) one\n(B) two\n(C) three", "A) 1\nB) 2\nC) 3"] {
            assert!((scan(&format!("{question}{choices}")).work - 0.5).abs() < 1e-6, "{choices}");
        }
    }

    #[test]
    fn two_characters_count_as_a_word_in_scripts_without_spaces() {
        assert_eq!(scan("请证明这个定理是正确的。").words, 6);
        assert_eq!(scan("Où est l’été ?").words, 3);
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "(?s)([`~<>/ \n.a1é中$'{}\\\\^_\\[\\]*]|document|system-reminder|frac){0,200}") {
            let found = scan(&text);
            prop_assert!(found.words as usize <= text.len() && (found.fenced + found.quoted) as usize <= text.len());
            prop_assert!((0.0..=1.0).contains(&found.work));
        }
    }
}
