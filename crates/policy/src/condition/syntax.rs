//! Checks the order of tokens, with clearer messages than CEL's parser; a condition that passes is safe for that
//! parser.

use super::{
    lexer::{Token, Word},
    mistake::Mistake,
};

/// The deepest nesting of brackets, choices and chains of operators: the checker recurses that deep.
const DEPTH: usize = 32;

/// The deepest nesting of brackets: each takes 150 KB of stack in CEL's parser (in unoptimised builds).
const BRACKETS: usize = 6;

/// Names that CEL reserves for host languages.
const KEYWORDS: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// Operators of other languages.
const WORDS: [(&str, &str); 7] =
    [("and", "&&"), ("or", "||"), ("is", "=="), ("equals", "=="), ("eq", "=="), ("gt", ">"), ("lt", "<")];

/// The purpose of a bracket.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Bracket {
    Outside,
    Group,
    Call,
    List,
    Index,
}

/// An open bracket.
struct Frame {
    bracket: Bracket,
    /// The index of the token that opened it.
    opened: usize,
    /// `?` without their `:` so far.
    questions: Vec<usize>,
    /// Length of the current chain, between `&&`, `||` and commas.
    chain: usize,
    /// Number of `?` so far: each nests the rest.
    choices: usize,
}

impl Frame {
    fn new(bracket: Bracket, opened: usize) -> Self {
        Self { bracket, opened, questions: Vec::new(), chain: 0, choices: 0 }
    }

    fn depth(&self) -> usize {
        1 + self.chain + self.choices
    }
}

/// For each opening bracket the index of the closing one; for all other tokens their own index.
pub(super) type Partners = Vec<usize>;

/// Checks `tokens` in one pass.
pub(super) fn check(text: &str, tokens: &[Token]) -> Result<Partners, Mistake> {
    let mut reader = Reader {
        text,
        tokens,
        frames: vec![Frame::new(Bracket::Outside, 0)],
        partners: (0..tokens.len()).collect(),
        operand: false,
    };
    let mut at = 0;
    while at < tokens.len() {
        at = if reader.operand { reader.after_value(at)? } else { reader.value(at)? };
        let depth: usize = reader.frames.iter().map(Frame::depth).sum();
        if depth > DEPTH || reader.frames.len() > BRACKETS + 1 {
            return Err(Mistake::new(tokens[at - 1].range.clone(), "nested too deep from here on")
                .help("join simple parts with `&&` and `||`, or make two routes of it"));
        }
    }
    reader.end()
}

struct Reader<'a> {
    text: &'a str,
    tokens: &'a [Token],
    frames: Vec<Frame>,
    partners: Partners,
    /// True if the previous token ends a value.
    operand: bool,
}

