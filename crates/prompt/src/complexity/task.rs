//! Finds the task of a prompt whose remaining prose is the material of that task: "Translate to French:" before an
//! article, "tl;dr" after a mail, a question around a long quotation.
//!
//! A task stands at an end of the text, is short beside the rest, and says so: it ends with a colon or as a question,
//! points at the material ("this", "the following"), or has a paragraph of its own. The prose of an asker who
//! describes an own matter and then asks about it ("How should we proceed?") is no material but the task itself.

/// The longest task and the shortest material, in bytes.
const LONGEST: usize = 300;
const MATERIAL: usize = 600;

/// Words that point at material.
const POINTERS: &str = "this these following below above text article diesen dieses diese folgenden text artikel ce cet \
    cette suivant texte este esta siguiente texto questo questa testo seguente этот эту это следующий текст";
/// The same in scripts without spaces.
const UNSPACED: [&str; 6] = ["这", "以下", "下面", "この", "次の", "上記"];
/// Words of an asker who describes an own matter or wants advice on it.
const OWN: &str = "i we my our i'm i've we're advise advice ideas help thoughts ich wir mein meine unser unsere je nous mon \
    notre yo mi nosotros nuestro nuestra я мы мой моя наш";

/// The user's own lines, as one task and its material.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Prose<'a> {
    first: &'a [u8],
    last: &'a [u8],
    /// True if the first line, or the last one, is a paragraph of its own.
    first_apart: bool,
    last_apart: bool,
    bytes: usize,
    longest: usize,
    lines: usize,
    items: usize,
    blank: bool,
}

impl<'a> Prose<'a> {
    /// Adds an own line.
    pub(super) fn add(&mut self, line: &'a [u8], item: bool) {
        let text = line.trim_ascii();
        if text.is_empty() {
            self.part();
            return;
        }
        if self.lines == 0 {
            self.first = text;
        }
        (self.last, self.last_apart, self.blank) = (text, self.blank, false);
        self.bytes += text.len();
        self.longest = self.longest.max(text.len());
        self.lines += 1;
        self.items += usize::from(item);
    }

    /// Ends a paragraph: a blank line, or one that is not the user's own.
    pub(super) fn part(&mut self) {
        self.first_apart |= self.lines == 1;
        self.blank = true;
    }

    /// The task before and after its material, if the rest is material.
    pub(super) fn task(&self) -> Option<[&'a [u8]; 2]> {
        if self.bytes < MATERIAL || self.items > 1 {
            return None;
        }
        if let Some(around) = around_quotation(self.first).filter(|_| self.lines == 1) {
            return Some(around);
        }
        let is_line = self.is_apart(self.first, self.first_apart);
        let head = opening(self.first).filter(|head| self.bytes - head.len() >= MATERIAL);
        let label = head.is_some_and(is_label);
        let says = head.is_some() && !label;
        let head = head.or(is_line.then_some(self.first));
        let tail = (self.lines > 1 && self.is_apart(self.last, self.last_apart)).then_some(self.last);
        // "Problem: ..." may end with what is asked.
        let tail = tail.or_else(|| label.then(|| last_sentence(self.last)).filter(|end| ends_with(end, b"?")));
        let tail_says = tail.is_some_and(says_so);
        let task = match (head, tail) {
            (Some(head), Some(tail)) if says == tail_says => [head, tail],
            (Some(head), _) if says || tail.is_none() => [head, &[]],
            (_, Some(tail)) => [&[], tail],
            _ => return None,
        };
        let is_own = |part: &[u8]| (ends_with(part, b"?") || !says_so(part)) && has_word(part, OWN);
        (!task.iter().any(|part| is_own(part))).then_some(task)
    }

    /// True if an end of the text is short beside the rest.
    fn is_apart(&self, line: &[u8], apart: bool) -> bool {
        line.len() <= LONGEST
            && self.bytes - line.len() >= MATERIAL
            && (apart || 2 * line.len() <= self.longest || says_so(line))
    }
}

/// The first sentence of a line, if it says that it is the task of what follows.
fn opening(line: &[u8]) -> Option<&[u8]> {
    let ends = |at: usize| match line[at] {
        b':' | b'?' | b'.' | b'!' => line.get(at + 1).is_none_or(u8::is_ascii_whitespace),
        _ => false,
    };
    let wide = |at: usize| ["\u{ff1a}", "\u{ff1f}", "。"].iter().any(|mark| line[at..].starts_with(mark.as_bytes()));
    let end = (0..line.len().min(LONGEST)).find_map(|at| match (ends(at), wide(at)) {
        (true, _) => Some(at + 1),
        (_, true) => Some(at + 3),
        _ => None,
    })?;
    Some(&line[..end]).filter(|sentence| says_so(sentence))
}

/// True for one word with a colon.
fn is_label(sentence: &[u8]) -> bool {
    ends_with(sentence, b":") && words(sentence).nth(1).is_none() && sentence.is_ascii()
}

/// The last sentence of a line, or its end.
fn last_sentence(line: &[u8]) -> &[u8] {
    let from = line.len().saturating_sub(LONGEST);
    let end = line.len().saturating_sub(1);
    let start = (from..end).rev().find(|at| matches!(line[*at], b'.' | b'!' | b'?') && line[at + 1] == b' ');
    &line[start.map_or(from, |at| at + 2)..]
}

