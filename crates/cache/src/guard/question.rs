//! Question analysis: type of question (how, why, when, …), tense, requested form of the answer, and language.

use super::lexicon::hash;

/// Type of question.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Unknown: a command, a statement.
    Open,
    /// "what", "which": a thing, or anything.
    Thing,
    /// "how to", "a way to".
    Manner,
    /// "why", "what causes".
    Reason,
    /// "when".
    Time,
    /// "where".
    Place,
    /// "who".
    Person,
    /// "how many", "how long": which of them, as the hash of the second word.
    Measure(u64),
    /// "is", "does", "can": yes or no.
    Whether,
}

impl Asked {
    /// Type of question of `words` (in lower case, contractions expanded).
    pub(super) fn of(words: &[&str]) -> Self {
        let start = politeness(words);
        let words = &words[start..];
        let at = |at: usize| words.get(at).copied().unwrap_or_default();
        if way(words) {
            return Self::Manner;
        }
        if whether(at(0)) {
            return Self::Whether;
        }
        // Later in a text "when", "where", "who" and "which" mostly join clauses.
        let place = words
            .iter()
            .take(3)
            .position(|word| asks(word))
            .or_else(|| words.iter().position(|word| matches!(*word, "how" | "why" | "what")));
        let Some(place) = place else { return Self::Open };
        let (word, next) = (at(place), at(place + 1));
        match word {
            "how" if next == "come" => Self::Reason,
            "how" if next == "much" && at(place + 2) == "time" => Self::Measure(hash("long")),
            "how"
                if matches!(
                    next,
                    "many"
                        | "much"
                        | "long"
                        | "far"
                        | "often"
                        | "old"
                        | "tall"
                        | "big"
                        | "large"
                        | "high"
                        | "deep"
                        | "fast"
                        | "soon"
                ) =>
            {
                Self::Measure(hash(if next == "large" { "big" } else { next }))
            }
            "how" => Self::Manner,
            "why" => Self::Reason,
            "when" => Self::Time,
            "where" => Self::Place,
            "who" | "whom" | "whose" => Self::Person,
            _ if matches!(next, "time" | "date" | "day" | "year" | "month") => Self::Time,
            _ if matches!(next, "causes" | "caused" | "makes" | "made") => Self::Reason,
            _ if matches!(
                words.get(place + 1..place + 4),
                Some(["is" | "are" | "was" | "were", "the" | "some", "reason" | "reasons" | "cause" | "causes"])
            ) =>
            {
                Self::Reason
            }
            _ => Self::Thing,
        }
    }

    /// Distance of two types: 0 for equal, 1 if no answer serves both.
    pub(super) fn distance(self, other: Self) -> f32 {
        use Asked::{Open, Thing};
        match (self, other) {
            (one, other) if one == other => 0.0,
            (Open | Thing, Open | Thing) => 0.25,
            (Open | Thing, _) | (_, Open | Thing) => 0.5,
            _ => 1.0,
        }
    }
}

/// True if a sentence that begins with this word is a question.
pub(super) fn begins(word: &str) -> bool {
    asks(word) || whether(word)
}

/// True for a question word.
pub(super) fn asks(word: &str) -> bool {
    matches!(word, "what" | "which" | "how" | "why" | "when" | "where" | "who" | "whom" | "whose")
}

/// True if a sentence that begins with this word is a yes-no question.
fn whether(word: &str) -> bool {
    matches!(
        word,
        "is" | "are"
            | "was"
            | "were"
            | "am"
            | "do"
            | "does"
            | "did"
            | "can"
            | "could"
            | "should"
            | "would"
            | "will"
            | "has"
            | "have"
            | "may"
    )
}

/// "the best way to", "any methods for", "steps to".
fn way(words: &[&str]) -> bool {
    words.windows(2).take(10).any(is_way)
}

fn is_way(pair: &[&str]) -> bool {
    matches!(pair[0], "way" | "ways" | "method" | "methods" | "steps" | "technique" | "techniques")
        && matches!(pair[1], "to" | "of" | "for" | "i" | "you" | "that")
}

