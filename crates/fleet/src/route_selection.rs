//! Route selection: the first rule of the model that applies and, of its pools, those that can take the request, in the
//! rule's order. The gateway and the simulator share this code; [`RouteInput`] supplies the request.

use std::sync::Arc;

use super::{Pool, PoolForecast};
use signalbox_policy::{ByLength, Model, Route, RouteChoice, Rule, Target, Tiers, condition::Facts};
use signalbox_schedule::{
    boundary::Boundary,
    tiers::{Decision, TierView},
};
use signalbox_types::{Name, aim::MOST_TIERS};

/// A request to be routed.
pub trait RouteInput: Facts {
    /// True if the pool at this index supports the requested endpoint.
    fn supports_endpoint(&self, pool: usize) -> bool;
    /// True if the request has a single prompt, which must fit the context. A list of inputs has none.
    fn has_prompt(&self) -> bool;
    /// True if the prompt certainly has more than `n` tokens, by any engine's count.
    fn surely_more_tokens_than(&self, n: u64) -> bool;
    /// Forecast at a target of the named route; `None` where no healthy backend could take the request.
    fn pool_forecast(&self, route: &Name, target: &Target) -> Option<PoolForecast>;
    /// Learned boundary between short and long prompts of the named rule.
    fn boundary(&self, rule: &Name) -> Arc<Boundary>;
    /// True if the learners may learn from this request.
    fn allows_learning(&self) -> bool;
    /// True if it may go to one model only. Then a rule that leads there is used, whatever its condition, if no other does.
    fn has_one_model(&self) -> bool {
        false
    }
    /// Chooses a tier of the named rule; `views` has one entry per tier.
    fn tier(&self, rule: &Name, tiers: &Tiers, views: &[TierView]) -> Decision;
}

/// The selected route and the reasons.
#[derive(Clone, Debug)]
pub struct SelectedRoute {
    /// The route, reduced to pools that can take the request.
    pub route: Arc<Route>,
    /// Rules before the selected one, with the reason each did not apply.
    pub skipped: Vec<(Name, SkipReason)>,
    /// Indices of the pools left out because the prompt does not fit.
    pub too_small: Vec<usize>,
    /// Boundary in tokens and whether the prompt is long, where the length decided.
    pub length: Option<(f64, bool)>,
    /// The choice between tiers, where there was one.
    pub tier: Option<Decision>,
}

/// Reason why a rule did not apply.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Its condition is false.
    Condition,
    /// None of its pools supports the endpoint.
    Endpoint,
    /// The prompt fits none of its pools.
    Context,
}

/// Reason why a request has no route.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// The prompt fits no pool. Holds the largest context length.
    PromptTooLong(u64),
    /// No pool supports the endpoint.
    EndpointUnsupported,
    /// No rule's condition is true.
    NoRuleApplies,
}

/// Pools of a route by whether the prompt fits.
#[derive(Clone, Debug, PartialEq)]
pub enum Fit {
    /// The prompt fits into all of them.
    All,
    /// The prompt fits these, or may fit.
    Some(Vec<Target>),
    /// The prompt fits none. Holds the largest context length.
    None(u64),
}

/// Selects the route of `model` for a request.
pub fn select(model: &Model, input: &impl RouteInput, pools: &[Pool]) -> Result<SelectedRoute, NoRoute> {
    let (mut largest, mut unsupported, mut skipped) = (None, false, Vec::new());
    for rule in &model.rules {
        let reason = if rule.when.as_ref().is_some_and(|when| !when.holds(input)) {
            SkipReason::Condition
        } else {
            match usable(rule, input, pools) {
                Ok(usable) => return Ok(decide(rule, &usable, input, pools, skipped)),
                Err(NoRoute::PromptTooLong(context)) => {
                    largest = largest.max(Some(context));
                    SkipReason::Context
                }
                Err(_) => {
                    unsupported = true;
                    SkipReason::Endpoint
                }
            }
        };
        skipped.push((rule.name.clone(), reason));
    }
    if input.has_one_model()
        && let Some((rule, usable)) = model.rules.iter().find_map(|rule| Some((rule, usable(rule, input, pools).ok()?)))
    {
        return Ok(decide(rule, &usable, input, pools, skipped));
    }
    Err(match largest {
        Some(largest) => NoRoute::PromptTooLong(largest),
        None if unsupported => NoRoute::EndpointUnsupported,
        None => NoRoute::NoRuleApplies,
    })
}

/// The pools of a rule that can serve the request.
fn usable(rule: &Rule, input: &impl RouteInput, pools: &[Pool]) -> Result<Vec<Target>, NoRoute> {
    // All routes of a rule have the same pools, in different orders.
    let targets = rule.way.routes().first().map_or(&[][..], |route| &route.targets);
    let speaking: Vec<_> = targets.iter().filter(|target| input.supports_endpoint(target.pool)).cloned().collect();
    if speaking.is_empty() {
        return Err(NoRoute::EndpointUnsupported);
    }
    match fit(input, pools, &speaking) {
        Fit::All => Ok(speaking),
        Fit::Some(fitting) => Ok(fitting),
        Fit::None(largest) => Err(NoRoute::PromptTooLong(largest)),
    }
}

/// The `targets` that the prompt fits together with its answer. A hard rule, applied before any preference.
pub fn fit(input: &impl RouteInput, pools: &[Pool], targets: &[Target]) -> Fit {
    // The context limit applies to each input of a list alone, so the list as a whole is not checked.
    if !input.has_prompt() {
        return Fit::All;
    }
    let longest = Some(input.max_tokens());
    fitting(pools, targets, longest, &|n| input.more_tokens_than(n), &|n| input.surely_more_tokens_than(n))
}

