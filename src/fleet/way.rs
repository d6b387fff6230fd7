//! Which way a request goes: the first rule of its model that applies, and of that rule's pools those that can take it, in the order
//! that the rule gives. The whole decision, for the gateway and the simulator alike; what it asks of a request, [`Asks`] answers.

use std::sync::Arc;

use super::{Outlook, Pool};
use crate::{
    policy::{ByLength, Model, Route, RouteChoice, Rule, Target, Tiers, condition::Facts},
    schedule::{
        boundary::Boundary,
        tiers::{Decision, TierView},
    },
    types::{Name, aim::MOST_TIERS},
};

/// A request that asks for its way.
pub trait Asks: Facts {
    /// Whether the pool at this place speaks what is asked.
    fn speaks(&self, pool: usize) -> bool;
    /// Whether there is one prompt, which has to fit; a list of inputs is none.
    fn has_prompt(&self) -> bool;
    /// Whether the prompt has more than `n` tokens for all that can be known: no engine's own count would be less.
    fn surely_more_tokens_than(&self, n: u64) -> bool;
    /// What it would find at a target of the route of this name; `None` where no backend in good standing could take it.
    fn outlook(&self, route: &Name, target: &Target) -> Option<Outlook>;
    /// From which length on the rule of this name takes prompts for long, where that is learned.
    fn boundary(&self, rule: &Name) -> Arc<Boundary>;
    /// Whether anything is learned from it.
    fn teaches(&self) -> bool;
    /// The tier of the rule of this name that it belongs to; `views` has one for each.
    fn tier(&self, rule: &Name, tiers: &Tiers, views: &[TierView]) -> Decision;
}

/// The way a request goes, and why.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it goes: only pools that can take it.
    pub route: Arc<Route>,
    /// The rules before the one that it took, and why each did not apply.
    pub passed_over: Vec<(Name, PassedOver)>,
    /// Places of pools that were left out, because it does not fit there.
    pub too_small: Vec<usize>,
    /// The tokens from which on its rule takes prompts for long, and whether it was; where the length decided.
    pub length: Option<(f64, bool)>,
    /// The choice between tiers, where there was one.
    pub tier: Option<Decision>,
}

/// Why a rule did not apply.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PassedOver {
    /// Its condition does not hold.
    Condition,
    /// None of its pools speaks what is asked.
    Endpoint,
    /// The prompt fits into none of them.
    Context,
}

/// Why a request can go nowhere.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Nowhere {
    /// Its prompt fits into no pool; the largest takes so many tokens.
    TooLong(u64),
    /// No pool speaks what is asked.
    Silent,
    /// No condition holds.
    NoRule,
}

/// What becomes of a route's pools.
#[derive(Clone, Debug, PartialEq)]
pub enum Fit {
    /// The prompt fits into all of them.
    All,
    /// It fits into these, or may.
    Some(Vec<Target>),
    /// It fits into none; the largest takes so many tokens.
    None(u64),
}

/// The way that `model` gives to a request.
pub fn find(model: &Model, asks: &impl Asks, pools: &[Pool]) -> Result<Found, Nowhere> {
    let (mut largest, mut silent, mut passed_over) = (None, false, Vec::new());
    for rule in &model.rules {
        let because = if rule.when.as_ref().is_some_and(|when| !when.holds(asks)) {
            PassedOver::Condition
        } else {
            match usable(rule, asks, pools) {
                Ok(usable) => return Ok(decide(rule, &usable, asks, pools, passed_over)),
                Err(Nowhere::TooLong(context)) => {
                    largest = largest.max(Some(context));
                    PassedOver::Context
                }
                Err(_) => {
                    silent = true;
                    PassedOver::Endpoint
                }
            }
        };
        passed_over.push((rule.name.clone(), because));
    }
    Err(match largest {
        Some(largest) => Nowhere::TooLong(largest),
        None if silent => Nowhere::Silent,
        None => Nowhere::NoRule,
    })
}

/// The pools that a rule may lead to which can serve the request.
fn usable(rule: &Rule, asks: &impl Asks, pools: &[Pool]) -> Result<Vec<Target>, Nowhere> {
    // Every route of a rule has the same pools, in different orders.
    let targets = rule.way.routes().first().map_or(&[][..], |route| &route.targets);
    let speaking: Vec<_> = targets.iter().filter(|target| asks.speaks(target.pool)).cloned().collect();
    if speaking.is_empty() {
        return Err(Nowhere::Silent);
    }
    match fit(asks, pools, &speaking) {
        Fit::All => Ok(speaking),
        Fit::Some(fitting) => Ok(fitting),
        Fit::None(largest) => Err(Nowhere::TooLong(largest)),
    }
}