/// Number of words at the beginning that only open the question: "could you tell me", "what is the best way to". A
/// sentence before the question opens nothing, unless it is only polite; `begins` tells which words begin one.
pub(super) fn opening(words: &[&str], begins: impl Fn(usize) -> bool) -> usize {
    let polite = politeness(words);
    // "[explain why] What is …": an instruction looks like this as well, unless it asks ("can you explain …").
    if polite > 0 && words[polite - 1] == "explain" && (polite < 2 || words[polite - 2] != "you") {
        return 0;
    }
    let end = (polite + 1..words.len()).find(|at| begins(*at)).unwrap_or(words.len());
    // A second question word is another question.
    let asking = |from: usize| {
        let mut asked = false;
        let own =
            |word: &&&str| (opens(word) || self::polite(word)) && !(asks(word) && std::mem::replace(&mut asked, true));
        words[from..end].iter().take_while(own).count()
    };
    // "Is it possible to …" asks what "can" asks.
    let possible = words[polite.min(end)..].starts_with(&["is", "it", "possible"]);
    let first = if possible { 3 + asking((polite + 3).min(end)) } else { asking(polite.min(end)) };
    // "Make it funny: what is the best way to …" does not open with a question.
    let way = (first > 0).then(|| words[polite..end].windows(2).take(6).position(is_way)).flatten();
    way.map_or(polite + first, |at| polite + at + 2 + asking(polite + at + 2))
}

/// True for words that ask, or that name who asks: another question may do without them.
pub(super) fn opens(word: &str) -> bool {
    begins(word)
        || matches!(word, "i" | "you" | "we" | "me" | "my" | "your" | "need" | "want" | "to" | "there" | "any" | "some")
}

/// True for polite words and articles, which never change a question.
pub(super) fn polite(word: &str) -> bool {
    matches!(word, "please" | "hi" | "hello" | "hey" | "thanks" | "thank" | "kindly" | "a" | "an" | "the")
}

/// Number of words at the beginning that are only polite.
fn politeness(words: &[&str]) -> usize {
    const OPENINGS: [&[&str]; 18] = [
        &["please"],
        &["hi"],
        &["hello"],
        &["hey"],
        &["can", "you"],
        &["could", "you"],
        &["would", "you"],
        &["will", "you"],
        &["do", "you", "know"],
        &["does", "anyone", "know"],
        &["tell", "me"],
        &["explain", "to", "me"],
        &["i", "want", "to", "know"],
        &["i", "would", "like", "to", "know"],
        &["i", "need", "to", "know"],
        &["i", "wonder"],
        &["may", "i", "know"],
        &["explain"],
    ];
    let mut start = 0;
    while let Some(opening) = OPENINGS.iter().find(|opening| words[start..].starts_with(opening)) {
        start += opening.len();
    }
    start
}

/// Tense of the question.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Tense {
    Past,
    Present,
    Future,
}

impl Tense {
    pub(super) fn of(words: &[&str]) -> Self {
        let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
        if has(&["will", "shall"]) || words.windows(2).any(|pair| pair == ["going", "to"]) {
            Self::Future
        } else if has(&["was", "were", "did", "had"]) {
            Self::Past
        } else {
            Self::Present
        }
    }
}

/// True if it asks what ought to be, rather than what is or can be.
pub(super) fn advised(words: &[&str]) -> bool {
    words.iter().any(|word| matches!(*word, "should" | "must" | "ought" | "worth"))
}

/// Forms of an answer that the words request, as hashes.
pub(super) fn forms<'a>(words: &'a [&'a str]) -> impl Iterator<Item = u64> {
    words.iter().enumerate().filter_map(|(at, word)| {
        let form = match *word {
            "json" | "yaml" | "csv" | "xml" | "html" | "markdown" | "latex" | "table" | "haiku" | "poem" | "essay"
            | "song" | "story" | "joke" | "tweet" | "email" | "limerick" | "rap" | "dialogue" | "speech" | "letter" => {
                word
            }
            "bullet" | "bullets" | "bulleted" => "bullets",
            "list" if at > 0 && matches!(words[at - 1], "a" | "numbered" | "as") && at > 2 => "bullets",
            "briefly" | "brief" | "short" | "concise" | "concisely" | "summarize" | "summarise" | "summary"
            | "tldr" => "brief",
            "detailed" | "detail" | "comprehensive" | "thorough" | "thoroughly" | "depth" => "detailed",
            "beginner" | "beginners" | "layman" | "eli5" => "beginners",
            _ => return None,
        };
        Some(hash(form))
    })
}