impl Reader<'_> {
    fn word(&self, at: usize) -> &str {
        &self.text[self.tokens[at].range.clone()]
    }

    fn wrong(&self, at: usize, message: impl Into<String>) -> Mistake {
        Mistake::new(self.tokens[at].range.clone(), message)
    }

    fn frame(&mut self) -> &mut Frame {
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    /// At a position where a value is expected.
    fn value(&mut self, at: usize) -> Result<usize, Mistake> {
        let token = &self.tokens[at];
        match token.word {
            Word::Value => self.operand = true,
            Word::Name => {
                let name = self.word(at);
                let starts = |at: usize| {
                    let begins = |token: &Token| matches!(token.word, Word::Value | Word::Name | Word::Not);
                    self.tokens.get(at).is_some_and(begins) && self.word(at) != "in"
                };
                if name.eq_ignore_ascii_case("not") && (starts(at + 1) || self.is_open(at + 1)) {
                    return Err(self
                        .wrong(at, format!("`{name}` is no operator"))
                        .help("write `!`, as in `!request.stream`"));
                }
                if name == "in" || WORDS.iter().any(|(word, _)| name.eq_ignore_ascii_case(word)) {
                    return Err(self.missing_before(at));
                }
                if KEYWORDS.contains(&name) {
                    return Err(self.wrong(at, format!("`{name}` has no meaning in a condition")).help(
                        "write what has to hold, such as `prompt.tokens > 8000`; a choice is written `a ? b : c`",
                    ));
                }
                self.operand = true;
            }
            Word::Not | Word::Minus => {
                let before = at.checked_sub(1).filter(|before| self.is_prefix(*before));
                if before.is_some_and(|before| matches!(self.tokens[before].word, Word::Not | Word::Minus)) {
                    return Err(self
                        .wrong(at, format!("`{}` after `{}`", self.word(at), self.word(at - 1)))
                        .help("one sign is enough before a value"));
                }
            }
            Word::Open => {
                let bracket = if self.word(at) == "(" { Bracket::Group } else { Bracket::List };
                self.frames.push(Frame::new(bracket, at));
            }
            Word::Close => {
                let frame = self.frame();
                let empty = matches!(frame.bracket, Bracket::Call | Bracket::List) && frame.opened + 1 == at;
                if !empty {
                    return Err(if self.frames.len() == 1 { self.closes_nothing(at) } else { self.missing_before(at) });
                }
                return self.close(at);
            }
            _ => return Err(self.missing_before(at)),
        }
        Ok(at + 1)
    }

    fn is_open(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.word == Word::Open)
    }

    /// True if the sign at `at` is a prefix rather than between two values.
    fn is_prefix(&self, at: usize) -> bool {
        at == 0 || !matches!(self.tokens[at - 1].word, Word::Value | Word::Name | Word::Close)
    }

    /// At a position after a value.
    fn after_value(&mut self, at: usize) -> Result<usize, Mistake> {
        let token = &self.tokens[at];
        let before = &self.tokens[at - 1];
        let touches = before.word == Word::Name && self.word(at - 1) != "true" && self.word(at - 1) != "false";
        match (token.word, self.word(at)) {
            (Word::Logical, _) => {
                self.frame().chain = 0;
                self.operand = false;
            }
            (Word::Operator | Word::Minus, _) | (Word::Name, "in") => {
                self.frame().chain += 1;
                self.operand = false;
            }
            (Word::Dot, _) => {
                if self.tokens.get(at + 1).is_none_or(|next| next.word != Word::Name) {
                    let place = self.tokens.get(at + 1).map_or(token.range.clone(), |next| next.range.clone());
                    return Err(Mistake::new(place, "a name is missing after `.`")
                        .help("write one, such as `prompt.tokens`; names with dashes stand in brackets: `pool[\"with-dash\"]`"));
                }
                self.frame().chain += 1;
                return Ok(at + 2);
            }
            (Word::Open, "(") if touches => self.open(Bracket::Call, at),
            (Word::Open, "[") => self.open(Bracket::Index, at),
            (Word::Close, _) => return self.close(at),
            (Word::Comma, _) => {
                if !matches!(self.frame().bracket, Bracket::Call | Bracket::List) {
                    return Err(self.wrong(at, "a `,` outside of a list").help("join conditions with `&&` or `||`"));
                }
                self.no_open_question()?;
                let frame = self.frame();
                (frame.chain, frame.choices) = (0, 0);
                self.operand = false;
            }
            (Word::Question, _) => {
                let frame = self.frame();
                frame.questions.push(at);
                frame.choices += 1;
                frame.chain = 0;
                self.operand = false;
            }
            (Word::Colon, _) => {
                if self.frame().questions.pop().is_none() {
                    return Err(self
                        .wrong(at, "a `:` without its `?`")
                        .help("a choice is written `condition ? value : other`"));
                }
                self.frame().chain = 0;
                self.operand = false;
            }
            _ => return Err(self.missing_between(at)),
        }
        Ok(at + 1)
    }

    fn open(&mut self, bracket: Bracket, at: usize) {
        self.frame().chain += 1;
        self.frames.push(Frame::new(bracket, at));
        self.operand = false;
    }

    fn close(&mut self, at: usize) -> Result<usize, Mistake> {
        self.no_open_question()?;
        if self.frames.len() == 1 {
            return Err(self.closes_nothing(at));
        }
        let opened = self.frame().opened;
        let wanted = if self.word(opened) == "(" { ")" } else { "]" };
        if self.word(at) != wanted {
            return Err(self
                .wrong(at, format!("`{}` where `{wanted}` is expected", self.word(at)))
                .help(format!("close `{}` first", self.word(opened))));
        }
        self.partners[opened] = at;
        self.frames.pop();
        self.operand = true;
        Ok(at + 1)
    }

    fn closes_nothing(&self, at: usize) -> Mistake {
        self.wrong(at, format!("`{}` closes nothing", self.word(at))).help("remove it, or open the bracket before")
    }

    fn no_open_question(&mut self) -> Result<(), Mistake> {
        match self.frame().questions.last() {
            Some(&at) => {
                Err(self.wrong(at, "a `?` without its `:`").help("a choice is written `condition ? value : other`"))
            }
            None => Ok(()),
        }
    }

    fn missing_before(&self, at: usize) -> Mistake {
        let word = self.word(at);
        match at.checked_sub(1) {
            None => self.wrong(at, format!("a value is missing before `{word}`")),
            Some(before) => self.wrong(at, format!("a value is missing between `{}` and `{word}`", self.word(before))),
        }
        .help("write a variable such as `prompt.tokens`, a number, or a text in quotes")
    }

    fn missing_between(&self, at: usize) -> Mistake {
        let word = self.word(at);
        if let Some((_, sign)) = WORDS.iter().find(|(known, _)| word.eq_ignore_ascii_case(known)) {
            return self.wrong(at, format!("`{word}` is no operator")).help(format!("write `{sign}`"));
        }
        if word.eq_ignore_ascii_case("not") {
            return self.wrong(at, "`not` is no operator").help("write `!(a in b)` or `a != b`");
        }
        self.wrong(at, format!("an operator is missing between `{}` and `{word}`", self.word(at - 1)))
            .help("write `&&`, `||` or a comparison such as `==`; a text of several words stands in quotes")
    }

    fn end(mut self) -> Result<Partners, Mistake> {
        let Some(last) = self.tokens.len().checked_sub(1) else {
            return Err(Mistake::new(0..self.text.len(), "an empty condition")
                .help("write what has to hold, such as `prompt.tokens > 8000`, or leave `when` out"));
        };
        if !self.operand {
            return Err(self
                .wrong(last, format!("a value is missing after `{}`", self.word(last)))
                .help("write a variable such as `prompt.tokens`, a number, or a text in quotes"));
        }
        self.no_open_question()?;
        if self.frames.len() > 1 {
            let opened = self.frame().opened;
            let wanted = if self.word(opened) == "(" { ")" } else { "]" };
            return Err(self
                .wrong(opened, format!("`{}` is never closed", self.word(opened)))
                .help(format!("add `{wanted}` where it ends")));
        }
        Ok(self.partners)
    }
}
