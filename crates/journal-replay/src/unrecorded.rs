//! Variables that a policy uses and a journal lacks.

use super::entry::Entries;
use signalbox_journal::recorded::RoutingFacts;
use signalbox_policy::{
    Policy, RouteChoice,
    condition::{Condition, Variable},
};

/// A variable that a rule uses and no recorded request has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrecorded {
    /// Name of the rule.
    pub rule: String,
    /// Name of the variable in conditions.
    pub variable: &'static str,
    /// The way to record it.
    pub help: &'static str,
}

const FORM: &str = "journals of this release record it: gather a new one";
const FACTS: &str = "gather a journal with `journal: { facts: on }`";
const BUDGETS: &str = "error budgets run over days and are not replayed: use `pool.<name>.attainment` instead";
const NEVER: &str = "headers are never recorded: use another condition";

/// Variables that `policy` uses and none of `entries` has.
pub fn unrecorded(policy: &Policy, entries: &Entries) -> Vec<Unrecorded> {
    let mut all: Vec<Unrecorded> = Vec::new();
    for rule in policy.models.rules() {
        let asked = rule.when.as_ref().map_or(&[][..], Condition::variables).iter().copied();
        let tiers = matches!(rule.way, RouteChoice::Tiers(_)).then_some(Variable::PromptComplexity);
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

/// The way to record `variable`, if no request has it.
fn lacking(variable: Variable, entries: &Entries) -> Option<&'static str> {
    let none =
        |has: fn(&RoutingFacts) -> bool| !entries.all.iter().filter_map(|entry| entry.routing_facts.as_ref()).any(has);
    match variable {
        Variable::PromptComplexity => none(|it| it.complexity.is_some()).then_some(FACTS),
        Variable::PromptLanguage => none(|it| it.language.is_some()).then_some(FACTS),
        Variable::Headers => Some(NEVER),
        Variable::PoolBurn | Variable::PoolSlo | Variable::RouteBurn | Variable::RouteSlo => Some(BUDGETS),
        Variable::RequestClass
        | Variable::RequestTools
        | Variable::RequestImages
        | Variable::RequestAudio
        | Variable::RequestVideo
        | Variable::RequestFiles
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
