//! Routes simulated requests by the rules of a model, as far as recorded lengths and the state of pools decide them.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use super::{
    router::{Directed, Router, Scene},
    traffic::Request,
};
use signalbox_fleet::{
    PlacementQuery, PoolForecast, Scratch,
    route_selection::{self, RouteInput},
};
use signalbox_policy::{
    Model, PRIORITY, RouteChoice, Rule, Target, Tiers,
    condition::{Condition, Facts, Variable},
};
use signalbox_schedule::{
    boundary::Boundary,
    tiers::{Context, Decision, TierView, Tierings},
};
use signalbox_types::{Aim, Complexity, Endpoint, Name};

/// Most keys that a rule with tiers keeps state for: simulated callers have none.
const MOST_KEYS: usize = 1;

/// A rule that recorded lengths do not decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// Name of the rule.
    pub rule: Name,
    /// The variable or property that it depends on.
    pub on: String,
}

/// The first rule of `model` that recorded lengths do not decide.
pub fn undecided(model: &Model) -> Option<Undecided> {
    model.rules.iter().find_map(|rule| {
        let on = unknown(rule)?;
        Some(Undecided { rule: rule.name.clone(), on })
    })
}

fn unknown(rule: &Rule) -> Option<String> {
    let asked = rule.when.as_ref().map_or(&[][..], Condition::variables);
    let is_known = |variable: &Variable| {
        use Variable as V;
        matches!(
            variable,
            V::PromptTokens | V::RequestModel | V::RequestStream | V::PoolTtftP95 | V::PoolQueue | V::PoolAttainment
        )
    };
    if let Some(variable) = asked.iter().find(|variable| !is_known(variable)) {
        return Some(format!("`{}`", variable.name()));
    }
    match &rule.way {
        RouteChoice::Tiers(tiers) if !matches!(tiers.aim, Aim::Shares(_)) => {
            Some("the complexity of prompts".to_owned())
        }
        RouteChoice::Tiers(_) | RouteChoice::Pools(_) | RouteChoice::Length(_) => None,
    }
}

/// Routes by the rules of one model. Tiers with shares get complexities at random, since a trace has no prompts: the
/// shares hold, and which prompt goes where is made up.
pub(super) struct RuleRouter {
    name: Name,
    model: Arc<Model>,
    boundaries: RefCell<HashMap<Name, Arc<Boundary>>>,
    tierings: RefCell<HashMap<Name, Tierings>>,
    dice: RefCell<fastrand::Rng>,
    scratch: RefCell<Scratch>,
}

impl RuleRouter {
    /// A router by the rules of `model`, which clients ask for as `name`.
    pub(super) fn new(name: Name, model: Arc<Model>, seed: u64) -> Self {
        Self {
            name,
            model,
            boundaries: RefCell::default(),
            tierings: RefCell::default(),
            dice: RefCell::new(fastrand::Rng::with_seed(seed)),
            scratch: RefCell::default(),
        }
    }
}

impl Router for RuleRouter {
    fn direct(&mut self, _: u32, request: &Request, scene: &Scene<'_>) -> Option<Directed> {
        let score = self.dice.borrow_mut().f64();
        let simulated = Simulated { router: self, request, scene, score };
        let selected = route_selection::select(&self.model, &simulated, &scene.snapshot.pools).ok()?;
        Some(Directed { route: selected.route, priority: PRIORITY, max_tokens: None })
    }
}

struct Simulated<'a> {
    router: &'a RuleRouter,
    request: &'a Request,
    scene: &'a Scene<'a>,
    /// Complexity of the prompt, evenly distributed.
    score: f64,
}

