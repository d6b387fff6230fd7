//! A problem in a policy file, shown with its position, the line itself and a remedy.

use std::{borrow::Cow, sync::Arc};

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use super::mistake::{At, Mistake};

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// The problem.
    pub message: Cow<'static, str>,
    /// Its position; `None` for the file as a whole.
    pub at: Option<At>,
    /// The remedy.
    pub help: Option<Cow<'static, str>>,
    /// The part of the file that it depends on.
    pub scope: ProblemScope,
    /// The variables that are not set, if that is the problem.
    pub unset: Vec<String>,
}

/// The part of the file that a problem depends on, besides its place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ProblemScope {
    /// A single value: it follows from no other problem.
    Value,
    /// A name that others define.
    Name,
    /// The named entry around it.
    Entry,
}

impl Problem {
    /// A problem at the position `at`.
    pub fn at(at: At, message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), at: Some(at), help: None, scope: ProblemScope::Entry, unset: Vec::new() }
    }

    /// A problem with the file as a whole.
    pub fn whole(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), at: None, help: None, scope: ProblemScope::Entry, unset: Vec::new() }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(self, help: impl Into<Cow<'static, str>>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// A problem of a name that nothing defines.
    #[must_use]
    pub fn of_name(self) -> Self {
        Self { scope: ProblemScope::Name, ..self }
    }

    /// A mistake in the value at `at`.
    pub fn mistake(at: At, mistake: Mistake) -> Self {
        Self {
            message: mistake.message,
            at: Some(at),
            help: mistake.help,
            scope: ProblemScope::Value,
            unset: mistake.unset,
        }
    }
}

impl Diagnostic for Problem {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as _)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let at = self.at?;
        Some(Box::new(std::iter::once(LabeledSpan::new(None, at.start, at.len))))
    }
}

/// All problems found in one file, in the order of its lines.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} in {}", count(.problems.len()), .source_code.name())]
pub struct Problems {
    source_code: NamedSource<Arc<str>>,
    problems: Vec<Problem>,
}

fn count(problems: usize) -> String {
    if problems == 1 { "1 problem".to_owned() } else { format!("{problems} problems") }
}

impl Problems {
    /// The `problems` of the file `name` with this `text`, whose secrets must be masked already.
    pub fn new(name: &str, text: Arc<str>, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| problem.at.map(|at| at.start));
        // A value that is used twice yields the same problem twice.
        problems.dedup();
        for at in problems.iter_mut().filter_map(|problem| problem.at.as_mut()) {
            at.start = floor(&text, at.start);
            at.len = floor(&text, at.start + at.len) - at.start;
            // For a problem that spans lines, the first line is shown.
            let shown = &text[at.start..at.start + at.len];
            at.len = shown.find(['\n', '\r']).unwrap_or(at.len);
        }
        Self { source_code: NamedSource::new(name, text), problems }
    }

    /// The file's name.
    pub fn file(&self) -> &str {
        self.source_code.name()
    }

    /// The file's text with secrets masked.
    pub fn text(&self) -> &str {
        self.source_code.inner()
    }

    /// Each problem with its line and column, both counted from 1; the first character for a problem with the whole
    /// file.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, &Problem)> {
        let text = self.source_code.inner();
        self.problems.iter().map(|problem| {
            let before = &text[..problem.at.map_or(0, |at| at.start)];
            let line_start = before.rfind('\n').map_or(0, |at| at + 1);
            (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1, problem)
        })
    }
}

/// The last character boundary of `text` at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

impl Diagnostic for Problems {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source_code)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.problems.iter().map(|problem| problem as _)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_not_bytes() {
        let at = At { start: "é: 1\nüü: ".len(), len: 1 };
        let problems = Problems::new("f", "é: 1\nüü: 2\n".into(), vec![Problem::at(at, "m")]);
        assert_eq!(problems.iter().map(|(line, column, _)| (line, column)).collect::<Vec<_>>(), [(2, 5)]);
        assert_eq!(problems.to_string(), "1 problem in f");
    }

    #[test]
    fn positions_outside_the_text_are_clamped() {
        let far = At { start: 99, len: 99 };
        let inside = At { start: 1, len: 1 };
        let problems = Problems::new("f", "é".into(), vec![Problem::at(far, "a"), Problem::at(inside, "b")]);
        assert_eq!(problems.iter().map(|(line, column, _)| (line, column)).collect::<Vec<_>>(), [(1, 1), (1, 2)]);
    }
}
