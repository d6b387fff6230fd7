//! Reader for files of outcomes: prompts with the quality of a small and a large model's answers.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use signalbox_config::{Problem, Problems, plain};
use signalbox_prompt::complexity::{Features, fit::Sample};
use signalbox_sim::gzip;

/// If the large model is worse than the small one by more than this over a whole task, its scoring is faulty.
const BROKEN: f64 = 0.15;

/// A line of a file.
#[derive(Deserialize)]
struct Line {
    task: String,
    prompt: String,
    small: Option<f64>,
    large: Option<f64>,
    scores: Option<BTreeMap<String, Option<f64>>>,
}

/// A prompt with its outcomes.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Index of the file.
    pub(super) file: usize,
    /// Index of the benchmark: the file, or the task if the file has scores by model.
    pub(super) benchmark: usize,
    /// Name of the task.
    pub(super) task: String,
    /// The prompt.
    pub(super) prompt: String,
    /// Quality of the small model's answer, in `0..=1`.
    pub(super) small: f64,
    /// Quality of the large model's answer, in `0..=1`.
    pub(super) large: f64,
}

/// A pair of models.
pub(super) struct Pair {
    pub(super) small: String,
    pub(super) large: String,
    /// Rows with both models, with the quality of each.
    pub(super) rows: Vec<(usize, f64, f64)>,
}

/// Contents of the files.
pub(super) struct Outcomes {
    /// Names of the files.
    pub(super) files: Vec<String>,
    /// Names of the benchmarks.
    pub(super) benchmarks: Vec<String>,
    /// The prompts.
    pub(super) rows: Vec<Outcome>,
    pub(super) pairs: Vec<Pair>,
    /// Files without model names, to which `--small` and `--large` do not apply.
    pub(super) unnamed: Vec<String>,
}

impl Outcomes {
    /// Reads the files. Scores by model are averaged over `small` and over `large`.
    pub(super) fn open(files: &[PathBuf], small: &[String], large: &[String]) -> Result<Self, Problems> {
        let mut outcomes = Self {
            files: Vec::new(),
            benchmarks: Vec::new(),
            rows: Vec::new(),
            pairs: Vec::new(),
            unnamed: Vec::new(),
        };
        for small in small {
            for large in large {
                outcomes.pairs.push(Pair { small: small.clone(), large: large.clone(), rows: Vec::new() });
            }
        }
        for path in files {
            let bytes = gzip::read(path).map_err(|error| {
                problem(path, format!("this file cannot be read: {}", plain(&error)), "check the path")
            })?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.split(".jsonl").next().unwrap_or_default().to_owned();
            outcomes.files.push(name.clone());
            let before = outcomes.rows.len();
            for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
                outcomes
                    .line(&name, line, small, large)
                    .map_err(|(message, help)| problem(path, format!("line {}: {message}", at + 1), help))?;
            }
            if outcomes.rows.len() == before {
                return Err(problem(path, "this file is empty".to_owned(), "name one with at least one outcome"));
            }
        }
        outcomes.pairs.retain(|pair| !pair.rows.is_empty());
        if outcomes.pairs.is_empty() && !(small.is_empty() && large.is_empty()) {
            let message = "no line has scores by model, and `--small` and `--large` choose among such".to_owned();
            let help = "leave the two options out: the lines' own `small` and `large` count";
            return Err(problem(&files[0], message, help));
        }
        Ok(outcomes)
    }

    fn line(&mut self, file: &str, line: &[u8], small: &[String], large: &[String]) -> Result<(), (String, String)> {
        let form = "a line is `{id, task, prompt, small, large}` or `{id, task, prompt, scores: {model: quality}}`";
        let line: Line =
            serde_json::from_slice(line).map_err(|error| (format!("not an outcome: {error}"), form.to_owned()))?;
        let (benchmark, low, high) = match (line.small, line.large, &line.scores) {
            (Some(small), Some(large), None) => {
                if self.unnamed.last().is_none_or(|last| last != file) {
                    self.unnamed.push(file.to_owned());
                }
                (file, quality(small, "small")?, quality(large, "large")?)
            }
            (None, None, Some(scores)) => {
                for pair in &mut self.pairs {
                    if let (Some(Some(small)), Some(Some(large))) = (scores.get(&pair.small), scores.get(&pair.large)) {
                        pair.rows.push((self.rows.len(), *small, *large));
                    }
                }
                let mean = |option, models| mean(&line.task, scores, option, models);
                (&*line.task, mean("--small", small)?, mean("--large", large)?)
            }
            (small, large, None) if small.is_some() != large.is_some() => {
                let lacks = if small.is_some() { "large" } else { "small" };
                let message = format!("task `{}` has no score in `{lacks}`", line.task);
                return Err((message, "drop the line, or give it one from 0 to 1".to_owned()));
            }
            _ => return Err(("it has neither `small` and `large` nor `scores`".to_owned(), form.to_owned())),
        };
        let benchmark = self.benchmarks.iter().position(|known| known == benchmark).unwrap_or_else(|| {
            self.benchmarks.push(benchmark.to_owned());
            self.benchmarks.len() - 1
        });
        let file = self.files.len() - 1;
        self.rows.push(Outcome { file, benchmark, task: line.task, prompt: line.prompt, small: low, large: high });
        Ok(())
    }

    /// Tasks with faulty scoring, with the reason; they are not used for fitting.
    pub(super) fn broken(&self) -> BTreeMap<&str, String> {
        let mut sums: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
        for row in &self.rows {
            let sum = sums.entry(&row.task).or_default();
            *sum = (sum.0 + row.small, sum.1 + row.large, sum.2 + 1.0);
        }
        let wrong = sums.into_iter().filter(|(_, (small, large, count))| (small - large) / count > BROKEN);
        wrong
            .map(|(task, (small, large, count))| {
                let (small, large) = (small / count, large / count);
                (task, format!("{task}: {count} prompts on which the large model scores {large:.2} and the small one {small:.2}"))
            })
            .collect()
    }

    /// Samples for fitting.
    pub(super) fn samples(&self, features: &[Features]) -> Vec<Sample> {
        let broken = self.broken();
        let rows = self.rows.iter().zip(features).filter(|(row, _)| !broken.contains_key(&*row.task));
        rows.map(|(row, features)| Sample {
            set: row.benchmark,
            features: features.clone(),
            small: row.small,
            large: row.large,
        })
        .collect()
    }
}

