//! Where it may go: the first rule of its model that applies, the pools that this gives it, and of these the ones that speak what is
//! asked and can take the prompt.

mod facts;
mod fit;
mod overrides;
mod way;

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use self::{facts::Known, fit::Fit, overrides::Overrides};
use super::{
    Desk, Reply, Serving, Step,
    counting::{Counting, is_slow},
    estimate::Estimate,
    explained::{Explained, PassedOver, Scored},
    stages::{Estimated, Routed},
};
use crate::{
    policy::{Model, Policy, Route, Rule, Target},
    prompt::tokens::Counter,
    protocol::RequestBody,
    types::{Endpoint, Fault},
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
        let (estimated, way) = if is_slow(counter(&estimated.call.serving, &estimated.call.body), &estimated.call.body)
        {
            let desk = self.desk.clone();
            let aside = tokio::task::spawn_blocking(move || {
                let way = decide(&desk, &estimated);
                (estimated, way)
            });
            aside.await.map_err(|_| Fault::gateway(StatusCode::INTERNAL_SERVER_ERROR, "internal", "routing failed"))?
        } else {
            let way = decide(&self.desk, &estimated);
            (estimated, way)
        };
        let (route, explained) = way?;
        let Estimated { call, estimate: Estimate { blocks, session, .. } } = estimated;
        call.record.note(|line| {
            line.route = Some(route.name.clone());
            line.explained = Some(explained);
        });
        self.inner.call(Routed { call, blocks, session, route }).await
    }
}

fn decide(desk: &Desk, Estimated { call, estimate }: &Estimated) -> Result<(Arc<Route>, Explained), Fault> {
    let prompt = Counting::of(&call.body, estimate.tokens, counter(&call.serving, &call.body));
    let asking = Asking {
        desk,
        serving: &call.serving,
        endpoint: call.endpoint,
        headers: &call.headers,
        key: call.key,
        body: &call.body,
        estimate,
        prompt: &prompt,
        dry: false,
    };
    let way = asking.route();
    if let Some(known) = prompt.known() {
        call.record.counts(known);
    }
    way
}

/// What counts the prompt's tokens: the counter of the pool that its model's requests go to first.
pub(super) fn counter<'a>(serving: &'a Serving, body: &RequestBody) -> &'a Arc<Counter> {
    let model = body.model.as_ref().and_then(|model| serving.snapshot.policy.models.get(model));
    let pool = model.and_then(|model| model.first()).map_or(0, |route| route.targets[0].pool);
    serving.counter(pool)
}

/// A request that asks for its way.
pub(super) struct Asking<'a> {
    pub(super) desk: &'a Desk,
    pub(super) serving: &'a Serving,
    pub(super) endpoint: Endpoint,
    pub(super) headers: &'a HeaderMap,
    /// Place of the caller's key in the policy, where keys are asked for.
    pub(super) key: Option<usize>,
    pub(super) body: &'a RequestBody,
    pub(super) estimate: &'a Estimate,
    /// Its tokens.
    pub(super) prompt: &'a Counting<'a>,
    /// Whether it only asks: nothing is learned from it.
    pub(super) dry: bool,
}

impl Asking<'_> {
    fn policy(&self) -> &Policy {
        &self.serving.snapshot.policy
    }

    /// The way it goes, and why.
    pub(super) fn route(&self) -> Result<(Arc<Route>, Explained), Fault> {
        let mut explained = Explained::default();
        let overrides = Overrides::read(self.policy(), self.headers)?;
        let mut route = match (&self.body.model, overrides.pool) {
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
        explained.complexity = known.scored_already().map(|complexity| Scored::of(complexity, known.weights()));
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
        Ok(Arc::new(Route { targets, cascade: None, ..Route::clone(pattern) }))
    }

    /// A request that names no model (a file, a batch, an upload) goes to the pools that speak its endpoint.
    fn unnamed(&self) -> Result<Arc<Route>, Fault> {
        let policy = self.policy();
        let targets = (0..policy.pools.len()).map(|pool| Target { pool, serves: None, model: None });
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

    /// Whether nobody waits for the answer: the client says so by a header, or asks for a tier of service that is for such work.
    fn is_batch(&self) -> bool {
        if let Some(class) = self.headers.get("x-signalbox-class") {
            return class == "batch";
        }
        let tier = self.body.members().find(|(name, _)| *name == b"service_tier");
        tier.is_some_and(|(_, value)| value == b"\"flex\"" || value == b"\"batch\"")
    }

    fn speaks(&self, target: &Target) -> bool {
        self.policy().pools[target.pool].speaks.contains(&self.endpoint)
    }

    /// Whether a pool speaks what is asked, and the prompt fits there.
    fn can_take(&self, target: &Target) -> bool {
        self.speaks(target) && !matches!(self.fit(std::slice::from_ref(target)), Fit::None(_))
    }

    fn fit(&self, targets: &[Target]) -> Fit {
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
        fit::too_long(name, self.prompt.tokens(), self.body.max_tokens, largest)
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
