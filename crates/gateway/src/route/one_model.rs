//! Requests that only one model may serve, because another would mean something else by them: embeddings of one name are
//! compared with each other, and token ids are those of one vocabulary. They wait or fail rather than move.

use std::sync::Arc;

use super::{asking::Asking, facts::Known};
use signalbox_policy::{Route, Target, condition::Variable};
use signalbox_types::{Endpoint, Name};

impl Known<'_> {
    /// Finds the model that all embeddings of the requested name come from: the first one behind the first rule that does not
    /// depend on the text, the time or the load, and applies.
    pub(super) fn find_embeddings_model(&self) -> Option<Name> {
        let asking = self.asking;
        if asking.endpoint != Endpoint::Embeddings {
            return None;
        }
        let model = asking.policy().models.get(asking.body.model.as_ref()?)?;
        let mut speaking = model.rules.iter().filter_map(|rule| {
            let targets = &rule.way.routes().first()?.targets;
            Some((rule, targets.iter().find(|target| asking.serves(target.pool))?))
        });
        let applies = |rule: &signalbox_policy::Rule| {
            rule.when
                .as_ref()
                .is_none_or(|when| when.variables().iter().all(|it| is_of_caller(*it)) && when.holds(self))
        };
        let (_, target) = speaking.clone().find(|(rule, _)| applies(rule)).or_else(|| speaking.next())?;
        asking.first_model(target)
    }
}

/// True for facts that are the same for all texts of a caller.
fn is_of_caller(variable: Variable) -> bool {
    use Variable::{Headers, KeyId, KeyTags, KeyTeam, RequestModel};
    matches!(variable, Headers | KeyId | KeyTags | KeyTeam | RequestModel)
}

impl Asking<'_> {
    /// Identity of the model that a target's first backend serves.
    fn first_model(&self, target: &Target) -> Option<Name> {
        let pool = &self.serving.snapshot.pools[target.pool];
        let first = pool.members(target).next().map(|member| &pool.backends[member].spec);
        first?.identity_for(self.body.model.as_deref()).map(Name::from)
    }

    /// True if a backend of the pool serves this model.
    pub(super) fn has_model(&self, pool: usize, model: &Name) -> bool {
        let asked = self.body.model.as_deref();
        let backends = &self.serving.snapshot.pools[pool].backends;
        backends.iter().any(|backend| backend.spec.identity_for(asked) == Some(&**model))
    }

    /// The route without the targets that mean something else by the request: those of other models, if it depends on token
    /// ids or asks for embeddings.
    pub(super) fn of_one_model(&self, mut route: Arc<Route>, known: &Known<'_>) -> Arc<Route> {
        let first = |route: &Route| self.first_model(route.targets.first()?);
        if self.body.token_biases().next().is_some() {
            let biased = first(&route);
            route = Arc::new(Route { biased, ..Route::clone(&route) });
        }
        let only = match known.embeddings_model() {
            Some(model) if route.targets.iter().any(|target| self.has_model(target.pool, model)) => Some(model.clone()),
            None if !self.body.has_token_ids() => None,
            _ => first(&route),
        };
        let Some(only) = only else { return route };
        let mut own = Route::clone(&route);
        own.targets.retain(|target| self.has_model(target.pool, &only));
        own.cascade = own.cascade.filter(|cascade| self.has_model(cascade.to.pool, &only));
        own.only = Some(only);
        Arc::new(own)
    }
}
