//! The problems of a file's shape, and the others that do not merely follow from them.

use super::{
    mistake::At,
    problem::{Problem, ProblemScope},
    raw::Document,
    recover::LeftOut,
};

/// Sections whose entries others refer to.
const REFERRED: [&str; 6] = ["accounts", "engines", "keys", "models", "pools", "teams"];

/// The problems of entries that were left out of a document.
#[derive(Debug, Default)]
pub(super) struct Shape {
    problems: Vec<Problem>,
    left_out: Vec<LeftOut>,
    /// Offsets at which the named entries of the document begin, ascending.
    begins: Vec<usize>,
}

impl Shape {
    pub(super) fn new(document: &Document, problems: Vec<Problem>, left_out: Vec<LeftOut>) -> Self {
        let mut begins = Vec::new();
        let mut add = |at: usize| begins.push(at);
        document.pools.iter().flat_map(|it| &it.entries).for_each(|(key, _)| add(key.at().start));
        document.models.iter().flat_map(|it| &it.entries).for_each(|(key, _)| add(key.at().start));
        document.engines.iter().flat_map(|it| &it.entries).for_each(|(key, _)| add(key.at().start));
        document.accounts.iter().flat_map(|it| &it.entries).for_each(|(key, _)| add(key.at().start));
        document.teams.iter().flat_map(|it| &it.entries).for_each(|(key, _)| add(key.at().start));
        begins.sort_unstable();
        Self { problems, left_out, begins }
    }

    /// These problems, and those of `found` that follow neither from them nor from the `unset` variables. `text` is the
    /// file as it is shown.
    pub(super) fn with(&self, found: Vec<Problem>, unset: &[Problem], text: &str) -> Vec<Problem> {
        let unread = |problem: &Problem| {
            let near = |at: At| unset.iter().filter_map(|it| it.at).any(|it| self.owner(it) == self.owner(at));
            problem.at.map_or(!unset.is_empty(), near)
        };
        let follows = |problem: &Problem| match problem.scope {
            ProblemScope::Value => false,
            ProblemScope::Name => self.may_cause(problem, text),
            ProblemScope::Entry => self.may_cause(problem, text) || unread(problem),
        };
        let kept = found.into_iter().filter(|problem| !follows(problem));
        self.problems.iter().cloned().chain(kept).collect()
    }

    /// Number of the named entry at a position.
    fn owner(&self, at: At) -> usize {
        self.begins.partition_point(|begin| *begin <= at.start)
    }

    fn may_cause(&self, problem: &Problem, text: &str) -> bool {
        let Some(at) = problem.at else { return !self.left_out.is_empty() };
        let word = text.get(at.start..at.start + at.len).unwrap_or_default();
        self.left_out.iter().any(|out| {
            let is_section = out.keys.len() == 1
                && (out.meant.is_some_and(|meant| REFERRED.contains(&meant)) || REFERRED.contains(&&*out.keys[0]));
            let is_named = out.keys.iter().skip(1).any(|key| !key.is_empty() && word.contains(key.as_str()));
            let is_near =
                problem.scope == ProblemScope::Entry && out.at.is_some_and(|it| self.owner(it) == self.owner(at));
            is_section || is_named || is_near
        })
    }
}
