//! Forecast of a request in a pool, for choices between pools before any backend is chosen.

use super::{Placement, PlacementQuery, Pool, Scratch};
use signalbox_schedule::{Draw, choose, cost};
use signalbox_types::{Moment, Strategy, Usage};

/// Expected result of one request on the pool's best backend.
#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub struct PoolForecast {
    /// Time to first token, in seconds.
    pub ttft: f64,
    /// Time from dispatch to the last token, in seconds.
    pub e2e: f64,
    /// Cost of the request to all requests there, itself included, in seconds.
    pub burden: f64,
    /// Prompt tokens, cached prompt tokens and answer tokens.
    pub usage: Usage,
    /// True if every backend of the pool failed lately.
    pub avoided: bool,
}

impl Pool {
    /// Forecasts the placement of `ask` at this moment; `None` where no backend could take it. Takes no turn and
    /// changes nothing.
    pub fn peek(
        &self,
        ask: &PlacementQuery<'_>,
        now: Moment,
        scratch: &mut Scratch,
    ) -> Option<(Placement, PoolForecast)> {
        let survey = self.survey(ask, now, scratch)?;
        let draw = Draw { turn: 0, chance: 1.0 - f64::EPSILON };
        let choice = choose(self.spec.balance, &scratch.candidates, draw, &mut scratch.costs)?;
        let candidate = &scratch.candidates[choice.index];
        let backend = scratch.members[choice.index];
        let (view, blocks) = (&scratch.views[choice.index], scratch.matched[choice.index] as usize);
        let (forecast, held) = survey.forecast(&self.backends[backend], view, blocks);
        let work = forecast.work;
        // The cost counts tokens at the speed of the pool's usual backend; this is the time of one such token.
        let second_per_token = work.prefill / (work.uncached_tokens as f64 * candidate.speed.max(f64::MIN_POSITIVE));
        let expected = PoolForecast {
            ttft: candidate.ttft,
            e2e: candidate.ttft + forecast.tpot.seconds * survey.output.mean,
            burden: cost(Strategy::LeastCost, candidate) * second_per_token,
            usage: Usage {
                prompt_tokens: work.prompt_tokens,
                completion_tokens: work.output_tokens,
                cached_tokens: Some(work.prompt_tokens.saturating_sub(work.uncached_tokens)),
                ..Usage::default()
            },
            avoided: candidate.avoided,
        };
        Some((Placement { backend, choice, forecast, held }, expected))
    }
}
