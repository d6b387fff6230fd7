//! Splits a condition into tokens with their ranges: numbers, texts, names and signs.

use std::ops::Range;

use super::mistake::Mistake;
use signalbox_config as config;

/// The kind of a token.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A number, or a text in quotes.
    Value,
    /// A name, `true`, `false` or `in`.
    Name,
    /// `&&` or `||`.
    Logical,
    /// Any other operator between two values.
    Operator,
    /// `!`
    Not,
    /// `-`
    Minus,
    /// `(` or `[`
    Open,
    /// `)` or `]`
    Close,
    Dot,
    Comma,
    Question,
    Colon,
}

/// A token and its range.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) word: Word,
    pub(super) range: Range<usize>,
}

/// Signs, the longer ones first.
const SIGNS: [(&str, Word); 22] = [
    ("&&", Word::Logical),
    ("||", Word::Logical),
    ("==", Word::Operator),
    ("!=", Word::Operator),
    ("<=", Word::Operator),
    (">=", Word::Operator),
    ("<", Word::Operator),
    (">", Word::Operator),
    ("+", Word::Operator),
    ("*", Word::Operator),
    ("/", Word::Operator),
    ("%", Word::Operator),
    ("-", Word::Minus),
    ("!", Word::Not),
    ("(", Word::Open),
    ("[", Word::Open),
    (")", Word::Close),
    ("]", Word::Close),
    (".", Word::Dot),
    (",", Word::Comma),
    ("?", Word::Question),
    (":", Word::Colon),
];

/// Signs that CEL does not have, with a correction.
const SLIPS: [(&str, &str); 15] = [
    ("===", "write `==`"),
    ("!==", "write `!=`"),
    ("<>", "write `!=`"),
    ("=>", "write `>=`"),
    ("=<", "write `<=`"),
    ("=~", "write `text.matches(\"…\")`"),
    ("=", "to compare, write `==`"),
    ("&", "write `&&`"),
    ("|", "write `||`"),
    ("//", "a condition holds no comments: in YAML they begin with `#`"),
    ("{", "conditions have no mappings: write a list in `[…]`"),
    ("“", "write plain quotes: `\"`"),
    ("”", "write plain quotes: `\"`"),
    ("‘", "write plain quotes: `'`"),
    ("’", "write plain quotes: `'`"),
];

/// The prefix of internal names.
pub(super) const RESERVED: &str = "__";

/// The tokens of `text`.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Mistake> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (word, len) = if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            (Word::Value, number(text, at)?)
        } else if let Some((raw, quote)) = quote(rest) {
            (Word::Value, quoted(text, at, raw, quote)?)
        } else if c.is_ascii_alphabetic() || c == '_' {
            (Word::Name, name(text, at)?)
        } else {
            sign(text, at)?
        };
        tokens.push(Token { word, range: at..at + len });
        at += len;
    }
    Ok(tokens)
}

fn sign(text: &str, at: usize) -> Result<(Word, usize), Mistake> {
    let rest = &text[at..];
    let slip = SLIPS.iter().filter(|(sign, _)| rest.starts_with(sign)).max_by_key(|(sign, _)| sign.len());
    let known = SIGNS.iter().find(|(sign, _)| rest.starts_with(sign));
    match (known, slip) {
        (Some((sign, word)), slip) if slip.is_none_or(|(slip, _)| slip.len() <= sign.len()) => Ok((*word, sign.len())),
        (_, Some((slip, help))) => {
            Err(Mistake::new(at..at + slip.len(), format!("`{slip}` has no meaning here")).help(*help))
        }
        (_, None) => {
            let c = rest.chars().next().unwrap_or_default();
            Err(Mistake::new(at..at + c.len_utf8(), format!("`{}` has no meaning here", c.escape_debug()))
                .help("texts stand in quotes, and names have no characters beyond letters, digits and `_`"))
        }
    }
}

fn name(text: &str, at: usize) -> Result<usize, Mistake> {
    let rest = &text[at..];
    let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let name = &rest[..len];
    if name.starts_with(RESERVED) {
        return Err(Mistake::new(at..at + len, format!("there is no `{name}`"))
            .help(format!("names that begin with `{RESERVED}` are not for conditions")));
    }
    if rest[len..].starts_with(['"', '\'']) {
        return Err(Mistake::new(at..at + len, format!("`{name}` before a text has no meaning here"))
            .help("write the text in quotes alone, or `r\"…\"` where its backslashes are meant as such"));
    }
    Ok(len)
}