/// Only the variables of [`undecided`] are ever read; the others have neutral values.
impl Facts for Simulated<'_> {
    fn tokens(&self) -> u64 {
        self.request.job.prompt_tokens.into()
    }

    fn complexity(&self) -> f64 {
        self.score
    }

    fn language(&self) -> &'static str {
        ""
    }

    fn model(&self) -> &str {
        &self.router.name
    }

    fn class(&self) -> &'static str {
        "interactive"
    }

    fn stream(&self) -> bool {
        !self.request.whole
    }

    fn tools(&self) -> u64 {
        0
    }

    fn images(&self) -> u64 {
        0
    }

    fn audio(&self) -> u64 {
        0
    }

    fn video(&self) -> u64 {
        0
    }

    fn files(&self) -> u64 {
        0
    }

    fn schema(&self) -> bool {
        false
    }

    fn max_tokens(&self) -> u64 {
        0
    }

    fn turns(&self) -> u64 {
        1
    }

    fn header(&self, _: &str) -> Option<&str> {
        None
    }

    fn key_id(&self) -> &'static str {
        ""
    }

    fn key_team(&self) -> &'static str {
        ""
    }

    fn key_tags(&self) -> &[Name] {
        &[]
    }

    fn ttft_p95(&self, pool: usize) -> f64 {
        self.scene.meters[pool].ttft_p95(self.scene.now)
    }

    fn queue(&self, pool: usize) -> u64 {
        self.scene.waiting[pool] as u64
    }

    fn attainment(&self, pool: usize) -> f64 {
        self.scene.meters[pool].attainment(self.scene.now)
    }

    fn burn(&self, _: usize) -> f64 {
        0.0
    }

    fn slo(&self, _: usize) -> &'static str {
        "ok"
    }

    fn route_burn(&self, _: &str) -> f64 {
        0.0
    }

    fn route_slo(&self, _: &str) -> &'static str {
        "ok"
    }

    fn unix_time(&self) -> i64 {
        0
    }
}

impl RouteInput for Simulated<'_> {
    fn supports_endpoint(&self, pool: usize) -> bool {
        self.scene.snapshot.policy.pools[pool].speaks.contains(&Endpoint::Chat)
    }

    fn has_prompt(&self) -> bool {
        true
    }

    fn surely_more_tokens_than(&self, n: u64) -> bool {
        self.tokens() > n
    }

    fn pool_forecast(&self, route: &Name, target: &Target) -> Option<PoolForecast> {
        let pool = &self.scene.snapshot.pools[target.pool];
        let outputs = pool.learned.outputs.of(target, route);
        let ask = PlacementQuery {
            target,
            tried: &[],
            prompt: self.scene.prompt,
            session: self.request.session,
            room_only: false,
            outputs: &outputs,
            max_tokens: None,
            whole: self.request.whole,
            bounded: false,
            ttft_limit: None,
            tpot_limit: None,
        };
        let (_, forecast) = pool.peek(&ask, self.scene.now, &mut self.router.scratch.borrow_mut())?;
        Some(forecast).filter(|forecast| !forecast.avoided)
    }

    fn boundary(&self, rule: &Name) -> Arc<Boundary> {
        self.router.boundaries.borrow_mut().entry(rule.clone()).or_default().clone()
    }

    fn allows_learning(&self) -> bool {
        true
    }

    fn tier(&self, rule: &Name, tiers: &Tiers, views: &[TierView]) -> Decision {
        let mut tierings = self.router.tierings.borrow_mut();
        let new = || Tierings::new(&tiers.aim, tiers.routes.len(), MOST_KEYS);
        let tierings = tierings.entry(rule.clone()).or_insert_with(new);
        let context = Context {
            key: 0,
            session: self.request.session,
            continues: None,
            tool_loop: false,
            chance: self.router.dice.borrow_mut().f64(),
        };
        let complexity = Complexity { score: self.score, quality: 0.5, ..Complexity::default() };
        tierings.decide(&complexity, &context, views, self.scene.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signalbox_config::Config;
    use signalbox_policy::compile;

    fn undecided_in(routes: &str) -> Option<(String, String)> {
        let text = format!(
            "pools: {{ a: {{ model: m, backends: [http://h:1/v1] }}, b: {{ model: n, backends: [http://h:2/v1] }} }}\n\
             models: {{ auto: {{ routes: [{routes}] }} }}\n"
        );
        let policy = compile(&text.parse::<Config>().unwrap()).unwrap();
        undecided(policy.models.get("auto").unwrap()).map(|found| (found.rule.to_string(), found.on))
    }

    #[test]
    fn rules_on_lengths_and_pools_are_decided() {
        for routes in [
            "{ to: a }",
            "{ name: long, when: prompt.tokens > 8000 || pool.a.queue > 3, to: b }, { name: rest, to: a }",
            "{ complexity: { tiers: [a, b], shares: [50%, 50%] } }",
            "{ length: { short: a, long: b } }",
        ] {
            assert_eq!(undecided_in(routes), None, "{routes}");
        }
        let tools = undecided_in("{ name: tools, when: request.tools > 0, to: b }, { name: rest, to: a }");
        assert_eq!(tools, Some(("tools".to_owned(), "`request.tools`".to_owned())));
        let quality = undecided_in("{ complexity: { tiers: [a, b], min_quality: 60% } }");
        assert_eq!(quality.unwrap().1, "the complexity of prompts");
    }
}
