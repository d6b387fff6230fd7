//! Separates a prompt's question from material pasted beside it without marks, by the shape of its lines.
//!
//! Records (logs, tables, JSON, code, diffs, traces, the head of a mail) are lines full of digits and signs, or indented,
//! several in a row. Prose (an article, a mail) has no such shape; there the task is told apart (`task`).

/// Lines that are told apart; later ones are as the last of these.
const LINES: usize = 2048;

/// The fewest bytes that count as pasted.
const PASTED: usize = 600;

/// The origin of a line, by its marks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Own,
    Fenced,
    Quoted,
}

/// The pasted lines of a text.
pub(super) struct Pasted {
    records: [u64; LINES / 64],
}

impl Pasted {
    /// Tells the `lines` of a text apart.
    pub(super) fn of<'a>(lines: impl Iterator<Item = (&'a [u8], Kind)>) -> Self {
        let mut found = Self { records: [0; LINES / 64] };
        // The run of records: the numbers of its first two lines, and its length.
        let (mut run, mut length, mut blank) = ([0; 2], 0, false);
        let mut pasted = 0;
        for (at, (line, kind)) in lines.enumerate().take(LINES) {
            let text = line.trim_ascii();
            if text.is_empty() || kind != Kind::Own {
                blank = true;
                continue;
            }
            // A line without a blank line before it belongs to the records above.
            if !is_item(text) && (is_record(line) || length >= 2 && !blank) {
                if length >= 2 {
                    for before in &run {
                        found.mark(*before);
                    }
                    found.mark(at);
                } else {
                    run[length] = at;
                }
                length += 1;
                pasted += line.len();
            } else {
                length = 0;
            }
            blank = false;
        }
        // A short table or program is part of the question.
        if pasted < PASTED {
            found.records = [0; LINES / 64];
        }
        found
    }

    /// True if line `at` is pasted.
    pub(super) fn has(&self, at: usize) -> bool {
        let place = at.min(LINES - 1);
        self.records[place / 64] >> (place % 64) & 1 == 1
    }

    fn mark(&mut self, at: usize) {
        self.records[at / 64] |= 1 << (at % 64);
    }
}

/// True if a line has the shape of a record: indented, or more than one byte in seven a digit or a sign that prose does
/// not use, or a field with a name. Formulas are none.
fn is_record(line: &[u8]) -> bool {
    if memchr::memchr2(b'\\', b'$', line).is_some() {
        return false;
    }
    let marks = line.iter().filter(|byte| byte.is_ascii_digit() || b"{}[]()<>=_/|+*;:@#&\"-".contains(byte)).count();
    let name = memchr::memchr(b':', line).is_some_and(|end| {
        line.get(end + 1) == Some(&b' ')
            && (2..24).contains(&end)
            && line[..end].iter().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_'))
    });
    line.starts_with(b"  ") || line.starts_with(b"\t") || 7 * marks > line.len() || name
}

/// True if a line is a choice or a list item: the question's own.
pub(super) fn is_item(line: &[u8]) -> bool {
    matches!(line, [b'A'..=b'Z' | b'a'..=b'j' | b'0'..=b'9', b'.' | b')' | b':', ..] | [b'(', _, b')', ..] | [b'-' | b'*', b' ', ..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::scan::scan, *};

    const LOG: &str = "2024-05-10T10:17:35.4931Z ERROR api[4931] cannot derive the key: expected 32 bytes, got 17\n";
    const ARTICLE: &str = "The port, which for two centuries had handled most of the coffee imported to the continent, \
        announced that it would lease its northern pier to a foreign operator for thirty years, because traffic fell.\n\n";

    /// The lines of a text that are not pasted.
    fn own(text: &str) -> Vec<&str> {
        let pasted = Pasted::of(text.lines().map(|line| (line.as_bytes(), Kind::Own)));
        text.lines()
            .enumerate()
            .filter(|(at, line)| !pasted.has(*at) && !line.is_empty())
            .map(|(_, line)| line)
            .collect()
    }

    #[test]
    fn a_question_is_found_before_and_after_what_is_pasted() {
        for pasted in [LOG.repeat(250), "  \"key\": 1,\n".repeat(60), "a,17,2024-01-01\n".repeat(60)] {
            assert_eq!(own(&format!("Why?\n\n{pasted}")), ["Why?"], "{pasted:.80}");
            assert_eq!(own(&format!("{pasted}\nWhy?")), ["Why?"], "{pasted:.80}");
        }
    }

    #[test]
    fn short_material_choices_and_own_prose_belong_to_the_question() {
        let choices = format!("{}A. {ARTICLE}B. {ARTICLE}C. 3\nD. 4\nAnswer:\n", ARTICLE.repeat(4));
        for text in [LOG.repeat(3), choices] {
            assert_eq!(own(&text).len(), text.lines().filter(|line| !line.is_empty()).count(), "{text:.80}");
        }
    }

    #[test]
    fn pasted_bytes_are_counted_and_move_nothing_else() {
        let found = scan(&format!("Which port?\n\n{}", LOG.repeat(250)));
        assert_eq!((found.words, found.numbers), (2, 0));
        assert_eq!(found.quoted as usize, 250 * LOG.len());
    }

    proptest! {
        #[test]
        fn arbitrary_lines_do_not_panic(text in "([a-z ,.]{0,90}|[0-9:{}\" -]{0,60}|\t|[A-D]\\. |\n){0,300}") {
            prop_assert!(own(&text).len() <= text.lines().count());
        }
    }
}
