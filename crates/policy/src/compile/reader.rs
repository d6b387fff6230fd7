//! Reads the values of a file one by one and collects their problems.

use std::collections::HashSet;

use signalbox_config::{At, Config, Field, Problem, Scalar, Word, nearest};
use signalbox_types::Name;

/// Reads values and collects their problems. After a problem it continues with a harmless value: the policy is
/// discarded, but the rest of the file is still checked.
pub(super) struct Reader<'a> {
    pub(super) config: &'a Config,
    pub(super) problems: Vec<Problem>,
    /// The route names used so far.
    pub(super) route_names: HashSet<String>,
}

impl Reader<'_> {
    pub(super) fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(super) fn read<T: Scalar>(&mut self, field: &Field<T>) -> Option<T> {
        self.config.read(field).map_err(|problem| self.report(problem)).ok()
    }

    pub(super) fn optional<T: Scalar>(&mut self, field: Option<&Field<T>>) -> Option<T> {
        self.read(field?)
    }

    pub(super) fn or<T: Scalar>(&mut self, field: Option<&Field<T>>, default: T) -> T {
        self.optional(field).unwrap_or(default)
    }

    pub(super) fn word(&mut self, field: Option<&Field<Word>>) -> Option<Name> {
        self.optional(field).map(|Word(word)| word.into())
    }

    /// The name of an entry, which is the key of a mapping.
    pub(super) fn name(&mut self, key: &Field<String>) -> Name {
        if key.text().contains("${") {
            self.report(
                Problem::at(key.at(), "a variable in a name").help("variables are substituted in values, not in names"),
            );
        } else if let Err(mistake) = Word::read(key.text()) {
            self.report(Problem::mistake(key.at(), mistake));
        }
        key.text().into()
    }

    /// The index in `names` of the name in `field`.
    pub(super) fn find<'n>(
        &mut self,
        kind: &str,
        field: &Field<Word>,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> Option<usize> {
        let Word(word) = self.read(field)?;
        let found = names.clone().position(|name| name == word);
        if found.is_none() {
            self.report(unknown(kind, field.text(), field.at(), nearest(&word, names)));
        }
        found
    }
}

/// The problem of an unknown name. `shown` is the text in the file, never the value of a variable.
pub(super) fn unknown(kind: &str, shown: &str, at: At, meant: Option<&str>) -> Problem {
    let problem = Problem::at(at, format!("there is no {kind} `{shown}`")).of_name();
    match meant {
        Some(meant) => problem.help(format!("did you mean `{meant}`?")),
        None => {
            problem.help(format!("name {} {kind} of this file", if kind.starts_with(['a', 'e']) { "an" } else { "a" }))
        }
    }
}
