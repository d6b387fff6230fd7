//! Applies the rules of a model to a request, and builds the errors for requests without a route.

use std::{sync::Arc, time::Duration};

use http::StatusCode;

use super::{asking::Asking, facts::Known, fit, overrides::Overrides};
use signalbox_fleet::{
    Snapshot,
    route_selection::{self, Fit, NoRoute},
};
use signalbox_journal::{Explained, LengthChosen, ScoredComplexity, SkippedRule, TierChosen};
use signalbox_policy::{Backend, Model, Route, Target};
use signalbox_prompt::complexity::Weights;
use signalbox_translation::CallerApi;
use signalbox_types::{Fault, Name};

impl Asking<'_> {
    /// Selects the route, applies the client's overrides, and explains the decision. `known` caches facts and can
    /// be reused afterwards.
    ///
    /// # Errors
    /// A fault if the key may not use the model, if an override is invalid, or if no route can take the request.
    pub(super) fn route_known(&self, known: &Known<'_>) -> Result<(Arc<Route>, Explained), Fault> {
        let mut explained = Explained::default();
        self.check_access()?;
        let overrides = Overrides::read(self.policy(), self.key, self.headers)?;
        let mut route = match (&self.body.model, overrides.pool) {
            (None, pool) => self.unnamed(pool)?,
            (Some(name), None) => {
                let Some(model) = self.policy().models.get(name) else {
                    return Err(self.unknown(name));
                };
                self.by_rules(name, model, known, &mut explained)?
            }
            (Some(name), Some(pool)) => {
                let Some(model) = self.policy().models.get(name) else {
                    return Err(self.unknown(name));
                };
                self.to_pool(name, model, pool, &mut explained)?
            }
        };
        if route.cascade.as_ref().is_some_and(|cascade| !self.can_take(&cascade.to)) {
            route = Arc::new(Route { cascade: None, ..Route::clone(&route) });
        }
        route = self.of_one_model(route, known);
        if let Some(bound) = overrides.bound {
            route = Arc::new(Route { bound: Some(bound), ..Route::clone(&route) });
        }
        if let Some(team) = self.policy().paying_team(self.key) {
            route = Arc::new(route.retargeted(|target| target.team = Some(team.clone())));
        }
        explained.set_prompt_tokens(self.prompt.tokens());
        Ok((route, explained))
    }

    fn by_rules(
        &self,
        name: &str,
        model: &Model,
        known: &Known<'_>,
        explained: &mut Explained,
    ) -> Result<Arc<Route>, Fault> {
        let found =
            route_selection::select(model, known, &self.serving.snapshot.pools).map_err(|nowhere| match nowhere {
                NoRoute::PromptTooLong(largest) => self.too_long(name, largest),
                NoRoute::EndpointUnsupported => self.awaited(model).unwrap_or_else(|| self.silent(name)),
                NoRoute::NoRuleApplies => no_rule(name),
            })?;
        let passed_over = found.skipped.into_iter();
        explained.skipped_rules =
            passed_over.map(|(route, because)| SkippedRule { route, because: word(because) }).collect();
        explained.too_small = found.too_small.into_iter().map(|pool| self.policy().pools[pool].name.clone()).collect();
        explained.length = found.length.map(|(boundary, long)| LengthChosen { boundary, long });
        explained.tier = found.tier.as_ref().map(TierChosen::of);
        // A choice between tiers may have used weights of its own.
        explained.complexity = known.ranked().or_else(|| {
            let version: Name = Weights::built_in().version.as_str().into();
            known.scored_already().map(|complexity| ScoredComplexity::of(complexity, version))
        });
        Ok(found.route)
    }

    /// Routes to the pool that the client named.
    fn to_pool(&self, name: &str, model: &Model, pool: usize, explained: &mut Explained) -> Result<Arc<Route>, Fault> {
        let Some(pattern) = model.first() else { return Err(no_rule(name)) };
        let targets = vec![Target::whole(pool)];
        if !self.serves(pool) {
            return Err(self.silent(name));
        }
        if let Fit::None(largest) = self.fit(&targets) {
            return Err(self.too_long(name, largest));
        }
        explained.skipped_rules.push(SkippedRule { route: pattern.name.clone(), because: "override" });
        // A client that names a pool wants its answer, so neither a cascade nor tiers apply.
        Ok(Arc::new(Route { targets, cascade: None, tiers: Arc::default(), ..Route::clone(pattern) }))
    }

    /// Routes a request without a model (a file, a batch, an upload) to the pools that support its endpoint.
    fn unnamed(&self, named: Option<usize>) -> Result<Arc<Route>, Fault> {
        let policy = self.policy();
        let pools = (0..policy.pools.len()).filter(|pool| named.is_none_or(|named| named == *pool));
        let targets = pools.map(Target::whole);
        let targets: Vec<_> = targets.filter(|target| self.speaks(target)).collect();
        let name = self.endpoint.name();
        if targets.is_empty() && self.creates && CallerApi::of(self.endpoint).is_some() {
            return Err(Fault::field("model", "you must provide 'model': add a \"model\" field to the body"));
        }
        if targets.is_empty() {
            let message = format!(
                "no pool of this gateway speaks '{name}' (pools.….speaks in the policy){}",
                self.untranslated()
            );
            return Err(
                Fault::client(StatusCode::NOT_FOUND, "unsupported_endpoint", message).with_code("unsupported_endpoint")
            );
        }
        Ok(Arc::new(Route::new(name.into(), targets, policy.timeouts)))
    }

    /// True if the pool supports the endpoint and the prompt fits.
    fn can_take(&self, target: &Target) -> bool {
        self.serves(target.pool) && !matches!(self.fit(std::slice::from_ref(target)), Fit::None(_))
    }

    fn fit(&self, targets: &[Target]) -> Fit {
        route_selection::fit(&Known::of(self), &self.serving.snapshot.pools, targets)
    }

    fn too_long(&self, name: &str, largest: u64) -> Fault {
        let field = self.prompt_field().unwrap_or("messages");
        fit::too_long(name, field, self.prompt.tokens(), self.body.max_tokens, largest)
    }

    /// Builds the fault of a model that no route takes; a pool that may serve it once it has engines counts the request.
    fn unknown(&self, model: &str) -> Fault {
        if let Some((at, _)) = pool_that_may_serve(&self.serving.snapshot, model) {
            self.wanted(at);
        }
        unknown(&self.serving.snapshot, model)
    }

    /// Builds the fault of an endpoint that is not known to be served because a pool behind the model, which is found at run
    /// time, has no engine now.
    fn awaited(&self, model: &Model) -> Option<Fault> {
        let pools = &self.serving.snapshot.pools;
        let targets = model.routes().flat_map(|route| &route.targets).map(|target| target.pool);
        let mut empty = targets.filter(|at| {
            let pool = &pools[*at];
            pool.spec.learns_endpoints && pool.backends.is_empty() && !pool.spec.sources.is_empty()
        });
        let first = empty.next()?;
        std::iter::once(first).chain(empty).for_each(|at| self.wanted(at));
        let message = format!("no backend of the pool '{}' is there at present: ask again", pools[first].spec.name);
        let fault = Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "no_backend", message);
        Some(Fault { retry_after: Some(STARTS_IN), ..fault })
    }

    /// Counts the request as demand of a pool that cannot take it yet.
    fn wanted(&self, pool: usize) {
        if !self.is_dry() {
            self.serving.pool_meter(pool).wanted(self.context.clock.now());
        }
    }

    fn silent(&self, model: &str) -> Fault {
        let name = self.endpoint.name();
        let message = format!(
            "the model '{model}' does not serve '{name}': none of the pools behind it speaks it (pools.….speaks in the policy){}",
            self.untranslated()
        );
        if self.untranslated().is_empty() {
            return Fault::field("model", message).with_code("unsupported_endpoint");
        }
        // Such a path is missing, whether its request names a model or not.
        Fault::client(StatusCode::NOT_FOUND, "unsupported_endpoint", message).with_code("unsupported_endpoint")
    }

    /// Says why a path of an API that is translated is not, and what to do instead.
    fn untranslated(&self) -> &'static str {
        match CallerApi::of(self.endpoint).filter(|_| !self.creates) {
            Some(_) => {
                "; only new answers and counts of tokens are translated to other APIs, so for this path use a model whose \
                 pool speaks the API itself, or send the whole conversation with each request"
            }
            None => "",
        }
    }
}

