//! Files of outcomes: prompts with the quality of a small and a large model's answers.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    cli::unpack,
    config::{Problem, Problems, plain},
    prompt::complexity::{Features, fit::Sample},
};

/// A large model that is worse than a small one by more than this on a whole task was scored wrongly there.
const BROKEN: f64 = 0.15;

/// A line, as it is written.
#[derive(Deserialize)]
struct Line {
    task: String,
    prompt: String,
    small: Option<f64>,
    large: Option<f64>,
    scores: Option<BTreeMap<String, f64>>,
}

/// One prompt with its outcomes.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// Which of the files it is from.
    pub(super) file: usize,
    /// Which of the benchmarks: the file itself, or its task in a file with scores by model.
    pub(super) benchmark: usize,
    /// What it is about.
    pub(super) task: String,
    /// The prompt.
    pub(super) prompt: String,
    /// Quality of the small model's answer, in `0..=1`.
    pub(super) small: f64,
    /// Quality of the large model's answer, in `0..=1`.
    pub(super) large: f64,
}

/// Two models that are compared.
pub(super) struct Pair {
    pub(super) small: String,
    pub(super) large: String,
    /// Rows that have both, with the quality of each.
    pub(super) rows: Vec<(usize, f64, f64)>,
}

/// All that the files say.
pub(super) struct Outcomes {
    /// Names of the files.
    pub(super) files: Vec<String>,
    /// Names of the benchmarks.
    pub(super) benchmarks: Vec<String>,
    /// The prompts.
    pub(super) rows: Vec<Outcome>,
    pub(super) pairs: Vec<Pair>,
}

impl Outcomes {
    /// Reads the files. Of scores by model the means over `small` and over `large` count.
    pub(super) fn open(files: &[PathBuf], small: &[String], large: &[String]) -> Result<Self, Problems> {
        let mut outcomes = Self { files: Vec::new(), benchmarks: Vec::new(), rows: Vec::new(), pairs: Vec::new() };
        for small in small {
            for large in large {
                outcomes.pairs.push(Pair { small: small.clone(), large: large.clone(), rows: Vec::new() });
            }
        }
        for path in files {
            let bytes = read(path).map_err(|error| {
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
        Ok(outcomes)
    }

    fn line(&mut self, file: &str, line: &[u8], small: &[String], large: &[String]) -> Result<(), (String, String)> {
        let form = "a line is `{id, task, prompt, small, large}` or `{id, task, prompt, scores: {model: quality}}`";
        let line: Line =
            serde_json::from_slice(line).map_err(|error| (format!("not an outcome: {error}"), form.to_owned()))?;
        let (benchmark, low, high) = match (line.small, line.large, &line.scores) {
            (Some(small), Some(large), None) => (file, small, large),
            (None, None, Some(scores)) => {
                for pair in &mut self.pairs {
                    if let (Some(small), Some(large)) = (scores.get(&pair.small), scores.get(&pair.large)) {
                        pair.rows.push((self.rows.len(), *small, *large));
                    }
                }
                (&*line.task, mean(scores, "--small", small)?, mean(scores, "--large", large)?)
            }
            _ => return Err(("it has neither `small` and `large` nor `scores`".to_owned(), form.to_owned())),
        };
        if let Some(wrong) = [low, high].into_iter().find(|quality| !(0.0..=1.0).contains(quality)) {
            return Err((format!("a quality of {wrong}"), "qualities are from 0 to 1".to_owned()));
        }
        let benchmark = self.benchmarks.iter().position(|known| known == benchmark).unwrap_or_else(|| {
            self.benchmarks.push(benchmark.to_owned());
            self.benchmarks.len() - 1
        });
        let file = self.files.len() - 1;
        self.rows.push(Outcome { file, benchmark, task: line.task, prompt: line.prompt, small: low, large: high });
        Ok(())
    }

    /// Tasks that are not fitted on, with the reason: their scoring cannot be right.
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

    /// What weights are fitted on.
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

fn mean(scores: &BTreeMap<String, f64>, option: &str, models: &[String]) -> Result<f64, (String, String)> {
    let has = || scores.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if models.is_empty() {
        return Err((format!("scores by model, and no `{option}` says whose count"), format!("it has {}", has())));
    }
    let mut sum = 0.0;
    for model in models {
        sum += scores.get(model).ok_or_else(|| (format!("no score of `{model}`"), format!("it has {}", has())))?;
    }
    Ok(sum / models.len() as f64)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    unpack::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn problem(path: &Path, message: String, help: impl Into<std::borrow::Cow<'static, str>>) -> Problems {
    Problems::new(&path.display().to_string(), "".into(), vec![Problem::whole(message).help(help)])
}