/// Common words that are characteristic of each language.
const LANGUAGES: [(&str, &str); 7] = [
    (
        "en",
        "the is are what how why do does of to my i you for with and when where can should which in if it that will be",
    ),
    ("de", "der das ist sind wie warum ich und mit für nicht ein eine kann wo zu den mein wenn wird"),
    ("fr", "le les est sont comment pourquoi je et avec pour une des du quel quelle mon où sur dans"),
    ("es", "el los las es cómo por qué yo y para una del cuál dónde puedo mi está"),
    ("it", "il gli è sono perché che io con per della una del mio quale dove posso"),
    ("pt", "os é são por eu e com não um uma meu qual onde posso da em"),
    ("nl", "het zijn hoe waarom wat ik en met voor niet een kan waar mijn wordt"),
];

/// Common English words that these languages and their relatives do not have.
const ENGLISH: &str = "the are what how why does you and with when where can which that who whose could would should did \
    your there from about this";

/// True if a text of this [`language()`] is English: by that, or where it is unknown, by one word.
pub(super) fn is_english(language: Option<u8>, words: &[&str]) -> bool {
    let one = || words.iter().any(|word| ENGLISH.split_whitespace().any(|known| known == *word));
    language.map_or_else(one, |language| language == 100)
}

/// Language of a text by its script, or by its most common words; `None` where the evidence is too thin.
pub(super) fn language(text: &str, words: &[&str]) -> Option<u8> {
    let mut scripts = [0u32; 9];
    for letter in text.chars().filter(|c| c.is_alphabetic()).take(400) {
        let script = match letter {
            '\u{400}'..='\u{52f}' => 1,
            '\u{370}'..='\u{3ff}' => 2,
            '\u{600}'..='\u{6ff}' => 3,
            '\u{590}'..='\u{5ff}' => 4,
            '\u{900}'..='\u{dff}' => 5,
            '\u{3040}'..='\u{30ff}' => 6,
            '\u{ac00}'..='\u{d7af}' => 7,
            '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' => 8,
            _ => 0,
        };
        scripts[script] += 1;
    }
    // Japanese also uses Chinese characters.
    if scripts[6] > 0 {
        scripts[6] += std::mem::take(&mut scripts[8]);
    }
    let (script, count) = scripts.iter().enumerate().max_by_key(|(_, count)| **count)?;
    if *count == 0 {
        return None;
    }
    if script > 0 {
        return Some(script as u8);
    }
    let count = |list: &str| words.iter().filter(|word| list.split(' ').any(|known| known == **word)).count();
    let mut counts = LANGUAGES.map(|(_, list)| count(list));
    let best = counts.iter().enumerate().max_by_key(|(_, count)| **count).map(|(at, count)| (at, *count))?;
    counts[best.0] = 0;
    let second = counts.iter().max().copied().unwrap_or(0);
    (best.1 >= 2 && best.1 > 2 * second).then_some(100 + best.0 as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Asked {
        Asked::of(&text.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn equivalent_question_forms_have_one_type() {
        for (one, other) in [
            ("how do i cook rice", "what is the best way to cook rice"),
            ("could you tell me why birds sing", "why do birds sing"),
            ("what is the reason birds sing", "how come birds sing"),
            ("what year did it end", "when did it end"),
            ("please tell me how to swim", "how can i swim"),
        ] {
            assert_eq!(asked(one), asked(other), "{one}");
        }
        assert!(asked("how many birds").distance(asked("how old are birds")) > 0.9);
        assert!(asked("why do birds sing").distance(asked("how do birds sing")) > 0.9);
        assert!(asked("is it red").distance(asked("what is it")) < 0.9);
        assert!(asked("can i swim there").distance(asked("how can i swim there")) > 0.9);
    }

    #[test]
    fn languages_are_detected_by_script_and_common_words() {
        let of = |text: &str| language(text, &text.split(' ').collect::<Vec<_>>());
        assert_eq!(of("wie ist das wetter"), Some(101));
        assert_eq!(of("what is the weather"), Some(100));
        assert_eq!(of("погода"), Some(1));
        assert_eq!(of("今日の天気"), Some(6));
        let english = |text: &str| is_english(of(text), &text.split(' ').collect::<Vec<_>>());
        assert!(english("what is the weather") && english("how hot"));
        assert!(!english("wie ist das wetter") && !english("onko kissa kotona") && !english("weather tomorrow"));
        assert_eq!(of("paris weather"), None);
    }
}
