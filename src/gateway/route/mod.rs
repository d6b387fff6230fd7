//! Where it may go: the first rule of its model that applies, the pools that this gives it, and of these the ones that speak what is
//! asked and can take the prompt.

mod fit;
mod overrides;
mod way;

use std::sync::Arc;

use http::StatusCode;

use self::{fit::Fit, overrides::Overrides};
use super::{
    Desk, Reply, Step,
    explained::{Explained, PassedOver},
    stages::{Call, Estimated, Routed},
};
use crate::{
    policy::{Model, Policy, Route, Rule, Target},
    types::Fault,
};

pub(super) struct Routing<S> {
    inner: S,
    desk: Arc<Desk>,
}

impl<S> Routing<S> {
    pub(super) fn new(inner: S, desk: Arc<Desk>) -> Self {
        Self { inner, desk }
    }
}

impl<S: Step<Routed>> Step<Estimated> for Routing<S> {
    async fn call(&self, estimated: Estimated) -> Result<Reply, Fault> {
        let (route, explained) = Asking { desk: &self.desk, estimated: &estimated }.route()?;
        let Estimated { call, blocks, session, .. } = estimated;
        call.record.note(|line| {
            line.route = Some(route.name.clone());
            line.explained = Some(explained);
        });
        self.inner.call(Routed { call, blocks, session, route }).await
    }
}

/// A request that asks for its way.
pub(super) struct Asking<'a> {
    pub(super) desk: &'a Desk,
    pub(super) estimated: &'a Estimated,
}

impl Asking<'_> {
    fn call(&self) -> &Call {
        &self.estimated.call
    }

    fn policy(&self) -> &Policy {
        &self.call().serving.snapshot.policy
    }

    /// The way it goes, and why.
    pub(super) fn route(&self) -> Result<(Arc<Route>, Explained), Fault> {
        let mut explained = Explained::of(self.estimated.tokens);
        let overrides = Overrides::read(self.policy(), &self.call().headers)?;
        let mut route = match (&self.call().body.model, overrides.pool) {
            (None, _) => self.unnamed()?,
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
        Ok((route, explained))
    }

    fn by_rules(&self, name: &str, model: &Model, explained: &mut Explained) -> Result<Arc<Route>, Fault> {
        let mut largest = None;
        let mut silent = false;
        for rule in &model.rules {
            let mut pass_over = |because| {
                explained.passed_over.push(PassedOver { route: rule.name.clone(), because });
            };
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
                Usable::These(usable) => self.decide(rule, &usable, explained),
            };
            explained.too_small.extend(left);
            return Ok(route);
        }
        Err(match largest {
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
        Ok(Arc::new(Route { targets, cascade: None, ..Route::clone(pattern) }))
    }

    /// A request that names no model (a file, a batch, an upload) goes to the pools that speak its endpoint.
    fn unnamed(&self) -> Result<Arc<Route>, Fault> {
        let policy = self.policy();
        let targets = (0..policy.pools.len()).map(|pool| Target { pool, serves: None, model: None });
        let targets: Vec<_> = targets.filter(|target| self.speaks(target)).collect();
        let name = self.call().endpoint.name();
        if targets.is_empty() {
            let message = format!("no pool of this gateway speaks '{name}' (pools.….speaks in the policy)");
            return Err(
                Fault::client(StatusCode::NOT_FOUND, "unsupported_endpoint", message).with_code("unsupported_endpoint")
            );
        }
        Ok(Arc::new(Route::new(name.into(), targets, policy.timeouts)))
    }

    fn speaks(&self, target: &Target) -> bool {
        self.policy().pools[target.pool].speaks.contains(&self.call().endpoint)
    }

    /// Whether a pool speaks what is asked, and the prompt fits there.
    fn can_take(&self, target: &Target) -> bool {
        self.speaks(target) && !matches!(self.fit(std::slice::from_ref(target)), Fit::None(_))
    }

    fn fit(&self, targets: &[Target]) -> Fit {
        fit::fit(&self.call().serving.snapshot.pools, targets, self.estimated.tokens, self.call().body.max_tokens)
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
        fit::too_long(name, self.estimated.tokens, self.call().body.max_tokens, largest)
    }

    fn silent(&self, model: &str) -> Fault {
        let name = self.call().endpoint.name();
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

pub(super) fn unknown(policy: &Policy, model: &str) -> Fault {
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
