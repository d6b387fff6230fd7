//! Finds doc comments that open with a question word instead of a noun or a verb.

use super::{
    ratchet::{self, Count},
    source::Source,
};

/// Words that open no doc comment.
const QUESTIONS: [&str; 11] =
    ["What", "Who", "Whose", "Whom", "How", "Which", "Whether", "Where", "When", "Whenever", "Whatever"];

/// A doc comment: lines that follow each other.
pub(crate) struct Comment {
    pub(crate) line: usize,
    /// Its first word.
    pub(crate) word: String,
}

/// The doc comments among the tokens of a file: `/// text` is read as `#[doc = "text"]`.
pub(crate) fn comments(tokens: &[(String, usize)]) -> Vec<Comment> {
    let (mut comments, mut last) = (Vec::new(), (0, false));
    for (at, (token, line)) in tokens.iter().enumerate() {
        let inner = tokens.get(at + 1).is_some_and(|(next, _)| next == "!");
        let rest = &tokens[(at + 1 + usize::from(inner)).min(tokens.len())..];
        let [(open, _), (doc, _), (is, _), (text, end), ..] = rest else { continue };
        if (token.as_str(), open.as_str(), doc.as_str(), is.as_str()) != ("#", "[", "doc", "=") {
            continue;
        }
        let continues = last == (line.saturating_sub(1), inner);
        last = (*end, inner);
        if !continues {
            let start = text.trim_start_matches(|mark: char| !mark.is_alphabetic() && mark != '\\');
            let word = start.chars().take_while(|letter| letter.is_alphabetic()).collect();
            comments.push(Comment { line: *line, word });
        }
    }
    comments
}

/// The comments of each room that open with a question word.
pub(crate) fn counts(sources: &[Source]) -> Vec<Count> {
    let found = sources.iter().flat_map(|source| {
        let openings = source.comments.iter().filter(|comment| QUESTIONS.contains(&comment.word.as_str()));
        openings.map(|comment| {
            let Comment { line, word } = comment;
            (source.room(), format!("{}:{line}: opens with `{word}`: open with a noun or a verb", source.file))
        })
    });
    ratchet::count("comments", found)
}

#[test]
fn comments_that_open_with_a_question_are_found() {
    let text = "//! Which pool.\n//! What of it.\nuse a::b;\n\n/// Pools.\n/// Who waits.\npub struct A {\n    /// How many.\n    pub n: u8,\n    \
                /// The size.\n    pub m: u8,\n}\n// What is no doc comment.\ntable! {\n    /// `Whether` in a macro.\n    \
                /// It counts.\n    x, \"/// What\"\n}\n/// Whatsoever.\nfn f() {}\n";
    let source = Source::read("src/fleet/mod.rs", text).unwrap();
    let counts = counts(&[source]);
    assert_eq!((counts.len(), counts[0].number, counts[0].place.as_str()), (1, 3, "src/fleet"), "{counts:?}");
    let lines = ["mod.rs:1: opens with `Which`", "mod.rs:8: opens with `How`", "mod.rs:15: opens with `Whether`"];
    assert!(counts[0].breaches.iter().zip(lines).all(|(breach, line)| breach.contains(line)), "{counts:?}");
}
