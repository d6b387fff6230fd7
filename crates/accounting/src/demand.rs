//! Bounds on the tokens of a request: the reservation before dispatch, and the plausible maximum of what an engine may report.

use std::time::Duration;

use signalbox_policy::Pool;
use signalbox_protocol::RequestBody;
use signalbox_quota::Spent;
use signalbox_schedule::predict::OutputForecast;
use signalbox_types::{Endpoint, Usage};

/// Maximum of tokens that chat templates, default system prompts and tool definitions add to a prompt.
const TEMPLATE: u64 = 2048;
/// Maximum of an answer's tokens without text: end tokens, and markup that engines remove.
const MARKUP: u64 = 256;
/// The longest answer where neither the client nor a known context limits it.
const UNLIMITED: u64 = 32_768;
/// Upper bound of all contexts.
const MAX_CONTEXT: u64 = 1 << 24;

/// Bounds on the tokens of a request.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Estimated prompt tokens.
    prompt: u64,
    /// Maximum of prompt tokens that an engine may report.
    prompt_most: u64,
    /// Answers requested (`n`).
    choices: u64,
    /// The client's limit on the tokens of each choice.
    declared: Option<u64>,
    /// Maximum of tokens per choice: the client's limit, else the rest of the context.
    most: u64,
    /// Maximum of tokens that an engine may report beyond those it shows: reasoning is hidden, or shown as a summary.
    hidden_most: u64,
    /// Mean of the expected output tokens per choice.
    mean: u64,
    /// 90th percentile of the expected output tokens per choice.
    p90: u64,
    /// True if the endpoint generates an answer.
    generates: bool,
    /// True if the answer is sent whole rather than streamed.
    whole: bool,
}

/// Facts beside the request's body.
#[derive(Copy, Clone, Debug)]
pub struct DemandInput {
    /// Estimated prompt tokens.
    pub prompt: u64,
    /// The longest context among the pools; `None` where one is unknown.
    pub context: Option<u64>,
    /// True if limits of a caller depend on the count.
    pub limited: bool,
}

impl Demand {
    /// Computes the bounds of a request with this body; `forecast` predicts the answer's length within a limit.
    pub fn of(
        body: &RequestBody,
        endpoint: Endpoint,
        DemandInput { prompt, context, limited }: DemandInput,
        forecast: impl FnOnce(Option<u64>) -> OutputForecast,
    ) -> Self {
        let declared = body.declared_tokens();
        let elsewhere = !limited || body.reads_elsewhere(endpoint);
        let written = (body.bytes().len() as u64).saturating_add(TEMPLATE);
        let prompt_most = if elsewhere { MAX_CONTEXT } else { written }.min(context.unwrap_or(MAX_CONTEXT));
        let generates = endpoint.generates();
        let left = || context.map_or(UNLIMITED, |context| context.saturating_sub(prompt).max(1));
        let OutputForecast { mean, p90, .. } = forecast(declared);
        let choices = if generates { body.choices(endpoint) } else { 0 };
        Self {
            prompt,
            prompt_most,
            choices,
            declared,
            most: declared.unwrap_or_else(left),
            hidden_most: declared.or(context).unwrap_or(MAX_CONTEXT).saturating_mul(choices),
            mean: mean.ceil() as u64,
            p90: p90.ceil() as u64,
            generates,
            whole: generates && !body.stream,
        }
    }

    /// Usage of the prompt alone.
    pub fn prompt(&self) -> Usage {
        Usage { prompt_tokens: self.prompt, ..Usage::default() }
    }

    /// Usage with answers of the expected length.
    pub fn expected(&self) -> Usage {
        Usage { completion_tokens: self.mean.saturating_mul(self.choices), ..self.prompt() }
    }

    /// Usage with the longest possible answers.
    pub fn most(&self) -> Usage {
        Usage { completion_tokens: self.most.saturating_mul(self.choices), ..self.prompt() }
    }

    /// True if the client limits the answer's length.
    pub fn is_declared(&self) -> bool {
        self.declared.is_some() || !self.generates
    }

    /// Tokens of one finished answer, and whether the client's limit cut it off; `None` where there was no answer.
    pub(super) fn answer_length(&self, usage: &Usage) -> Option<(u64, bool)> {
        let each = usage.completion_tokens.checked_div(self.choices)?;
        Some((each, self.declared.is_some_and(|most| each >= most)))
    }

