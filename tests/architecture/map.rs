//! Resolves a path to the file that defines the item, through re-exports.

use std::collections::HashMap;

use super::source::{Path, Source};

/// The files by module.
pub(crate) struct Map<'a>(HashMap<&'a [String], &'a Source>);

impl<'a> Map<'a> {
    pub(crate) fn of(sources: &[&'a Source]) -> Self {
        let modules = sources.iter().filter(|source| source.file != "src/main.rs");
        Self(modules.map(|source| (source.module.as_slice(), *source)).collect())
    }

    /// The file of a module.
    pub(crate) fn source(&self, module: &[String]) -> Option<&'a Source> {
        self.0.get(module).copied()
    }

    /// The module (with a file of its own) in which the item at `path` is defined, re-exports followed.
    pub(crate) fn definition(&self, path: &[String]) -> Path {
        self.follow(path, 8)
    }

    fn follow(&self, path: &[String], depth: u32) -> Path {
        let known = (1..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length])).unwrap_or(1);
        let module = path[..known].to_vec();
        let (Some(source), Some(name)) = (self.0.get(module.as_slice()), path.get(known)) else { return module };
        if depth == 0 || source.items.contains(name) {
            return module;
        }
        if let Some(target) = source.aliases.get(name).filter(|target| target[0] == "crate") {
            return self.follow(&[target, &path[known + 1..]].concat(), depth - 1);
        }
        let globs = source.globs.iter().filter(|glob| glob[0] == "crate" && **glob != module);
        let through = globs.map(|glob| self.follow(&[glob, &path[known..]].concat(), depth - 1));
        through
            .into_iter()
            .find(|at| self.0.get(at.as_slice()).is_some_and(|source| source.items.contains(name)))
            .unwrap_or(module)
    }
}
