//! Token counts of an answer, and the time per token.

use std::time::Duration;

use super::Meter;
use signalbox_types::{Outcome, Usage};

impl Meter {
    /// Estimates the usage so far from the bytes of prompt and text.
    pub(super) fn estimate(&self) -> Usage {
        let tokens = self.streamed_tokens(Outcome::Escalated);
        Usage {
            prompt_tokens: self.backend.prompt_tokens(self.prompt_weight),
            completion_tokens: self
                .record
                .demand()
                .map_or(tokens, |demand| tokens.min(demand.most().completion_tokens)),
            ..Usage::default()
        }
    }

    /// Tokens received so far, estimated from the text.
    pub(crate) fn token_count(&self) -> u64 {
        self.streamed_tokens(Outcome::Escalated)
    }

    /// Tokens received so far, estimated from the number of events. Used for what the client of a broken stream has.
    pub(crate) fn received(&self) -> u64 {
        self.backend.learned.tokens_in(self.events)
    }

    /// Bounds an engine's reported usage by what is possible for the request, of which `seen` tokens at most were shown.
    pub(super) fn possible(&self, usage: Usage, seen: u64) -> Usage {
        self.record.demand().map_or(usage, |demand| demand.plausible(usage, seen))
    }

    /// Tokens that a complete stream showed by the engine's count. `None` where that has more than was shown: reasoning may
    /// be hidden without a count of its own, or shown as a summary.
    pub(super) fn shown_tokens(&self) -> Option<u64> {
        let shown = self.usage.map(|usage| usage.shown_tokens(self.reasoning))?;
        (shown <= self.text_bytes.saturating_add(self.events)).then_some(shown)
    }

    /// Estimates the work done for a client that left before an unstreamed answer arrived: the prompt, and tokens at
    /// the predicted pace for the time after the prompt. `None` for any other attempt.
    pub(super) fn unseen(&self, outcome: Outcome) -> Option<Usage> {
        if outcome != Outcome::ClientGone || self.usage.is_some() || self.tokens.is_some() {
            return None;
        }
        let of = |millis: f64| Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default();
        let decoding = self.clock.now().since(self.started).saturating_sub(of(self.predicted.ttft_ms));
        let completion_tokens = self.record.demand()?.estimated_tokens(decoding, of(self.predicted.tpot_ms))?;
        Some(Usage { completion_tokens, ..self.estimate() })
    }

    /// Seconds per output token after the first: (last − first) / (n − 1), where n is the number of tokens seen per
    /// choice.
    pub(super) fn tpot(&self, outcome: Outcome) -> Option<f64> {
        let (first, last) = self.tokens?;
        let tokens = self.streamed_tokens(outcome) / u64::from(self.choices.count_ones().max(1));
        (tokens > 1 && last > first).then(|| last.seconds_since(first) / (tokens - 1) as f64)
    }

    /// Tokens seen in the stream: the engine's count of a complete answer less any hidden reasoning, else an estimate
    /// from the text, because an event is not a token.
    fn streamed_tokens(&self, outcome: Outcome) -> u64 {
        let counted = self.usage.is_some_and(|usage| outcome == Outcome::Complete && usage.completion_tokens > 0);
        let shown = if counted { self.shown_tokens() } else { None };
        shown.unwrap_or_else(|| self.backend.learned.bytes_per_token.tokens(self.text_bytes))
    }
}
