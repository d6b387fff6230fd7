//! Compiles cascades: the larger pool, the checks, and the latest time to escalate.

use std::sync::Arc;

use super::reader::Reader;
use crate::{Cascade, Pool, Route, Target, Timeouts};
use signalbox_config::{Logprob, Problem, raw};
use signalbox_types::{Check, Checks, Endpoint};

/// The default checks, all of which need the answer alone. Logprobs are not among them: few clients request them, and
/// the right threshold depends on the model.
const USUAL: [Check; 6] = [Check::Schema, Check::Tools, Check::Length, Check::Refusal, Check::Empty, Check::Repetition];
/// Default number of tokens of a stream that are held back.
const HOLD: u64 = 32;

impl Reader<'_> {
    /// The cascade of a rule.
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
            self.report(
                Problem::at(field.at(), message).help("leave the larger pool time to answer: write a shorter time"),
            );
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
        Some(Cascade { to: Target::whole(pool), checks, hold, within, min_logprob }.into())
    }

    fn checks(&mut self, raw: &raw::Cascade) -> Checks {
        let Some(list) = &raw.checks else {
            // A configured `min_logprob` implies its check.
            let logprobs = raw.min_logprob.as_ref().map(|_| Check::Logprobs);
            return USUAL.into_iter().chain(logprobs).collect();
        };
        if list.value.is_empty() {
            self.report(
                Problem::at(list.at, "a cascade without checks")
                    .help("name what an answer has to pass, or leave `checks` out for the usual ones"),
            );
        }
        let checks: Checks = list.value.iter().filter_map(|field| self.read(field)).collect();
        let logprobs = list.value.iter().find(|field| field.text() == Check::Logprobs.name());
        match (&raw.min_logprob, logprobs) {
            (None, Some(field)) => self.report(
                Problem::at(field.at(), "the check `logprobs` needs a threshold")
                    .help("set the mean logprob below which an answer fails: `min_logprob: -1.2`"),
            ),
            (Some(field), None) => self.report(
                Problem::at(field.at(), "`min_logprob` without the check `logprobs`")
                    .help("add `logprobs` to the checks, or leave `min_logprob` out"),
            ),
            _ => {}
        }
        checks
    }

    /// Sets the cascade on those of a rule's routes that start with a smaller pool: not with the larger one itself and,
    /// among `tiers`, not with one after it. In those routes the larger pool also becomes the last fallback.
    pub(super) fn attach_cascade(
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
            self.report(Problem::at(raw.to.at(), message).help("name a larger pool to escalate to"));
        }
    }
}
