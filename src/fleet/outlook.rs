//! What a request would find in a pool if it went there: for choices between pools, before any backend is chosen.

use super::{Ask, Placement, Pool, Scratch};
use crate::{
    schedule::{Around, Draw, choose, cost},
    types::{Moment, Strategy, Usage},
};

/// What to expect of a pool's best backend for one request.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct Outlook {
    /// The time to the first token, in seconds.
    pub ttft: f64,
    /// From dispatch to the last token, in seconds.
    pub e2e: f64,
    /// What the request costs everybody there, itself included, in seconds: the cost by which backends are chosen, with all of
    /// its work as work that another pool could spare this one.
    pub burden: f64,
    /// Tokens of its prompt, of these the ones that should be cached, and of its answer.
    pub usage: Usage,
    /// Whether every backend failed lately.
    pub avoided: bool,
}

impl Pool {
    /// Where `ask` would go now, and what it would find there; `None` where no backend could take it. Takes no turn and changes nothing.
    pub fn peek(&self, ask: &Ask<'_>, now: Moment, scratch: &mut Scratch) -> Option<(Placement, Outlook)> {
        let look = self.survey(ask, now, scratch)?;
        let draw = Draw { turn: 0, chance: 1.0 - f64::EPSILON };
        let choice = choose(self.spec.balance, &scratch.candidates, draw, &mut scratch.costs)?;
        let candidate = &scratch.candidates[choice.index];
        let backend = scratch.members[choice.index];
        let (view, blocks) = (&scratch.views[choice.index], scratch.matched[choice.index] as usize);
        let (forecast, held) = look.forecast(&self.backends[backend], view, blocks);
        let work = forecast.work;
        // The cost counts tokens as the pool's usual backend computes them; this is how long that takes over one.
        let second_per_token = work.prefill / (work.uncached_tokens as f64 * candidate.speed.max(f64::MIN_POSITIVE));
        // Another pool could spare this one all of the work, not only what exceeds the least of its engines.
        let others = scratch.candidates.iter().filter(|other| candidate.avoided || !other.avoided);
        // And who comes late is no heavier for that: a pool that is far behind has no price of lateness.
        let around = Around { least_uncached: 0.0, soonest: f64::INFINITY, ..Around::of(others) };
        let outlook = Outlook {
            ttft: candidate.ttft,
            e2e: candidate.ttft + forecast.tpot.seconds * look.output.mean,
            burden: cost(Strategy::LeastCost, candidate, &around) * second_per_token,
            usage: Usage {
                prompt_tokens: work.prompt_tokens,
                completion_tokens: work.output_tokens,
                cached_tokens: Some(work.prompt_tokens.saturating_sub(work.uncached_tokens)),
                reasoning_tokens: None,
            },
            avoided: candidate.avoided,
        };
        Some((Placement { backend, choice, forecast, held }, outlook))
    }
}