/// The `targets` that a prompt fits with an answer of at most `max_tokens`. `exceeds` tests the best estimate of the
/// prompt's length. Where no target fits by that estimate, the targets remain that it may fit by `certain`: their
/// engines count exactly.
pub fn fitting(
    pools: &[Pool],
    targets: &[Target],
    max_tokens: Option<u64>,
    exceeds: &dyn Fn(u64) -> bool,
    certain: &dyn Fn(u64) -> bool,
) -> Fit {
    let contexts: Vec<_> = targets.iter().map(|target| pools[target.pool].context(target)).collect();
    // An answer has at least one token.
    let answer = max_tokens.unwrap_or(0).max(1);
    let those = |too_long: &dyn Fn(u64) -> bool| -> Vec<Target> {
        let fits = |context: &Option<u64>| {
            context.is_none_or(|most| most.checked_sub(answer).is_some_and(|left| !too_long(left)))
        };
        let both = targets.iter().zip(&contexts);
        both.filter(|(_, context)| fits(context)).map(|(target, _)| target.clone()).collect()
    };
    let sure = those(exceeds);
    if sure.len() == targets.len() {
        return Fit::All;
    }
    if !sure.is_empty() {
        return Fit::Some(sure);
    }
    let possible = those(certain);
    if !possible.is_empty() {
        return Fit::Some(possible);
    }
    Fit::None(contexts.into_iter().flatten().max().unwrap_or(0))
}

/// Builds the rule's route, reduced to the `usable` pools.
fn decide(
    rule: &Rule,
    usable: &[Target],
    input: &impl RouteInput,
    pools: &[Pool],
    skipped: Vec<(Name, SkipReason)>,
) -> SelectedRoute {
    let (mut length, mut tier) = (None, None);
    let route = match &rule.way {
        RouteChoice::Pools(route) => route,
        RouteChoice::Length(by) => by_length(&rule.name, by, usable, input, &mut length),
        RouteChoice::Tiers(tiers) => by_tiers(&rule.name, tiers, usable, input, pools, &mut tier),
    };
    if usable.len() == route.targets.len() {
        return SelectedRoute { route: route.clone(), skipped, too_small: Vec::new(), length, tier };
    }
    let (kept, left): (Vec<_>, Vec<_>) = route.targets.iter().cloned().partition(|target| usable.contains(target));
    // Other pools that were left out do not support the endpoint.
    let too_small = left.iter().map(|target| target.pool).filter(|pool| input.supports_endpoint(*pool)).collect();
    SelectedRoute { route: Arc::new(Route { targets: kept, ..Route::clone(route) }), skipped, too_small, length, tier }
}

fn by_length<'r>(
    name: &Name,
    by: &'r ByLength,
    usable: &[Target],
    input: &impl RouteInput,
    chosen: &mut Option<(f64, bool)>,
) -> &'r Arc<Route> {
    let [short, long] = &by.routes;
    let (at_short, at_long) = (&short.targets[0], &short.targets[1]);
    // Where the prompt fits only one of the two pools, there is no choice and nothing to learn.
    match (usable.contains(at_short), usable.contains(at_long)) {
        (true, false) => return short,
        (false, _) => return long,
        (true, true) => {}
    }
    let boundary = if let Some(tokens) = by.boundary {
        tokens as f64
    } else {
        let learned = input.boundary(name);
        if input.allows_learning()
            && let (Some(here), Some(there)) =
                (input.pool_forecast(&short.name, at_short), input.pool_forecast(&long.name, at_long))
        {
            learned.learn(input.tokens(), here.burden, there.burden);
        }
        learned.tokens()
    };
    let is_long = input.more_tokens_than((boundary as u64).saturating_sub(1));
    *chosen = Some((boundary, is_long));
    if is_long { long } else { short }
}

fn by_tiers<'r>(
    name: &Name,
    tiers: &'r Tiers,
    usable: &[Target],
    input: &impl RouteInput,
    pools: &[Pool],
    chosen: &mut Option<Decision>,
) -> &'r Arc<Route> {
    let can = |tier: usize| usable.contains(&tiers.routes[tier].targets[0]);
    // A request that fits only one tier is not decided by this rule and does not count as its choice.
    let mut able = (0..tiers.routes.len()).filter(|tier| can(*tier));
    let (first, second) = (able.next(), able.next());
    if second.is_none() {
        return &tiers.routes[first.unwrap_or(0)];
    }
    let view = |tier: usize| {
        let route: &Route = &tiers.routes[tier];
        let forecast = input.pool_forecast(&route.name, &route.targets[0]).filter(|_| can(tier));
        let price = pools[route.targets[0].pool].spec.price;
        TierView {
            cost_usd: forecast.zip(price).map_or(0.0, |(forecast, price)| price.cost(&forecast.usage)),
            e2e: forecast.map_or(f64::NAN, |forecast| forecast.e2e),
            available: forecast.is_some(),
        }
    };
    let mut views = [TierView { cost_usd: 0.0, e2e: f64::NAN, available: false }; MOST_TIERS];
    let count = tiers.routes.len().min(MOST_TIERS);
    for (tier, place) in views[..count].iter_mut().enumerate() {
        *place = view(tier);
    }
    let decision = input.tier(name, tiers, &views[..count]);
    *chosen = Some(decision);
    &tiers.routes[decision.tier.min(count - 1)]
}
