//! Compiles the conditions of a file, and reports problems at their exact position.

use super::reader::Reader;
use crate::condition::{Condition, Names};
use signalbox_config::{Expression, Field, Problem};

impl Reader<'_> {
    /// The condition in `field`; `None` after reporting its problems.
    pub(super) fn condition(&mut self, field: &Field<Expression>, names: &Names) -> Option<Condition> {
        let Expression(text) = self.read(field)?;
        let mistakes = match Condition::compile(&text, names) {
            Ok(condition) => return Some(condition),
            Err(mistakes) => mistakes,
        };
        if text != field.text() {
            // The value of an environment variable must not be shown, and has no position in the file.
            self.report(
                Problem::at(field.at(), "not a condition, once its variables are filled in")
                    .help("write the condition itself here to see its errors"),
            );
            return None;
        }
        for mistake in mistakes {
            let problem = Problem::at(self.config.part(field, mistake.range), mistake.message);
            self.report(match mistake.help {
                Some(help) => problem.help(help),
                None => problem,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, io};

    use serde::Deserialize;

    use super::*;
    use signalbox_config::{Config, yaml};

    /// A file with a condition where it has a text of another kind, so that the test is independent of routes.
    #[derive(Default, Deserialize)]
    struct Document {
        journal: Option<Journal>,
    }

    #[derive(Deserialize)]
    struct Journal {
        path: Field<Expression>,
    }

    /// The problems reported for the condition in `text`: line, column, the marked part, and the message.
    fn reported(text: &str) -> Vec<(usize, usize, String, String)> {
        let document: Document = yaml(text).unwrap();
        let var = |name: &str| (name == "N").then(|| "s3cret".to_owned());
        let config = Config::parse("test.yaml", text, &var, &|_| Err(io::ErrorKind::NotFound.into())).unwrap();
        let mut reader = Reader { config: &config, problems: Vec::new(), route_names: HashSet::new() };
        let names = Names { pools: vec!["small".into()], routes: Vec::new(), keys: Vec::new() };
        let condition = reader.condition(&document.journal.unwrap().path, &names);
        assert_eq!(condition.is_some(), reader.problems.is_empty());
        let problems = config.problems(reader.problems);
        let part = |problem: &Problem| problem.at.map(|at| text[at.start..at.start + at.len].to_owned()).unwrap();
        problems.iter().map(|(line, column, it)| (line, column, part(it), it.message.to_string())).collect()
    }

    #[test]
    fn a_problem_marks_its_part() {
        for (text, line, column, part) in [
            ("journal: { path: prompt.tokns > 8000 }", 1, 18, "prompt.tokns"),
            ("# é\njournal:\n  path: request.stream && request.tools   # often\n", 3, 27, "request.tools"),
            ("journal: { path: 'pool.smal.queue > 3' }", 1, 24, "smal"),
            ("journal: { path: 'key.team == ''é'' && pool.smal.queue > 3' }", 1, 45, "smal"),
            ("journal: { path: \"request.class == \\\"bach\\\"\" }", 1, 36, "\\\"bach\\\""),
            ("journal: { path: \"request.tools >\" }", 1, 33, ">"),
            ("journal: { path: \"\" }", 1, 19, ""),
            ("journal:\n  path: >\n    request.stream &&\n    request.tools\n", 4, 5, "request.tools"),
            ("journal:\n  path: |\n    request.stream &&\n    request.tools\n", 4, 5, "request.tools"),
            ("journal:\n  path: request.stream &&\n    request.tools\n", 3, 5, "request.tools"),
            // If the text does not match the file character by character, the whole value is marked.
            ("journal: { path: \"request.tools\\t\" }", 1, 18, "\"request.tools\\t\""),
        ] {
            let found = reported(text);
            let [(line_found, column_found, part_found, _)] = &found[..] else { panic!("{text}: {found:?}") };
            assert_eq!((*line_found, *column_found, &**part_found), (line, column, part), "{text}");
        }
    }

    #[test]
    fn all_mistakes_are_reported_and_conditions_may_span_lines() {
        assert_eq!(reported("journal: { path: request.tools && pool.x.queue > 3 }").len(), 2);
        assert_eq!(reported("journal: { path: request.tools > 1 }"), []);
        assert_eq!(reported("journal:\n  path: |\n    request.tools > 1 &&\n    request.stream\n"), []);
    }

    #[test]
    fn values_of_environment_variables_are_not_repeated() {
        let found = reported("journal: { path: 'request.modl == \"${N}\"' }");
        assert_eq!(found.len(), 1);
        assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
    }
}