fn number(text: &str, at: usize) -> Result<usize, Mistake> {
    let rest = &text[at..];
    let digits = |from: usize| rest[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - from);
    let mut len = digits(0);
    let mut whole = true;
    if rest[len..].starts_with('.') && digits(len + 1) > 0 {
        (len, whole) = (len + 1 + digits(len + 1), false);
    }
    if rest[len..].starts_with(['e', 'E']) {
        let sign = usize::from(rest[len + 1..].starts_with(['+', '-']));
        let exponent = digits(len + 1 + sign);
        if exponent > 0 {
            (len, whole) = (len + 1 + sign + exponent, false);
        }
    }
    let number = &rest[..len];
    let tail = rest[len..].find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len() - len);
    if tail > 0 {
        let range = at..at + len + tail;
        return Err(unit(&rest[..len + tail], number, range));
    }
    // A percentage; for a remainder, a value follows the sign.
    let after = rest[len..].strip_prefix('%').map(str::trim_start);
    if let (Some(after), Ok(percent)) = (after, number.parse::<f64>())
        && (after.is_empty() || after.starts_with([')', ',', ']', '&', '|', '?', ':', '=', '<', '>']))
    {
        return Err(Mistake::new(at..at + len + 1, format!("`{number}%`: conditions have no units"))
            .help(format!("write {}", percent / 100.0)));
    }
    let fits = if whole { number.parse::<i64>().is_ok() } else { number.parse::<f64>().is_ok_and(f64::is_finite) };
    if !fits {
        return Err(
            Mistake::new(at..at + len, "a number beyond all bounds").help(format!("the largest one is {}", i64::MAX))
        );
    }
    Ok(len)
}

/// A number followed by letters.
fn unit(written: &str, number: &str, range: Range<usize>) -> Mistake {
    let mistake = |words: &str| Mistake::new(range.clone(), format!("`{written}`: {words}"));
    let digits = written.replace('_', "");
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return mistake("numbers have no `_` in them").help(format!("write {digits}"));
    }
    if written == format!("{number}u") {
        return mistake("whole numbers are written without `u`").help(format!("write {number}"));
    }
    if let Ok(size) = config::size(written).or_else(|_| config::size(&written.replace('K', "k"))) {
        return mistake("conditions have no units").help(format!("write {size}"));
    }
    if config::duration(written).is_ok() {
        return mistake("conditions have no units").help(format!("write `duration(\"{written}\")`"));
    }
    mistake("no number").help("write it in digits, such as 8000 or 0.5")
}

/// The opening quote of a text at the start of `rest`, and whether it is a raw text.
fn quote(rest: &str) -> Option<(bool, char)> {
    let (raw, rest) = rest.strip_prefix(['r', 'R']).map_or((false, rest), |rest| (true, rest));
    rest.chars().next().filter(|c| matches!(c, '"' | '\'')).map(|quote| (raw, quote))
}

fn quoted(text: &str, at: usize, raw: bool, quote: char) -> Result<usize, Mistake> {
    let start = at + usize::from(raw) + 1;
    let mut characters = text[start..].char_indices();
    while let Some((offset, c)) = characters.next() {
        if c == quote {
            let end = start + offset + 1;
            if offset == 0 && text[end..].starts_with(quote) {
                return Err(Mistake::new(at..end + 1, "three quotes").help("write a text in one pair of quotes"));
            }
            return Ok(end - at);
        }
        if c == '\n' || c == '\r' {
            break;
        }
        if c == '\\' && !raw {
            let Some((_, escaped)) = characters.next() else { break };
            let (digits, radix) = code(escaped);
            let from = start + offset;
            let known = digits > 0 || "abfnrtv\\?\"'`".contains(escaped);
            let end = from + 1 + escaped.len_utf8();
            let given = text[end..].bytes().take(digits).take_while(|byte| char::from(*byte).is_digit(radix)).count();
            if !known || given < digits {
                let range = from..end + given;
                let sequence = text[from + 1..range.end].escape_debug();
                return Err(Mistake::new(range, format!("`\\{sequence}` stands for nothing")).help(expected(escaped)));
            }
        }
    }
    Err(Mistake::new(at..start, "a text without its closing quote").help(format!("end it with `{quote}`")))
}

/// The number of digits after `\\` and this letter, and their base; 0 if the letter has no numeric code. CEL's parser
/// must agree: otherwise it would parse the content of the quotes as brackets, to any depth.
fn code(escaped: char) -> (usize, u32) {
    match escaped {
        'x' | 'X' => (2, 16),
        'u' => (4, 16),
        'U' => (8, 16),
        '0'..='3' => (2, 8),
        _ => (0, 10),
    }
}

fn expected(escaped: char) -> String {
    match code(escaped) {
        (0, _) => {
            "write `\\\\` for a backslash, or begin the text with `r\"`, where backslashes stand for themselves".into()
        }
        (digits, 8) => format!("`\\{escaped}` takes {digits} more digits from 0 to 7"),
        (digits, _) => format!("`\\{escaped}` takes {digits} hexadecimal digits"),
    }
}
