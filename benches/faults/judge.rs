//! Classification of responses against the deterministic text of the models: complete, refused, broken or wrong.

use std::collections::BTreeSet;

use crate::{caller::Reply, provider::word};

/// Outcome of a request. A reason has its kind before the first colon and the details after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The complete answer, once, and the models that produced it.
    Whole(BTreeSet<String>),
    /// An error in place of an answer.
    Refused(String),
    /// A stream that broke off: with an error event (`reported`), or by a broken connection alone.
    Broken { reported: bool, why: String },
    /// A response that looks like a success and is not, or that has foreign or repeated text.
    Wrong(String),
    /// No response, or none that ended before the caller's time-out.
    Lost(String),
}

/// Grade of a fault, the worst first.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Grade {
    Fail,
    Partial,
    Safe,
    Pass,
}

impl Grade {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Partial => "partial",
            Self::Safe => "safe",
            Self::Pass => "pass",
        }
    }
}

/// The tokens of an answer by its text.
enum Text {
    /// The first so many tokens, by these models.
    Prefix(usize, BTreeSet<String>),
    Wrong(String),
}

fn read(text: &str, case: &str) -> Text {
    let (mut count, mut models) = (0, BTreeSet::new());
    for token in text.split_inclusive(' ') {
        let model = token.split('/').next().unwrap_or_default();
        if token != word(model, case, count) {
            // The last token may be incomplete.
            if word(model, case, count).starts_with(token) && text.ends_with(token) {
                break;
            }
            return Text::Wrong(format!("after {count} tokens comes {token:?}"));
        }
        models.insert(model.to_owned());
        count += 1;
    }
    Text::Prefix(count, models)
}

impl Reply {
    /// Classifies the response to request `case`, which should have `tokens` tokens.
    pub(crate) fn outcome(&self, case: &str, tokens: usize) -> Outcome {
        let Some(status) = self.status else {
            return Outcome::Lost(self.broken.clone().unwrap_or_default());
        };
        let gave_up = self.broken.as_ref().filter(|why| why.starts_with("the caller gave up"));
        let (count, models) = match read(&self.text, case) {
            Text::Prefix(count, models) => (count, models),
            Text::Wrong(why) => return Outcome::Wrong(format!("not one answer: {why}")),
        };
        if status != 200 {
            let code = self.error.as_ref().map_or("without a message".to_owned(), |error| error.code.clone());
            return Outcome::Refused(format!("{status} {code}"));
        }
        if let Some(why) = gave_up {
            return Outcome::Lost(format!("{why}: with {count} tokens"));
        }
        if let Some(error) = &self.error {
            return if self.done && self.finish.is_some() {
                Outcome::Wrong(format!("an error within ({}), and yet an end as of a success", error.code))
            } else {
                Outcome::Broken { reported: true, why: format!("`{}`: after {count} tokens", error.code) }
            };
        }
        if let Some(why) = &self.broken {
            return Outcome::Broken { reported: false, why: format!("{why}: after {count} tokens") };
        }
        if count < tokens {
            let what = if count == 0 { "an empty answer" } else { "a cut answer" };
            return Outcome::Wrong(format!("{what} as a success: {count} of {tokens} tokens"));
        }
        if count > tokens {
            return Outcome::Wrong(format!("more tokens than asked for: {count} of {tokens}"));
        }
        if self.roles > 1 {
            return Outcome::Wrong("a second role".to_owned());
        }
        if self.finish.is_none() {
            return Outcome::Wrong("no reason to finish".to_owned());
        }
        Outcome::Whole(models)
    }
}

/// A grade and the reasons for it.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) grade: Grade,
    pub(crate) why: Vec<String>,
}

impl Judgement {
    /// The grade of an answer that should be complete.
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let (grade, why) = match outcome {
            Outcome::Whole(models) if models.len() > 1 => (Grade::Partial, Some("two models in one answer".to_owned())),
            Outcome::Whole(_) => (Grade::Pass, None),
            Outcome::Refused(why) if why.ends_with("without a message") => (Grade::Partial, Some(why.clone())),
            Outcome::Refused(why) | Outcome::Broken { reported: true, why } => (Grade::Safe, Some(why.clone())),
            Outcome::Broken { reported: false, why } => {
                (Grade::Partial, Some(format!("without an error event: {why}")))
            }
            Outcome::Wrong(why) | Outcome::Lost(why) => (Grade::Fail, Some(why.clone())),
        };
        Self { grade, why: why.into_iter().collect() }
    }

    pub(crate) fn pass() -> Self {
        Self { grade: Grade::Pass, why: Vec::new() }
    }

    /// A rule of conduct; breaking it leaves a partial at best.
    pub(crate) fn kept(self, kept: bool, otherwise: impl Into<String>) -> Self {
        self.at_most(if kept { Grade::Pass } else { Grade::Partial }, otherwise)
    }

    /// A requirement without which the fault is failed.
    pub(crate) fn must(self, kept: bool, otherwise: impl Into<String>) -> Self {
        self.at_most(if kept { Grade::Pass } else { Grade::Fail }, otherwise)
    }

    pub(crate) fn at_most(mut self, grade: Grade, why: impl Into<String>) -> Self {
        if grade < Grade::Pass {
            self.why.push(why.into());
            self.grade = self.grade.min(grade);
        }
        self
    }

    /// Combines two judgements: the worse grade, and all reasons.
    pub(crate) fn and(self, other: Self) -> Self {
        let why = [self.why, other.why].concat();
        Self { grade: self.grade.min(other.grade), why }
    }
}
