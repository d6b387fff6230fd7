//! What a request would find in a pool if it went there: for choices between pools, before any backend is chosen.

use super::{Ask, Pool, Scratch};
use crate::{
    schedule::{Draw, choose},
    types::{Moment, Strategy},
};

/// What to expect of a pool's best backend for one request.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Outlook {
    /// The time to the first token, in seconds.
    pub ttft: f64,
    /// From dispatch to the last token, in seconds.
    pub e2e: f64,
    /// What the request costs everybody there, itself included, in seconds: the cost by which backends are chosen.
    pub burden: f64,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// Of these, the ones that should be cached.
    pub cached_tokens: u64,
    /// Tokens of its answer.
    pub output_tokens: u64,
}

impl Pool {
    /// What `ask` would find here now; `None` where no backend could take it, or all that could fail. Takes no turn and changes nothing.
    pub fn outlook(&self, ask: &Ask<'_>, now: Moment, scratch: &mut Scratch) -> Option<Outlook> {
        let look = self.survey(ask, now, scratch)?;
        let draw = Draw { turn: 0, chance: 1.0 - f64::EPSILON };
        let choice = choose(Strategy::LeastCost, &scratch.candidates, draw, &mut scratch.costs)?;
        let candidate = &scratch.candidates[choice.index];
        if candidate.avoided {
            return None;
        }
        let backend = &self.backends[scratch.members[choice.index]];
        let (view, blocks) = (&scratch.views[choice.index], scratch.matched[choice.index] as usize);
        let forecast = look.forecast(backend, view, blocks);
        let work = forecast.work;
        // The cost counts tokens as the pool's usual backend computes them; this is how long it takes over one.
        let second_per_token = work.prefill / (work.uncached_tokens as f64 * candidate.speed.max(f64::MIN_POSITIVE));
        let cost = scratch.costs[choice.index].unwrap_or(work.uncached_tokens as f64 * candidate.speed);
        Some(Outlook {
            ttft: candidate.ttft,
            e2e: candidate.ttft + forecast.tpot.seconds * look.output.mean,
            burden: cost * second_per_token,
            prompt_tokens: work.prompt_tokens,
            cached_tokens: work.prompt_tokens.saturating_sub(work.uncached_tokens),
            output_tokens: work.output_tokens,
        })
    }
}