    /// Estimates the tokens that an engine generated in `decoding` time for whole answers that never arrived: by its pace `tpot`, at most
    /// the 90th percentile. `None` for streamed answers, whose tokens are counted.
    pub fn estimated_tokens(&self, decoding: Duration, tpot: Duration) -> Option<u64> {
        let each = (decoding.as_secs_f64() / tpot.as_secs_f64().max(1e-6)) as u64;
        self.whole.then(|| each.min(self.declared.unwrap_or(self.p90)).saturating_mul(self.choices))
    }

    /// Clamps an engine's own count to the plausible maximum, where `seen` tokens at most came into sight.
    pub fn plausible(&self, usage: Usage, seen: u64) -> Usage {
        let prompt_tokens = usage.prompt_tokens.min(self.prompt_most);
        let most = self.hidden_most.max(seen.saturating_add(MARKUP));
        let completion_tokens = usage.completion_tokens.min(most);
        Usage {
            prompt_tokens,
            completion_tokens,
            cached_tokens: usage.cached_tokens.map(|cached| cached.min(prompt_tokens)),
            cache_written_tokens: usage.cache_written_tokens.map(|written| written.min(prompt_tokens)),
            reasoning_tokens: usage.reasoning_tokens.map(|reasoning| reasoning.min(completion_tokens)),
        }
    }
}

/// The cost of `usage` in the most expensive of `pools`.
pub fn most_expensive<'a>(usage: &Usage, pools: impl Iterator<Item = &'a Pool>) -> Spent {
    let costs = pools.map(|pool| Spent::of(usage, pool.price.as_ref()));
    costs.reduce(|one, other| if other.usd > one.usd { other } else { one }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand() -> Demand {
        Demand {
            prompt: 10,
            prompt_most: 2100,
            choices: 2,
            declared: Some(50),
            most: 50,
            hidden_most: 100,
            mean: 20,
            p90: 40,
            generates: true,
            whole: true,
        }
    }

    fn usage(prompt: u64, completion: u64, reasoning: Option<u64>) -> Usage {
        let (prompt_tokens, completion_tokens) = (prompt, completion);
        Usage {
            prompt_tokens,
            completion_tokens,
            cached_tokens: Some(prompt),
            reasoning_tokens: reasoning,
            ..Usage::default()
        }
    }

    #[test]
    fn a_plausible_count_is_not_changed() {
        for usage in [usage(300, 200, None), usage(0, 1, Some(0)), usage(2100, 300, Some(90))] {
            assert_eq!(demand().plausible(usage, 430), usage);
        }
    }

    #[test]
    fn tokens_beyond_the_text_are_hidden_reasoning() {
        for reasoning in [None, Some(0), Some(90)] {
            let hidden = usage(20, 100, reasoning);
            assert_eq!(demand().plausible(hidden, 2), hidden, "{reasoning:?}");
        }
    }

    #[test]
    fn an_impossible_count_is_clamped() {
        let huge = usage(u64::MAX, u64::MAX, Some(u64::MAX));
        let cut = demand().plausible(huge, 10);
        assert_eq!((cut.prompt_tokens, cut.cached_tokens), (2100, Some(2100)));
        assert_eq!((cut.completion_tokens, cut.reasoning_tokens), (10 + MARKUP, Some(10 + MARKUP)));
        let wide = Demand { hidden_most: 5000, ..demand() };
        assert_eq!(wide.plausible(huge, 10).completion_tokens, 5000);
    }

    #[test]
    fn unseen_work_is_estimated_by_its_time_and_bounded() {
        let tpot = Duration::from_millis(20);
        let done = |demand: Demand, millis| demand.estimated_tokens(Duration::from_millis(millis), tpot);
        assert_eq!((done(demand(), 0), done(demand(), 400), done(demand(), 60_000)), (Some(0), Some(40), Some(100)));
        assert_eq!(done(Demand { declared: None, ..demand() }, 60_000), Some(80));
        assert_eq!(done(Demand { whole: false, ..demand() }, 60_000), None);
        assert!(demand().estimated_tokens(Duration::MAX, Duration::ZERO).is_some());
    }
}
