//! Single letters: operands, grades and vitamins, as opposed to the article "a", the pronoun "I", short forms ("u", "r",
//! "n"), and what is left of "it's", "don't", "I'd" and "I'm".

use super::scan::{Kind, Piece};

/// Letters that are mostly something else.
pub(super) const AMBIGUOUS: [&str; 9] = ["a", "i", "s", "t", "d", "m", "u", "r", "n"];
/// Words that follow an operand, and no article or pronoun.
const AFTER: &str = "to from into onto by and or of in on at is are as over equals then than vs versus";
/// Words that do if the next word is an operand, too.
const BETWEEN: &str = "with for when plus minus times before after was if";
/// Words that precede an operand, and rarely "I".
const TOWARDS: &str = "of to from into by over between";

/// True for a word of one letter.
pub(super) fn is_letter(word: &str) -> bool {
    word.len() == 1 && word.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// True if the letter at `at` is a word of its own. `name` is true if it is written like a name.
pub(super) fn stands_for_something(text: &str, pieces: &[Piece<'_>], at: usize, name: bool) -> bool {
    let piece = &pieces[at];
    let letter = piece.text.to_lowercase();
    if !AMBIGUOUS.contains(&&*letter) || matches!(piece.text, "U" | "R" | "N") {
        return true;
    }
    let before = at.checked_sub(1).map(|at| &pieces[at]).filter(|_| !piece.first);
    let next = pieces.get(at + 1).filter(|next| !next.first);
    let lower = |piece: Option<&Piece<'_>>| piece.map(|piece| piece.text.to_lowercase()).unwrap_or_default();
    let (word_before, next_word) = (lower(before), lower(next));
    // "5 m", "u s a".
    let counted = before.is_some_and(|before| before.kind == Kind::Number);
    if counted || matches!((&*word_before, &*letter), ("u", "s") | ("s", "a")) {
        return false;
    }
    let beside = |piece: Option<&Piece<'_>>| piece.is_some_and(|piece| piece.kind == Kind::Operator);
    let article = matches!(&*word_before, "a" | "an" | "the");
    if name || article || beside(before) || beside(next) || is_attached(text, piece, &next_word) {
        return true;
    }
    let apart = next.is_some_and(|next| next.apart);
    let ahead = pieces.get(at + 2).filter(|_| apart && joins(&next_word)).is_some_and(is_operand);
    let behind = at > 1 && joins(&word_before) && pieces[at - 2].kind == Kind::Word && is_operand(&pieces[at - 2]);
    ahead
        || behind
        || match &*letter {
            "a" => next.is_none() || !followed_by_space(text, piece) || apart && has(AFTER, &next_word),
            "t" => !word_before.ends_with('n'),
            "d" | "m" => !has("i you he she we they it who that there", &word_before),
            "n" | "r" => has(TOWARDS, &word_before) || apart && has(AFTER, &next_word),
            _ => has(TOWARDS, &word_before),
        }
}

/// True if signs on both sides, or one that ends no sentence, touch a letter: "f(i, j)", "i/o", but not "Can I?",
/// "(I think)" or "song(s)".
fn is_attached(text: &str, piece: &Piece<'_>, next_word: &str) -> bool {
    let sign = |c: &char| !c.is_whitespace();
    let front = text[..piece.start].chars().next_back().filter(sign).filter(|c| !matches!(c, '\'' | '’' | '`'));
    let Some(after) = text[piece.start + piece.text.len()..].chars().next().filter(sign) else { return false };
    let plural = piece.text == "s" && (front == Some('(') && after == ')' || next_word == "he");
    let ends = matches!(after, '.' | ',' | '!' | '?' | ':' | ';' | '\'' | '’' | '`');
    !plural && (front.is_some() || !ends)
}

fn followed_by_space(text: &str, piece: &Piece<'_>) -> bool {
    text[piece.start + piece.text.len()..].starts_with(char::is_whitespace)
}

fn is_operand(piece: &Piece<'_>) -> bool {
    let letter = is_letter(piece.text) && !piece.text.eq_ignore_ascii_case("i");
    letter || matches!(piece.kind, Kind::Number | Kind::Operator)
}

fn joins(word: &str) -> bool {
    has(AFTER, word) || has(BETWEEN, word)
}

fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|each| each == word)
}

#[cfg(test)]
mod tests {
    use super::super::{scan::pieces, words::words};

    #[test]
    fn operands_are_no_articles_pronouns_or_endings() {
        let letters = |text: &str| {
            let pieces = pieces(text, 99).0;
            words(text, &pieces).iter().filter(|word| word.letter).map(|word| word.lower.clone()).collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("rename a to b", 2),
            ("divide b by a.", 2),
            ("turn an i into an o", 2),
            ("swap a with t", 2),
            ("is a > d?", 2),
            ("plot s/t", 2),
            ("call f(i, a)", 3),
            ("is n of u and r even", 3),
            ("what r u doing, rock n roll", 0),
            ("Is there an A grade?", 1),
            ("Which foods have vitamin d?", 1),
            ("A or B?", 2),
            ("Can I take a walk, and a nap?", 0),
            ("should i go or am i late", 0),
            ("a (small) dog", 0),
            ("it s what i d do, don t you", 0),
            ("which song(s) run 5 m in the U S", 1),
        ] {
            let found = letters(text);
            assert_eq!(found.len(), expected, "{text}: {found:?}");
        }
    }
}
