//! Counts words, sentences, numbers, signs and lines in one pass over a prompt's bytes.
//!
//! Code in fences, quoted lines, documents and reminders between tags, unmarked material (`pasted`), and the middle of
//! very long texts are counted separately: pasted text makes a prompt long, not hard.

use super::{
    latex::Groups,
    lexicon::{self, CUES, is_letter},
    pasted::{Kind, Pasted},
};

/// Bytes of the user's own text that are scanned at its head and at its tail; the text between is taken as pasted.
const END: usize = 3 << 10;

/// Bits of the sketch that counts distinct words.
const BITS: usize = 4096;

/// Tags whose content is not the user's own text.
const TAGS: [&[u8]; 8] =
    [b"system-reminder", b"document", b"documents", b"context", b"file", b"files", b"attachment", b"search_results"];

/// Word bytes in lower case; 0 for all other bytes.
const FOLDED: [u8; 256] = {
    let (mut table, mut at) = ([0; 256], 0);
    while at < table.len() {
        let byte = at as u8;
        if byte.is_ascii_alphabetic() || byte >= 0x80 || byte == b'\'' {
            table[at] = byte.to_ascii_lowercase();
        }
        at += 1;
    }
    table
};

/// The counts of a prompt.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Words that no other count includes: no cues, variables, calls, indices or LaTeX commands. These measure length.
    pub(super) words: u32,
    pub(super) all_words: u32,
    pub(super) letters: u32,
    pub(super) sentences: u32,
    pub(super) longest_sentence: u32,
    pub(super) distinct_words: u32,
    /// Of eight letters or more.
    pub(super) long_words: u32,
    /// Of twelve or more.
    pub(super) very_long_words: u32,
    pub(super) capitalised: u32,
    pub(super) single_letters: u32,
    pub(super) numbers: u32,
    /// Of three digits or more.
    pub(super) large_numbers: u32,
    /// Decimals, percentages, fractions, amounts of money.
    pub(super) fractions: u32,
    pub(super) commas: u32,
    pub(super) clauses: u32,
    pub(super) quotes: u32,
    pub(super) questions: u32,
    pub(super) brackets: u32,
    pub(super) operators: u32,
    pub(super) latex: u32,
    pub(super) code_marks: u32,
    pub(super) list_items: u32,
    /// Letters of scripts other than Latin.
    pub(super) foreign: u32,
    pub(super) trace_lines: u32,
    /// Bytes in fences, and bytes of quoted and pasted text.
    pub(super) fenced: u32,
    pub(super) quoted: u32,
    pub(super) cues: [u32; CUES],
}

/// Counts the features of `text`.
pub(super) fn scan(text: &str) -> Counts {
    let bytes = text.as_bytes();
    let pasted = Pasted::of(lines(bytes));
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
                pass.own(&line[..first]);
                pass.counts.quoted += (last - first) as u32;
                pass.own(&line[last..]);
                at += line.len();
            }
        }
    }
    pass.finish()
}