/// The text around one long quotation.
fn around_quotation(line: &[u8]) -> Option<[&[u8]; 2]> {
    let mark = |at: &usize| {
        line[*at] == b'"' || ["“", "”", "„", "«", "»"].iter().any(|mark| line[*at..].starts_with(mark.as_bytes()))
    };
    let (open, close) = ((0..line.len()).find(mark)?, (0..line.len()).rev().find(mark)?);
    let around = [&line[..open], &line[close..]];
    (close - open >= MATERIAL && around.iter().map(|part| part.len()).sum::<usize>() <= LONGEST).then_some(around)
}

/// True if a sentence says that it is a task: it announces, asks or points.
fn says_so(sentence: &[u8]) -> bool {
    ends_with(sentence, b":")
        || ends_with(sentence, b"?")
        || has_word(sentence, POINTERS)
        || UNSPACED.iter().any(|word| memchr::memmem::find(sentence, word.as_bytes()).is_some())
}

fn ends_with(sentence: &[u8], mark: &[u8]) -> bool {
    let wide: &[u8] = if mark == b":" { "\u{ff1a}".as_bytes() } else { "\u{ff1f}".as_bytes() };
    sentence.ends_with(mark) || sentence.ends_with(wide)
}

fn has_word(text: &[u8], list: &str) -> bool {
    words(text).any(|word| list.split(' ').any(|listed| word.eq_ignore_ascii_case(listed.as_bytes())))
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte < 0x80 && *byte != b'\'').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{Features, Weights, score},
        *,
    };
    use signalbox_types::Outline;

    const ARTICLE: &str = "The harbour was closed for three days after the storm, and two ferries had to return. The master said that the \
        pier would be repaired in autumn, if the county pays. Visitors complained about prices, noise and the queue at the ticket office. ";
    const OWN_MATTER: &str = "We keep the orders of two warehouses in one table. Since the last release some of them are shipped twice. The \
        job that marks an order runs on both machines, and the lock between them is lost when the network fails. ";

    fn scored(text: &str) -> f64 {
        score(&Features::of(&Outline::of_text(text)), Weights::built_in()).score
    }

    fn task(text: &str) -> Option<String> {
        let mut prose = Prose::default();
        text.lines().for_each(|line| prose.add(line.as_bytes(), false));
        prose.task().map(|task| task.map(|part| String::from_utf8_lossy(part).into_owned()).concat())
    }

    #[test]
    fn a_task_is_found_before_after_and_around_its_material() {
        let article = ARTICLE.repeat(4);
        for (text, expected) in [
            (format!("Translate to Danish:\n\n{article}"), "Translate to Danish:"),
            (format!("Translate to Danish: {article}"), "Translate to Danish:"),
            (format!("Write a headline for this. {article}"), "Write a headline for this."),
            (format!("{article}\n\ntl;dr"), "tl;dr"),
            (format!("{article}\nWho spoke?"), "Who spoke?"),
            (format!("Say \"{article}\" in Danish"), "Say \" in Danish"),
            (format!("次の文章を要約して。{article}"), "次の文章を要約して。"),
        ] {
            assert_eq!(task(&text).as_deref(), Some(expected), "{text:.60}");
        }
    }

    #[test]
    fn an_own_matter_belongs_to_its_question() {
        let matter = OWN_MATTER.repeat(4);
        for text in [
            matter.clone(),
            format!("{matter}\n\nHow should we proceed?"),
            format!("{matter}\n\nAny ideas?"),
            format!("{matter} What would you change?"),
            ARTICLE.to_owned() + "\n\ntl;dr",
        ] {
            assert_eq!(task(&text), None, "{text:.60}");
        }
    }

    #[test]
    fn easy_work_on_long_prose_is_easy_and_hard_work_is_hard() {
        for article in [ARTICLE.repeat(6), format!("{}\n\n", ARTICLE.repeat(2)).repeat(3)] {
            for easy in [
                "Summarise:",
                "Translate this into Danish.",
                "Fix the spelling in the following:",
                "Which port is this?",
            ] {
                for text in
                    [format!("{easy}\n\n{article}"), format!("{easy} {article}"), format!("{article}\n\n{easy}")]
                {
                    assert!(scored(&text) < 0.5, "{} for {easy} {text:.60}", scored(&text));
                }
            }
            let hard = "Assess critically whether the conclusion follows, and design a study that would refute this.";
            for text in [format!("{hard}\n\n{article}"), format!("{hard} {article}"), format!("{article}\n\n{hard}")] {
                assert!(scored(&text) > 0.6, "{} for {text:.60}", scored(&text));
            }
        }
        assert!(scored(&format!("{}\n\nHow should we proceed?", OWN_MATTER.repeat(4))) > 0.6);
    }

    proptest! {
        #[test]
        fn arbitrary_prose_does_not_panic(text in "([a-z ,.?:]{0,90}|\"|“|»|。|:|é|中|this |we |\n){0,60}") {
            let text = text + &ARTICLE.repeat(3);
            prop_assert!(task(&text).is_none_or(|task| task.len() <= 2 * LONGEST + 6));
        }
    }
}