/// The `targets` into which the prompt fits with its answer: a hard rule, before any preference.
pub fn fit(asks: &impl Asks, pools: &[Pool], targets: &[Target]) -> Fit {
    // A list of inputs is no prompt: the limit holds for each of them.
    if !asks.has_prompt() {
        return Fit::All;
    }
    let longest = Some(asks.max_tokens());
    fitting(pools, targets, longest, &|n| asks.more_tokens_than(n), &|n| asks.surely_more_tokens_than(n))
}

/// The `targets` into which a prompt fits with an answer of at most `max_tokens`, where `exceeds` says whether it has more than so many
/// tokens by the best that is known. Where it is not known to fit into any, those are left that it may fit into, by what is `certain`:
/// their engines count exactly.
pub fn fitting(
    pools: &[Pool],
    targets: &[Target],
    max_tokens: Option<u64>,
    exceeds: &dyn Fn(u64) -> bool,
    certain: &dyn Fn(u64) -> bool,
) -> Fit {
    let contexts: Vec<_> = targets.iter().map(|target| pools[target.pool].context(target)).collect();
    // An answer has a token at least.
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

/// The route that the rule gives, cut down to the `usable` pools.
fn decide(
    rule: &Rule,
    usable: &[Target],
    asks: &impl Asks,
    pools: &[Pool],
    passed_over: Vec<(Name, PassedOver)>,
) -> Found {
    let (mut length, mut tier) = (None, None);
    let route = match &rule.way {
        RouteChoice::Pools(route) => route,
        RouteChoice::Length(by) => by_length(&rule.name, by, usable, asks, &mut length),
        RouteChoice::Tiers(tiers) => by_tiers(&rule.name, tiers, usable, asks, pools, &mut tier),
    };
    if usable.len() == route.targets.len() {
        return Found { route: route.clone(), passed_over, too_small: Vec::new(), length, tier };
    }
    let (kept, left): (Vec<_>, Vec<_>) = route.targets.iter().cloned().partition(|target| usable.contains(target));
    // The others do not speak what is asked.
    let too_small = left.iter().map(|target| target.pool).filter(|pool| asks.speaks(*pool)).collect();
    Found { route: Arc::new(Route { targets: kept, ..Route::clone(route) }), passed_over, too_small, length, tier }
}

fn by_length<'r>(
    name: &Name,
    by: &'r ByLength,
    usable: &[Target],
    asks: &impl Asks,
    told: &mut Option<(f64, bool)>,
) -> &'r Arc<Route> {
    let [short, long] = &by.routes;
    let (at_short, at_long) = (&short.targets[0], &short.targets[1]);
    // Where the prompt fits into one of the two alone, there is nothing to decide, nor to learn.
    match (usable.contains(at_short), usable.contains(at_long)) {
        (true, false) => return short,
        (false, _) => return long,
        (true, true) => {}
    }
    let boundary = if let Some(tokens) = by.boundary {
        tokens as f64
    } else {
        let learned = asks.boundary(name);
        if asks.teaches()
            && let (Some(here), Some(there)) = (asks.outlook(&short.name, at_short), asks.outlook(&long.name, at_long))
        {
            learned.learn(asks.tokens(), here.burden, there.burden);
        }
        learned.tokens()
    };
    let is_long = asks.more_tokens_than((boundary as u64).saturating_sub(1));
    *told = Some((boundary, is_long));
    if is_long { long } else { short }
}

fn by_tiers<'r>(
    name: &Name,
    tiers: &'r Tiers,
    usable: &[Target],
    asks: &impl Asks,
    pools: &[Pool],
    told: &mut Option<Decision>,
) -> &'r Arc<Route> {
    let can = |tier: usize| usable.contains(&tiers.routes[tier].targets[0]);
    // What fits into one tier alone is not this rule's to decide, and does not count as its choice.
    let mut able = (0..tiers.routes.len()).filter(|tier| can(*tier));
    let (first, second) = (able.next(), able.next());
    if second.is_none() {
        return &tiers.routes[first.unwrap_or(0)];
    }
    let view = |tier: usize| {
        let route: &Route = &tiers.routes[tier];
        let outlook = asks.outlook(&route.name, &route.targets[0]).filter(|_| can(tier));
        let price = pools[route.targets[0].pool].spec.price;
        TierView {
            cost_usd: outlook.zip(price).map_or(0.0, |(outlook, price)| price.cost(&outlook.usage)),
            e2e: outlook.map_or(f64::NAN, |outlook| outlook.e2e),
            available: outlook.is_some(),
        }
    };
    let mut views = [TierView { cost_usd: 0.0, e2e: f64::NAN, available: false }; MOST_TIERS];
    let count = tiers.routes.len().min(MOST_TIERS);
    for (tier, place) in views[..count].iter_mut().enumerate() {
        *place = view(tier);
    }
    let decision = asks.tier(name, tiers, &views[..count]);
    *told = Some(decision);
    &tiers.routes[decision.tier.min(count - 1)]
}
