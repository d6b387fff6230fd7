//! Tokeniser of the guards: words, numbers with attached units, and parts that must match exactly.

/// A piece of text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece<'a> {
    /// As written in the text.
    pub(super) text: &'a str,
    pub(super) kind: Kind,
    /// Byte offset.
    pub(super) start: usize,
    /// True if the piece is the first of a sentence.
    pub(super) first: bool,
    /// True if white space precedes the piece.
    pub(super) apart: bool,
    /// Number of the piece's quotation, counted from 1; 0 outside.
    pub(super) quote: u16,
}

/// Kind of piece.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Letters, possibly with an apostrophe.
    Word,
    /// One character of a script without spaces between words.
    Sign,
    /// Digits with commas and points.
    Number,
    /// Digits and letters mixed, or letters joined by symbols as in code.
    Identifier,
    /// A command-line option.
    Flag,
    /// A web, mail or file address.
    Url,
    /// Text between backticks.
    Code,
    /// `%`, `$` and other currency symbols.
    Unit,
    /// A mathematical or code operator.
    Operator,
}

/// Pieces of `text` in order, at most `most`. The flag is true if the text ended within that limit.
pub(super) fn pieces(text: &str, most: usize) -> (Vec<Piece<'_>>, bool) {
    let mut scan = Scan { text, pieces: Vec::new(), first: true, quote: 0, quotes: 0, most };
    let whole = scan.run();
    (scan.pieces, whole)
}

struct Scan<'a> {
    text: &'a str,
    pieces: Vec<Piece<'a>>,
    first: bool,
    /// Number of the current quotation.
    quote: u16,
    quotes: u16,
    most: usize,
}

impl<'a> Scan<'a> {
    fn run(&mut self) -> bool {
        let mut at = 0;
        while at < self.text.len() {
            if self.pieces.len() >= self.most {
                return false;
            }
            let rest = &self.text[at..];
            let Some(next) = rest.chars().next() else { break };
            if next == '\n' {
                self.first = true;
            }
            if next.is_whitespace() {
                at += next.len_utf8();
            } else if next == '`' {
                at = self.code(at);
            } else if ideographic(next) {
                self.push(&self.text[at..at + next.len_utf8()], Kind::Sign, at);
                at += next.len_utf8();
            } else {
                let end = rest
                    .find(|c: char| c.is_whitespace() || c == '`' || ideographic(c))
                    .map_or(self.text.len(), |length| at + length);
                self.chunk(at, end);
                at = end;
            }
        }
        true
    }

    fn push(&mut self, text: &'a str, kind: Kind, start: usize) {
        let apart = self.text[..start].chars().next_back().is_none_or(char::is_whitespace);
        let text = text.trim_matches(['\'', '’']);
        if !text.is_empty() {
            self.pieces.push(Piece { text, kind, start, first: self.first, apart, quote: self.quote });
            self.first = false;
        }
    }

    /// Reads from a backtick to the next run of as many. Without an end it is no code.
    fn code(&mut self, at: usize) -> usize {
        let rest = &self.text[at..];
        let ticks = rest.len() - rest.trim_start_matches('`').len();
        let inner = &rest[ticks..];
        let Some(length) = inner.find(&rest[..ticks]) else { return at + ticks };
        let body = inner[..length].trim();
        self.push(body, Kind::Code, at + ticks);
        at + ticks + length + ticks
    }

    /// Reads the text between two spaces.
    fn chunk(&mut self, start: usize, end: usize) {
        let (mut start, mut end) = (start, end);
        while let Some(sign) = self.text[start..end].chars().next() {
            if opens(sign) && self.quote == 0 {
                self.quotes = self.quotes.saturating_add(1);
                self.quote = self.quotes;
            } else if !matches!(sign, '(' | '[' | '{' | '<' | '¿' | '¡' | '*' | '"' | '“' | '‘' | '\'' | '«' | '…')
            {
                break;
            }
            if (sign == '<' || sign == '*') && end - start == 1 {
                break;
            }
            start += sign.len_utf8();
        }
        let (mut closes_quote, mut ends_sentence) = (false, false);
        while let Some(sign) = self.text[start..end].chars().next_back() {
            // `C++`, `main()` and `50%` keep their endings.
            let core = &self.text[start..end];
            let call = core.ends_with("()");
            match sign {
                '"' | '”' | '’' | '»' => closes_quote = true,
                '\'' if self.quote > 0 => closes_quote = true,
                '.' | '!' | '?' | '。' | '？' | '！' | ':' => ends_sentence = true,
                ',' | ';' | ']' | '}' | '>' | '…' | '\'' | '*' | '،' | '؟' | '।' if core.len() > sign.len_utf8() =>
                    {}
                ')' if !call => {}
                _ => break,
            }
            end -= sign.len_utf8();
        }
        if start < end {
            self.core(start, end);
        }
        if closes_quote {
            self.quote = 0;
        }
        if ends_sentence {
            self.first = true;
        }
    }

