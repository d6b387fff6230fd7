//! Cascades: the larger pool, what an answer has to pass, and when it is too late to ask again.

use std::sync::Arc;

use super::reader::Reader;
use crate::{
    config::{Logprob, Problem, raw},
    policy::{Cascade, Pool, Route, Timeouts, offered},
    types::{Check, Checks, Endpoint},
};

/// What is looked at where the policy does not say. All of it can be seen in the answer alone. Logprobs are missing: few clients ask for
/// them, and how sure a model has to be is nothing that holds for all.
const USUAL: [Check; 6] = [Check::Schema, Check::Tools, Check::Length, Check::Refusal, Check::Empty, Check::Repetition];
/// Tokens of a stream that are held back.
const HOLD: u64 = 32;

impl Reader<'_> {
    /// The cascade that a rule has.
    pub(super) fn cascade(
        &mut self,
        raw: Option<&raw::Cascade>,
        pools: &[Pool],
        timeouts: Timeouts,
    ) -> Option<Arc<Cascade>> {
        let raw = raw?;
        let checks = self.checks(raw);
        let within = self.optional(raw.within.as_ref());
        if let (Some(field), Some(within), Some(total)) = (&raw.within, within, timeouts.total)
            && within >= total
        {
            let message = format!("an answer is due {} s after its request came (timeouts.total)", total.as_secs_f64());
            self.report(Problem::at(field.at(), message).help("leave the larger pool time to answer: write less"));
        }
        let hold = self.or(raw.hold.as_ref(), HOLD);
        let Logprob(min_logprob) = self.or(raw.min_logprob.as_ref(), Logprob(0.0));
        let pool = self.pool_called(&raw.to, pools)?;
        let spoken = &pools[pool].speaks;
        if ![Endpoint::Chat, Endpoint::Completions].iter().any(|endpoint| spoken.contains(endpoint)) {
            let message = format!("pool `{}` speaks neither chat nor completions", raw.to.text());
            self.report(
                Problem::at(raw.to.at(), message).help("a cascade is for these: name a pool that speaks one of them"),
            );
        }
        Some(Cascade { to: offered::whole(pool), checks, hold, within, min_logprob }.into())
    }

    fn checks(&mut self, raw: &raw::Cascade) -> Checks {
        let Some(list) = &raw.checks else {
            // Who says how sure a model has to be wants it looked at.
            let logprobs = raw.min_logprob.as_ref().map(|_| Check::Logprobs);
            return USUAL.into_iter().chain(logprobs).collect();
        };
        if list.value.is_empty() {
            self.report(
                Problem::at(list.at, "a cascade that looks at nothing")
                    .help("name what an answer has to pass, or leave `checks` out for the usual ones"),
            );
        }
        let checks: Checks = list.value.iter().filter_map(|field| self.read(field)).collect();
        let logprobs = list.value.iter().find(|field| field.text() == Check::Logprobs.name());
        match (&raw.min_logprob, logprobs) {
            (None, Some(field)) => self.report(
                Problem::at(field.at(), "how sure does the model have to be?")
                    .help("say below which mean logprob an answer does not pass: `min_logprob: -1.2`"),
            ),
            (Some(field), None) => self.report(
                Problem::at(field.at(), "a limit that nothing is held against")
                    .help("add `logprobs` to the checks, or leave `min_logprob` out"),
            ),
            _ => {}
        }
        checks
    }

    /// Gives the cascade to those of a rule's routes that begin with a smaller pool: one that is not the larger one itself, nor, among
    /// `tiers`, comes after it. There the larger pool is the last to stand in for the others too.
    pub(super) fn cascading(
        &mut self,
        routes: &mut [Route],
        tiers: bool,
        raw: Option<&raw::Cascade>,
        cascade: Option<Arc<Cascade>>,
    ) {
        let (Some(raw), Some(cascade)) = (raw, cascade) else { return };
        let is_larger = |route: &Route| route.targets.first() == Some(&cascade.to);
        let smaller = match routes.iter().position(is_larger) {
            Some(at) if tiers => at,
            _ => routes.len(),
        };
        let mut given = false;
        for route in routes[..smaller].iter_mut().filter(|route| !is_larger(route)) {
            route.cascade = Some(cascade.clone());
            if !route.targets.contains(&cascade.to) {
                route.targets.push(cascade.to.clone());
            }
            given = true;
        }
        if !given {
            let message = format!("pool `{}` answers first already", raw.to.text());
            self.report(Problem::at(raw.to.at(), message).help("name a larger pool, to be asked where it fails"));
        }
    }
}