/// The lines of a text with their line breaks, and the origin of each.
fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], Kind)> {
    let (mut at, mut fence, mut tag): (usize, Option<Fence>, Option<&[u8]>) = (0, None, None);
    // Tags without an end tag; each is searched for only once.
    let mut unclosed = [false; TAGS.len()];
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
        if let Some(which) = opened(start) {
            let name = TAGS[which];
            if !closes(line, name) && !unclosed[which] {
                unclosed[which] = !closes(&text[at..], name);
                tag = Some(name).filter(|_| !unclosed[which]);
            }
            return Some((line, Kind::Quoted));
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

/// The index in [`TAGS`] of the tag that a line begins with.
fn opened(line: &[u8]) -> Option<usize> {
    let name = line.strip_prefix(b"<")?;
    TAGS.iter().position(|tag| {
        let head = name.get(..tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag));
        head && matches!(name.get(tag.len()), Some(b'>' | b' '))
    })
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
    seen: [u64; BITS / 64],
    in_sentence: u32,
    plain_in_sentence: u32,
    /// The LaTeX groups of the current line.
    groups: Groups,
}

impl Pass {
    fn new() -> Self {
        Self {
            counts: Counts::default(),
            seen: [0; BITS / 64],
            in_sentence: 0,
            plain_in_sentence: 0,
            groups: Groups::default(),
        }
    }

    /// Scans a line of the user's own text, or the scanned part of it.
    fn own(&mut self, line: &[u8]) {
        let mut cues = lexicon::find(line).peekable();
        self.groups = Groups::default();
        let start = line.trim_ascii_start();
        self.counts.list_items += u32::from(is_item(start));
        self.counts.trace_lines += u32::from(is_trace(start));
        let mut at = 0;
        while let Some(byte) = line.get(at) {
            at += match byte {
                b'0'..=b'9' => self.number(line, at),
                byte if byte.is_ascii_alphabetic() || *byte >= 0x80 => {
                    while let Some((_, kinds)) = cues.next_if(|(cue, _)| cue.end <= at) {
                        self.cue(kinds);
                    }
                    let in_cue = cues.peek().is_some_and(|(cue, _)| cue.contains(&at));
                    self.word(line, at, in_cue)
                }
                _ => {
                    self.sign(line, at);
                    1
                }
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
        let (mut hash, mut foreign, mut unspaced, mut end) = (0xCBF2_9CE4_8422_2325_u64, 0, 0, at);
        while let Some(byte) = line.get(end) {
            let folded = FOLDED[usize::from(*byte)];
            if folded == 0 {
                break;
            }
            hash = (hash ^ u64::from(folded)).wrapping_mul(0x0100_0000_01B3);
            // Greek, Cyrillic and later scripts start with these bytes; accented Latin lies below them, punctuation
            // starts at 0xE2.
            foreign += u32::from(matches!(byte, 0xCE..=0xE1));
            unspaced += u32::from(matches!(byte, 0xE3..=0xEF));
            end += 1;
        }
        let word = &line[at..end];
        if let [0xE2, 0x80, _] = word {
            self.counts.quotes += 1;
            return word.len();
        }
        self.counts.foreign += foreign + unspaced;
        let words = if unspaced > 2 { unspaced / 2 } else { 1 };
        self.in_sentence += words;
        let counts = &mut self.counts;
        counts.all_words += words;
        counts.letters += word.len() as u32;
        let latin = unspaced == 0;
        counts.long_words += u32::from(latin && word.len() >= 8);
        counts.very_long_words += u32::from(latin && word.len() >= 12);
        counts.capitalised += u32::from(word[0].is_ascii_uppercase() && self.in_sentence > 1);
        let variable = word.len() == 1 && !matches!(word[0], b'a' | b'A' | b'I' | b'i');
        counts.single_letters += u32::from(variable);
        // A call or an index as in code, or a LaTeX command. A one-letter function belongs to a formula.
        let next = line.get(at + word.len());
        let command = at > 0 && line[at - 1] == b'\\';
        counts.code_marks += u32::from(next == Some(&b'(') && word.len() > 1 && !command);
        let code = matches!(next, Some(b'(' | b'[')) || command;
        if !(cue || variable || code) {
            counts.words += words;
            self.plain_in_sentence += words;
            // The upper bits of a product are well mixed.
            let bit = (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % BITS;
            self.seen[bit / 64] |= 1 << (bit % 64);
        }
        word.len()
    }

    fn number(&mut self, line: &[u8], at: usize) -> usize {
        let rest = &line[at..];
        let digit = |at: usize| rest.get(at).is_some_and(u8::is_ascii_digit);
        let (mut end, mut digits, mut fraction) = (0, 0, at > 0 && line[at - 1] == b'$');
        while digit(end) || matches!(rest.get(end), Some(b'.' | b',' | b'/')) && digit(end + 1) {
            digits += u32::from(digit(end));
            fraction |= matches!(rest[end], b'.' | b'/');
            end += 1;
        }
        fraction |= rest.get(end) == Some(&b'%');
        self.counts.numbers += 1;
        self.counts.large_numbers += u32::from(digits >= 3);
        self.counts.fractions += u32::from(fraction);
        end
    }

    fn sign(&mut self, line: &[u8], at: usize) {
        let counts = &mut self.counts;
        let next = line.get(at + 1).copied();
        let previous = at.checked_sub(1).map(|at| line[at]);
        match line[at] {
            b'.' | b'!' | b'?' if next.is_none_or(|next| next.is_ascii_whitespace() || next == b'"') => {
                counts.questions += u32::from(line[at] == b'?');
                self.end_sentence();
            }
            b'\n' => self.end_sentence(),
            b',' => counts.commas += 1,
            b':' | b';' => {
                counts.clauses += 1;
                let code = line[at] == b';' && next.is_none_or(|next| next == b'\n') || next == Some(b':');
                counts.code_marks += u32::from(code || previous == Some(b')'));
            }
            b'"' | b'\'' => counts.quotes += 1,
            b'(' | b')' | b'[' | b']' => counts.brackets += 1,
            b'{' | b'}' => {
                counts.brackets += 1;
                counts.code_marks += u32::from(!self.groups.take(line, at));
            }
            b'\\' => counts.latex += u32::from(next.is_some_and(|next| next.is_ascii_alphabetic())),
            b'$' => counts.latex += u32::from(next.is_some_and(|next| next.is_ascii_alphabetic() || next == b'\\')),
            b'_' => {
                // After a single letter it belongs to a formula: `a_n`.
                let name = at >= 2 && line[at - 2..at].iter().copied().all(is_letter);
                counts.code_marks += u32::from(name && next.is_some_and(is_letter));
            }
            b'=' | b'+' | b'^' | b'<' | b'>' | b'*' | b'/' | b'|' => {
                counts.operators += 1;
                let code = matches!(
                    (line[at], next),
                    (b'=', Some(b'=' | b'>')) | (b'/', Some(b'/' | b'*')) | (b'>', Some(b'>')) | (b'|', Some(b'|'))
                );
                counts.code_marks += u32::from(code || line[at] == b'>' && previous == Some(b'-'));
            }
            _ => {}
        }
    }

    fn end_sentence(&mut self) {
        if self.plain_in_sentence > 0 {
            self.counts.sentences += 1;
            self.counts.longest_sentence = self.counts.longest_sentence.max(self.plain_in_sentence);
        }
        (self.in_sentence, self.plain_in_sentence) = (0, 0);
    }

    fn finish(mut self) -> Counts {
        self.end_sentence();
        // Linear counting (Whang et al. 1990): the number of distinct words that leaves this many bits clear.
        let clear: u32 = self.seen.iter().map(|bits| bits.count_zeros()).sum();
        let share = f64::from(clear.max(1)) / BITS as f64;
        self.counts.distinct_words = ((-share.ln() * BITS as f64).round() as u32).min(self.counts.words);
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
        let found = scan("Jan has 3 pets, and Marcia's cost $4.50. How many does Jan have?");
        assert_eq!((found.all_words, found.sentences, found.questions), (11, 2, 1));
        assert_eq!((found.words, found.longest_sentence), (8, 5), "`cost`, `how many` are cues");
        assert_eq!((found.numbers, found.fractions, found.commas, found.capitalised), (2, 1, 1, 2));
        assert_eq!(found.distinct_words, 7);
    }

    #[test]
    fn pasted_text_is_counted_separately() {
        let own = scan("Fix this.\nThanks.\n");
        let text = "Fix this.\n```rust\nfn prove() { derive(1 + 2); }\n```\n> prove that\n<document index=\"1\">\nprove it\n\
            </document>\n<system-reminder>prove</system-reminder>\nThanks.\n";
        let found = scan(text);
        assert_eq!((found.words, found.cues, found.code_marks), (own.words, own.cues, 0));
        assert_eq!(found.fenced as usize, "```rust\nfn prove() { derive(1 + 2); }\n```\n".len());
        assert_eq!(found.fenced + found.quoted, (text.len() - "Fix this.\nThanks.\n".len()) as u32);
        for not_pasted in ["```max(a)``` is ours.\nProve it.", "<context >\nProve it.", "<file>\n<file>\nProve it."] {
            assert_eq!(scan(not_pasted).cues[lexicon::Cue::Proof as usize], 1, "{not_pasted}");
        }
        assert_eq!(scan("````\n```\nprove\n````\n~~~\nprove").cues, [0; CUES]);
        assert_eq!(scan("```\n```rust\n``` Go on.\nProve it.").cues[lexicon::Cue::Proof as usize], 1);
        let long = scan(&format!("Sum up. {} What follows?", "Lorem ipsum dolor. ".repeat(2_000)));
        assert_eq!((long.questions, long.cues[lexicon::Cue::Logic as usize]), (1, 1));
        assert!(long.quoted > 30_000 && long.words < 1_200);
    }

    #[test]
    fn code_mathematics_and_other_scripts_are_recognised() {
        let code = scan("def fit(row_1):\n    return a == b\n");
        assert!(code.code_marks >= 4, "{code:?}");
        let maths = scan(r"Let $x^2 + \frac{1}{2} = 0$.");
        assert!(maths.latex >= 2 && maths.operators >= 3, "{maths:?}");
        let maths = scan(r"\sqrt[3]{x_{i+1}} + \frac{\sin(\pi)}{e^{-t}} = \mathbf{0}, with \{a\}.");
        assert_eq!(maths.code_marks, 0, "{maths:?}");
        assert_eq!(scan("Let f(x) = a_n x + P(A), x_{k+1} = g(y).").code_marks, 0);
        assert_eq!(scan("fit(x), line_no").code_marks, 2);
        assert_eq!(scan("if (a) { b = {}; } else {b}").code_marks, 6);
        assert_eq!(scan("`${path}`, {\"a\": {\"b\": 1}}").code_marks, 6);
        let chinese = scan("请证明这个定理是正确的。");
        assert!(chinese.foreign >= 11 && chinese.words >= 5, "{chinese:?}");
        assert_eq!(scan("Où est l’été ?").foreign, 0);
        assert_eq!(scan("Что это").foreign, 6);
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "(?s)([`~<>/ \n.a1é中$'{}\\\\^_\\[\\]*]|document|system-reminder|frac){0,200}") {
            let found = scan(&text);
            prop_assert!(found.distinct_words <= found.words && (found.fenced + found.quoted) as usize <= text.len());
        }
    }
}
