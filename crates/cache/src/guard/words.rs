//! Words of a text for the guards: in lower case, contractions expanded, names marked.

use super::{
    letters::{AMBIGUOUS, is_letter, stands_for_something},
    lexicon,
    scan::{Kind, Piece},
};

/// A word while a text is read.
pub(super) struct Word<'a> {
    /// In lower case, contractions expanded.
    pub(super) lower: String,
    pub(super) piece: &'a Piece<'a>,
    pub(super) name: bool,
    /// True if it is a single letter that stands for something: an operand, a grade, a vitamin.
    pub(super) letter: bool,
}

/// Words of pieces: contractions expanded, points in abbreviations removed, names marked.
pub(super) fn words<'a>(text: &str, pieces: &'a [Piece<'a>]) -> Vec<Word<'a>> {
    let plain: Vec<&Piece<'_>> = pieces.iter().filter(|piece| piece.kind == Kind::Word).collect();
    let begins_large = |piece: &Piece<'_>| piece.text.starts_with(char::is_uppercase);
    let long: Vec<&&Piece<'_>> = plain.iter().filter(|piece| piece.text.len() > 3).collect();
    // In a title every word is capitalised, and in shouted text all letters are: neither marks names.
    let title = long.len() > 3 && long.iter().filter(|piece| begins_large(piece)).count() * 10 >= long.len() * 8;
    let loud = plain.len() > 2 && plain.iter().filter(|piece| is_upper(piece.text)).count() * 2 > plain.len();
    let mut words = Vec::with_capacity(pieces.len());
    for (at, piece) in pieces.iter().enumerate() {
        if piece.kind != Kind::Word {
            words.push(Word { lower: piece.text.to_lowercase(), piece, name: false, letter: false });
            continue;
        }
        let flat: String = piece.text.chars().filter(|c| *c != '.').map(|c| if c == '’' { '\'' } else { c }).collect();
        if let Some(parts) = lexicon::contraction(&flat.to_lowercase())
            .filter(|_| loud || !is_upper(&flat) && !is_capital(&flat))
            .filter(|_| !is_letter(&flat) || !stands_for_something(text, pieces, at, false))
        {
            words.extend(parts.iter().map(|part| Word {
                lower: (*part).to_owned(),
                piece,
                name: false,
                letter: false,
            }));
            continue;
        }
        let flat = flat.strip_suffix("'s").or_else(|| flat.strip_suffix("'S")).unwrap_or(&flat);
        let upper = !loud && is_upper(flat) && flat.chars().count() > 1;
        let lower = if upper { lexicon::acronym(flat) } else { flat.to_lowercase() };
        // A verb, unless it is written like a name: then it is the programming language.
        let lower = if lower == "go" && flat == "Go" && !piece.first && !title { "golang".to_owned() } else { lower };
        let inner = flat.chars().skip(1).any(char::is_uppercase) && !loud;
        // Without upper and lower case, names cannot be recognised: any word may be one.
        let caseless = flat.chars().all(|c| !c.is_lowercase() && !c.is_uppercase());
        let name = upper || inner || caseless || begins_large(piece) && !piece.first && !title && lower != "i";
        let letter = is_letter(&lower) && stands_for_something(text, pieces, at, name);
        // Apart from the article "a", the pronoun "I" and what is left of "it's", "don't", "I'd" and "I'm".
        let lower = if letter && AMBIGUOUS.contains(&&*lower) { format!("letter {lower}") } else { lower };
        words.push(Word { lower, piece, name, letter });
    }
    words
}

fn is_upper(word: &str) -> bool {
    let mut letters = word.chars().filter(|c| c.is_alphabetic());
    letters.clone().count() > 1 && letters.all(char::is_uppercase)
}

/// A single capital letter, which may be a name.
fn is_capital(word: &str) -> bool {
    is_letter(word) && word.starts_with(char::is_uppercase)
}