/// Returns the journal's word for the reason.
const fn word(because: route_selection::SkipReason) -> &'static str {
    match because {
        route_selection::SkipReason::Condition => "condition",
        route_selection::SkipReason::Endpoint => "endpoint",
        route_selection::SkipReason::Context => "context",
    }
}

fn no_rule(model: &str) -> Fault {
    let message = format!(
        "no route of the model '{model}' takes this request: none of their conditions holds (a last route without `when` takes all)"
    );
    Fault::field("model", message).with_code("no_route")
}

/// Pool with a pattern for `model`, of an engine that has not listed its models yet, or without any engine now. With its
/// index.
fn pool_that_may_serve<'a>(snapshot: &'a Snapshot, model: &str) -> Option<(usize, &'a Name)> {
    let is_silent = |engine: usize| {
        snapshot.followed.iter().any(|(at, engine_at)| *at == engine && engine_at.models.known().is_none())
    };
    let may_serve = |backend: &Backend| {
        backend.follows.as_ref().is_some_and(|pattern| pattern.matches(model)) && is_silent(backend.engine)
    };
    let matches = |backend: &Backend| backend.follows.as_ref().is_some_and(|pattern| pattern.matches(model));
    let mut pools = snapshot.source().pools.iter().enumerate();
    let found = pools.find(|(_, pool)| {
        let may_start = pool.backends.is_empty() && pool.sources.iter().any(|source| matches(&source.backend));
        may_start || pool.backends.iter().any(may_serve)
    });
    found.map(|(at, pool)| (at, &pool.name))
}

/// Time after which a model may be there whose engine has not answered yet.
const STARTS_IN: Duration = Duration::from_secs(2);

/// Builds the fault for a model that no route takes. Engines that have not listed their models yet may have it: clients
/// give up after a 404.
pub(crate) fn unknown(snapshot: &Snapshot, model: &str) -> Fault {
    let shown: String = model.chars().take(100).collect();
    if let Some(reason) = snapshot.policy.models.refusal(model) {
        return not_found(format!("the model '{shown}' is not served here: {reason}"));
    }
    if let Some((_, pool)) = pool_that_may_serve(snapshot, model) {
        let message = format!(
            "the model '{shown}' may be one of the pool '{pool}', which has no engine that has answered yet (serves): ask again"
        );
        let fault = Fault::gateway(StatusCode::SERVICE_UNAVAILABLE, "no_backend", message);
        return Fault { retry_after: Some(STARTS_IN), ..fault };
    }
    let policy = &snapshot.policy;
    let help = match policy.models.nearest(model) {
        Some(near) => format!("did you mean '{near}'?"),
        None => "GET /v1/models lists what there is".to_owned(),
    };
    not_found(format!("the model '{shown}' does not exist here: {help}"))
}

fn not_found(message: String) -> Fault {
    let fault = Fault::client(StatusCode::NOT_FOUND, "model_not_found", message).with_code("model_not_found");
    Fault { param: Some("model".into()), ..fault }
}
