//! What a policy asks of requests that a journal cannot tell of any of them.

use super::{entry::Entries, line::Particulars};
use crate::policy::{
    Policy, Way,
    condition::{Condition, Variable},
};

/// Something that a policy asks, and the journal has of no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// What asks: a rule, by its name.
    pub rule: String,
    /// What is asked, as conditions write it.
    pub variable: &'static str,
    /// How a journal comes to have it.
    pub help: &'static str,
}

const FORM: &str = "journals of this release have it: gather a new one";
const FACTS: &str = "gather a journal with `journal: { facts: on }`";
const BUDGETS: &str = "error budgets run over days and are not played: ask `pool.<name>.attainment` in their place";
const NEVER: &str = "headers are never noted: put another condition in its place";

/// What `policy` asks that `entries` have of no request.
pub fn unrecorded(policy: &Policy, entries: &Entries) -> Vec<Unrecorded> {
    let mut all: Vec<Unrecorded> = Vec::new();
    for rule in policy.models.rules() {
        let asked = rule.when.as_ref().map_or(&[][..], Condition::variables).iter().copied();
        let tiers = matches!(rule.way, Way::Tiers(_)).then_some(Variable::PromptComplexity);
        for variable in asked.chain(tiers) {
            let Some(help) = lacking(variable, entries) else { continue };
            let unrecorded = Unrecorded { rule: rule.name.to_string(), variable: variable.name(), help };
            if !all.contains(&unrecorded) {
                all.push(unrecorded);
            }
        }
    }
    all
}

/// How to come by a `variable`, where no request has it.
fn lacking(variable: Variable, entries: &Entries) -> Option<&'static str> {
    let none =
        |has: fn(&Particulars) -> bool| !entries.all.iter().filter_map(|entry| entry.particulars.as_ref()).any(has);
    match variable {
        Variable::PromptComplexity => none(|it| it.complexity.is_some()).then_some(FACTS),
        Variable::PromptLanguage => none(|it| it.language.is_some()).then_some(FACTS),
        Variable::Headers => Some(NEVER),
        Variable::PoolBurn | Variable::PoolSlo | Variable::RouteBurn | Variable::RouteSlo => Some(BUDGETS),
        Variable::RequestClass
        | Variable::RequestTools
        | Variable::RequestImages
        | Variable::RequestSchema
        | Variable::RequestMaxTokens
        | Variable::RequestTurns => none(|_| true).then_some(FORM),
        Variable::PromptTokens
        | Variable::RequestModel
        | Variable::RequestStream
        | Variable::KeyId
        | Variable::KeyTeam
        | Variable::KeyTags
        | Variable::PoolTtftP95
        | Variable::PoolQueue
        | Variable::PoolAttainment
        | Variable::Time => None,
    }
}