fn mean(
    task: &str,
    scores: &BTreeMap<String, Option<f64>>,
    option: &str,
    models: &[String],
) -> Result<f64, (String, String)> {
    let has = || {
        let known = scores.iter().filter(|(_, score)| score.is_some());
        format!("it has {}", known.map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", "))
    };
    if models.is_empty() {
        return Err((format!("scores by model, and no `{option}` says whose count"), has()));
    }
    let mut sum = 0.0;
    for model in models {
        let score = scores.get(model).copied().flatten();
        let score = score.ok_or_else(|| {
            let help = format!("drop the line, or name other models: {}", has());
            (format!("task `{task}` has no score of `{model}`"), help)
        })?;
        sum += quality(score, model)?;
    }
    Ok(sum / models.len() as f64)
}

/// Validates `score` of the model or field called `name`.
fn quality(score: f64, name: &str) -> Result<f64, (String, String)> {
    if (0.0..=1.0).contains(&score) {
        return Ok(score);
    }
    Err((format!("a quality of {score} for `{name}`"), "qualities are from 0 to 1".to_owned()))
}

fn problem(path: &Path, message: String, help: impl Into<std::borrow::Cow<'static, str>>) -> Problems {
    Problems::new(&path.display().to_string(), "".into(), vec![Problem::whole(message).help(help)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outcomes of a file, or its problem with the help.
    fn open(file: &str, small: &[&str], large: &[&str]) -> Result<Outcomes, (String, String)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file.jsonl");
        std::fs::write(&path, file).unwrap();
        let [small, large] =
            [small, large].map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        Outcomes::open(&[path], &small, &large).map_err(|problems| {
            let (_, _, problem) = problems.iter().next().unwrap();
            (problem.message.to_string(), problem.help.clone().unwrap_or_default().into_owned())
        })
    }

    fn by_model(scores: &str) -> String {
        let line = |scores: &str| format!(r#"{{"task":"t","prompt":"p","scores":{{{scores}}}}}"#);
        line(r#""a":0,"b":0.5,"c":1"#) + "\n" + &line(scores)
    }

    #[test]
    fn each_score_that_counts_is_from_0_to_1() {
        let wrong = |scores: &str| open(&by_model(scores), &["a", "b"], &["c"]).err().unwrap_or_default();
        // Their mean would be valid.
        let error = ("line 2: a quality of -0.5 for `a`".to_owned(), "qualities are from 0 to 1".to_owned());
        assert_eq!(wrong(r#""a":-0.5,"b":1,"c":1"#), error);
        assert!(wrong(r#""a":0,"b":0,"c":1.5"#).0.starts_with("line 2: a quality of 1.5 for `c`"));
        assert!(wrong(r#""a":0,"b":0,"c":1e999"#).0.starts_with("line 2: not an outcome: number out of range"));
        assert!(open(&by_model(r#""a":0,"b":1,"c":1,"d":null"#), &["a"], &["c"]).is_ok(), "`d` is not used");
    }

    #[test]
    fn a_line_without_a_score_is_reported_with_its_task_and_model() {
        let help = "drop the line, or name other models: it has `a`, `b`";
        for scores in [r#""a":0,"b":1"#, r#""a":0,"b":1,"c":null"#] {
            let error = open(&by_model(scores), &["a"], &["c"]).err();
            assert_eq!(error, Some(("line 2: task `t` has no score of `c`".to_owned(), help.to_owned())));
        }
        let error = open(r#"{"task":"t","prompt":"p","small":1,"large":null}"#, &[], &[]).err().unwrap_or_default();
        assert_eq!(error.0, "line 1: task `t` has no score in `large`");
    }

    #[test]
    fn models_are_not_named_where_no_line_has_any() {
        let plain = r#"{"task":"t","prompt":"p","small":0,"large":1}"#;
        let error = open(plain, &["a"], &[]).err().unwrap_or_default();
        assert!(error.0.contains("no line has scores by model") && error.1.contains("leave the two options out"));
        assert!(open(plain, &[], &[]).is_ok());
        let mixed = format!("{}\n{plain}", by_model(r#""a":0,"c":1"#));
        let mixed = open(&mixed, &["a"], &["c"]).map(|found| (found.rows.len(), found.unnamed));
        assert_eq!(mixed, Ok((3, vec!["file".to_owned()])));
    }
}
