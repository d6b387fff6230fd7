//! The first rule of a model that applies, and of its pools those that speak what is asked and can take the prompt.

use std::sync::Arc;

use http::StatusCode;

use super::{
    asking::Asking,
    facts::Known,
    fit::{self, Fit},
    overrides::Overrides,
};
use crate::{
    gateway::explained::{Explained, PassedOver, Scored},
    policy::{Model, Policy, Route, Rule, Target},
    prompt::complexity::Weights,
    types::Fault,
};

impl Asking<'_> {
    /// The way it goes, and why.
    pub(in crate::gateway) fn route(&self) -> Result<(Arc<Route>, Explained), Fault> {
        let mut explained = Explained::default();
        self.check_access()?;
        let overrides = Overrides::read(self.policy(), self.key, self.headers)?;
        let mut route = match (&self.body.model, overrides.pool) {
            (None, pool) => self.unnamed(pool)?,
            (Some(name), None) => {
                let Some(model) = self.policy().models.get(name) else { return Err(unknown(self.policy(), name)) };
                self.by_rules(name, model, &mut explained)?
            }
            (Some(name), Some(pool)) => {
                let Some(model) = self.policy().models.get(name) else { return Err(unknown(self.policy(), name)) };
                self.to_pool(name, model, pool, &mut explained)?
            }
        };
        if route.cascade.as_ref().is_some_and(|cascade| !self.can_take(&cascade.to)) {
            route = Arc::new(Route { cascade: None, ..Route::clone(&route) });
        }
        if let Some(bound) = overrides.bound {
            route = Arc::new(Route { bound: Some(bound), ..Route::clone(&route) });
        }
        explained.counted(self.prompt.tokens());
        Ok((route, explained))
    }

    fn by_rules(&self, name: &str, model: &Model, explained: &mut Explained) -> Result<Arc<Route>, Fault> {
        let known = Known::of(self);
        let (mut largest, mut silent) = (None, false);
        let mut chosen = None;
        for rule in &model.rules {
            let mut pass_over = |because| {
                explained.passed_over.push(PassedOver { route: rule.name.clone(), because });
            };
            if rule.when.as_ref().is_some_and(|when| !when.holds(&known)) {
                pass_over("condition");
                continue;
            }
            let (route, left) = match self.usable(rule) {
                Usable::Silent => {
                    silent = true;
                    pass_over("endpoint");
                    continue;
                }
                Usable::TooSmall(context) => {
                    largest = largest.max(Some(context));
                    pass_over("context");
                    continue;
                }
                Usable::These(usable) => self.decide(rule, &usable, &known, explained),
            };
            explained.too_small.extend(left);
            chosen = Some(route);
            break;
        }
        // A choice between tiers has told already, by weights that may be its own.
        if explained.complexity.is_none() {
            let version = || Weights::built_in().version.as_str().into();
            explained.complexity = known.scored_already().map(|complexity| Scored::of(complexity, version()));
        }
        chosen.ok_or_else(|| match largest {
            Some(largest) => self.too_long(name, largest),
            None if silent => self.silent(name),
            None => no_rule(name),
        })
    }

    /// The one pool that the client names itself.
    fn to_pool(&self, name: &str, model: &Model, pool: usize, explained: &mut Explained) -> Result<Arc<Route>, Fault> {
        let Some(pattern) = model.first() else { return Err(no_rule(name)) };
        let targets = vec![Target { pool, serves: None, model: None }];
        if !self.speaks(&targets[0]) {
            return Err(self.silent(name));
        }
        if let Fit::None(largest) = self.fit(&targets) {
            return Err(self.too_long(name, largest));
        }
        explained.passed_over.push(PassedOver { route: pattern.name.clone(), because: "override" });
        // Who names a pool wants its answer, whatever it is.
        Ok(Arc::new(Route { targets, cascade: None, tiers: Arc::default(), ..Route::clone(pattern) }))
    }

    /// A request that names no model (a file, a batch, an upload) goes to the pools that speak its endpoint.
    fn unnamed(&self, named: Option<usize>) -> Result<Arc<Route>, Fault> {
        let policy = self.policy();
        let pools = (0..policy.pools.len()).filter(|pool| named.is_none_or(|named| named == *pool));
        let targets = pools.map(|pool| Target { pool, serves: None, model: None });
        let targets: Vec<_> = targets.filter(|target| self.speaks(target)).collect();
        let name = self.endpoint.name();
        if targets.is_empty() {
            let message = format!("no pool of this gateway speaks '{name}' (pools.….speaks in the policy)");
            return Err(
                Fault::client(StatusCode::NOT_FOUND, "unsupported_endpoint", message).with_code("unsupported_endpoint")
            );
        }
        Ok(Arc::new(Route::new(name.into(), targets, policy.timeouts)))
    }

    /// Whether a pool speaks what is asked, and the prompt fits there.
    fn can_take(&self, target: &Target) -> bool {
        self.speaks(target) && !matches!(self.fit(std::slice::from_ref(target)), Fit::None(_))
    }

    fn fit(&self, targets: &[Target]) -> Fit {
        // A list of inputs is no prompt: the limit holds for each of them.
        if self.prompt_field().is_none() {
            return Fit::All;
        }
        fit::fit(&self.serving.snapshot.pools, targets, self.prompt, self.body.max_tokens)
    }

    /// Which of the pools that a rule may lead to can serve the request.
    fn usable(&self, rule: &Rule) -> Usable {
        // Every route of a rule has the same pools, in different orders.
        let targets = rule.way.routes().first().map_or(&[][..], |route| &route.targets);
        let speaking: Vec<_> = targets.iter().filter(|target| self.speaks(target)).cloned().collect();
        if speaking.is_empty() {
            return Usable::Silent;
        }
        match self.fit(&speaking) {
            Fit::All => Usable::These(speaking),
            Fit::Some(fitting) => Usable::These(fitting),
            Fit::None(largest) => Usable::TooSmall(largest),
        }
    }

    fn too_long(&self, name: &str, largest: u64) -> Fault {
        let field = self.prompt_field().unwrap_or("messages");
        fit::too_long(name, field, self.prompt.tokens(), self.body.max_tokens, largest)
    }

    fn silent(&self, model: &str) -> Fault {
        let name = self.endpoint.name();
        let message = format!(
            "the model '{model}' does not serve '{name}': none of the pools behind it speaks it (pools.….speaks in the policy)"
        );
        Fault::field("model", message).with_code("unsupported_endpoint")
    }
}

/// What a rule's pools can do for a request.
enum Usable {
    /// These can serve it.
    These(Vec<Target>),
    /// None speaks what is asked.
    Silent,
    /// None can take the prompt; the largest holds so many tokens.
    TooSmall(u64),
}

fn no_rule(model: &str) -> Fault {
    let message = format!(
        "no route of the model '{model}' takes this request: none of their conditions holds (a last route without `when` takes all)"
    );
    Fault::field("model", message).with_code("no_route")
}

pub(in crate::gateway) fn unknown(policy: &Policy, model: &str) -> Fault {
    let shown: String = model.chars().take(100).collect();
    let help = match policy.models.nearest(model) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "GET /v1/models lists what there is".to_owned(),
    };
    Fault {
        param: Some("model".into()),
        ..Fault::client(
            StatusCode::NOT_FOUND,
            "model_not_found",
            format!("the model '{shown}' does not exist here: {help}"),
        )
        .with_code("model_not_found")
    }
}