    /// Reads a chunk without the surrounding punctuation.
    fn core(&mut self, start: usize, end: usize) {
        let core = &self.text[start..end];
        if core.len() == 1 && "+-*/=<>^".contains(core)
            || matches!(core, "==" | "!=" | "<=" | ">=" | "=>" | "->" | "&&" | "||")
        {
            return self.push(core, Kind::Operator, start);
        }
        if is_flag(core) {
            return self.push(core, Kind::Flag, start);
        }
        if is_url(core) {
            return self.push(core, Kind::Url, start);
        }
        if core.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '’') {
            return self.push(core, Kind::Word, start);
        }
        // "U.S.", which lost its last point.
        if core.len() >= 3
            && core.split('.').all(|part| part.len() == 1 && part.bytes().all(|b| b.is_ascii_alphabetic()))
        {
            return self.push(core, Kind::Word, start);
        }
        if number_length(core) == core.len() {
            return self.push(core, Kind::Number, start);
        }
        if is_code(core) {
            return self.push(core, Kind::Identifier, start);
        }
        self.parts(start, end);
    }

    /// Reads a chunk of several parts: "$5", "10km", "gay/lesbian", "co-operate", "2+2", "gpt-4".
    fn parts(&mut self, start: usize, end: usize) {
        let mut at = start;
        while at < end && self.pieces.len() < self.most {
            let rest = &self.text[at..end];
            let Some(next) = rest.chars().next() else { break };
            let number = number_length(rest);
            if number > 0 {
                self.push(&rest[..number], Kind::Number, at);
                at += number;
            } else if next.is_alphanumeric() {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’').unwrap_or(rest.len());
                let mixed = rest[..length].chars().any(char::is_numeric);
                self.push(&rest[..length], if mixed { Kind::Identifier } else { Kind::Word }, at);
                at += length;
            } else {
                if matches!(next, '%' | '$' | '€' | '£' | '¥' | '₹' | '°') {
                    let scale = next == '°' && rest[next.len_utf8()..].starts_with(['C', 'F', 'c', 'f']);
                    let length = next.len_utf8() + usize::from(scale);
                    self.push(&rest[..length], Kind::Unit, at);
                    at += length;
                    continue;
                } else if "+*=<>^".contains(next) || is_symbol(next) {
                    self.push(&rest[..next.len_utf8()], Kind::Operator, at);
                }
                at += next.len_utf8();
            }
        }
    }
}

/// True for characters with a meaning of their own, such as mathematical symbols, arrows and pictographs: neither
/// letters, nor combining marks, nor punctuation.
fn is_symbol(c: char) -> bool {
    matches!(c, '¬' | '±' | '×' | '÷' | '§' | '¶' | '\u{2020}' | '\u{2021}' | '\u{2030}' | '\u{20a0}'..='\u{20cf}' | '\u{2100}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
        && !c.is_alphanumeric()
        && c != '™'
}

fn opens(sign: char) -> bool {
    matches!(sign, '"' | '“' | '‘' | '«' | '\'')
}

/// True for scripts without spaces between words.
fn ideographic(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{e00}'..='\u{e7f}' | '\u{20000}'..='\u{2ffff}')
}

fn is_flag(core: &str) -> bool {
    // After a single dash at most two letters: "-old" is the rest of a word.
    let name = core.strip_prefix("--").or_else(|| core.strip_prefix('-').filter(|name| name.len() <= 2));
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Common top-level domains. Other domains count as addresses only with a scheme, `www.` or a path.
const DOMAINS: [&str; 18] = [
    "com", "org", "net", "edu", "gov", "io", "dev", "co", "uk", "de", "in", "ai", "app", "info", "me", "fr", "eu", "us",
];

fn is_url(core: &str) -> bool {
    if core.contains("://")
        || core.starts_with("www.")
        || core.contains('@') && core.contains('.') && !core.starts_with('@')
    {
        return true;
    }
    let path = core.starts_with(['/', '~'])
        || core.starts_with("./")
        || core.starts_with("../")
        || core.get(1..3) == Some(":\\");
    if path && core.len() > 2 {
        return true;
    }
    let host = core.split('/').next().unwrap_or_default();
    let Some((front, domain)) = host.rsplit_once('.') else { return false };
    let named = front.len() > 1 && front.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    named && front.bytes().any(|b| b.is_ascii_alphabetic()) && DOMAINS.contains(&domain)
}

/// True if letters are joined as only code joins them.
fn is_code(core: &str) -> bool {
    let lettered = core.bytes().any(|b| b.is_ascii_alphabetic());
    let joined = core.contains('_')
        || core.contains("::")
        || core.contains("()")
        || core.ends_with("++")
        || core.ends_with('#')
        || core.contains('\\')
        || core.starts_with(['$', '#', '@']) && core.len() > 1 && !core[1..].starts_with(|c: char| c.is_ascii_digit());
    let dotted = core.contains('.')
        && core.split('.').all(|part| !part.is_empty() && part.chars().all(char::is_alphanumeric))
        && core.split('.').filter(|part| part.bytes().any(|b| b.is_ascii_alphabetic())).count() >= 2;
    lettered && (joined || dotted)
}

/// Length in bytes of the number at the beginning of `text`; 0 without one. "10km" begins with a number, "3d" and "5s"
/// do not: a single letter, other than those of amounts and units, belongs to a name.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let digit_after = bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        match bytes[end] {
            b'0'..=b'9' => end += 1,
            b',' | b'.' | b':' | b'/' if end > 0 && digit_after => end += 1,
            b'-' if end >= 4 && digit_after && bytes[..end].iter().all(|b| b.is_ascii_digit() || *b == b'-') => {
                end += 1;
            }
            _ => break,
        }
    }
    if end == 0 || !bytes[0].is_ascii_digit() {
        return 0;
    }
    let glued = text[end..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len() - end);
    let unit = text[end..end + glued].to_ascii_lowercase();
    let known = glued == 0
        || matches!(unit.as_str(), "st" | "nd" | "rd" | "th" | "am" | "pm" | "k" | "m" | "b" | "bn" | "x")
        || super::quantity::unit(&unit).is_some();
    // A continuation with more digits, as in "4x4" and "h1n1", makes a name.
    let more = text[end + glued..].starts_with(|c: char| c.is_ascii_digit());
    if known && (glued == 0 || !more) { end } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(String, Kind)> {
        pieces(text, 100).0.into_iter().map(|piece| (piece.text.to_owned(), piece.kind)).collect()
    }

    #[test]
    fn pieces_have_the_expected_kinds() {
        for (text, piece, kind) in [
            ("see https://a.b/c?d=1, please", "https://a.b/c?d=1", Kind::Url),
            ("mail me@example.org.", "me@example.org", Kind::Url),
            ("open /etc/hosts now", "/etc/hosts", Kind::Url),
            ("ls --all .", "--all", Kind::Flag),
            ("what is -v?", "-v", Kind::Flag),
            ("use `x == 1` here", "x == 1", Kind::Code),
            ("my_var in node.js", "my_var", Kind::Identifier),
            ("my_var in node.js", "node.js", Kind::Identifier),
            ("learn C++?", "C++", Kind::Identifier),
            ("call main() twice", "main()", Kind::Identifier),
            ("an iPhone 5s.", "5s", Kind::Identifier),
            ("run 10km daily", "10", Kind::Number),
            ("run 10km daily", "km", Kind::Word),
            ("it costs $1,000.50!", "1,000.50", Kind::Number),
            ("it costs $1,000.50!", "$", Kind::Unit),
            ("on 2024-03-05.", "2024-03-05", Kind::Number),
            ("the U.S. army", "U.S", Kind::Word),
            ("gpt-4", "4", Kind::Number),
            ("2+2", "+", Kind::Operator),
            ("India's army", "India's", Kind::Word),
            ("水", "水", Kind::Sign),
        ] {
            let found = kinds(text);
            assert!(found.contains(&(piece.to_owned(), kind)), "{text}: {found:?}");
        }
    }

    #[test]
    fn quotations_and_sentences_are_marked() {
        let (found, whole) = pieces("He said \"good day\" twice. Then left", 100);
        assert!(whole);
        let quotes: Vec<_> = found.iter().map(|piece| piece.quote).collect();
        assert_eq!(quotes, [0, 0, 1, 1, 0, 0, 0]);
        assert_eq!(
            found.iter().map(|piece| piece.first).collect::<Vec<_>>(),
            [true, false, false, false, false, true, false]
        );
        assert!(!pieces("a b c", 2).1);
    }
}
