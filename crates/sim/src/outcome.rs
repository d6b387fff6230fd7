//! Outcome of a request in a simulation.

use std::time::Duration;

use super::traffic::Request;

/// End of a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Not ended; at the end of a run it counts as unanswered.
    Open,
    /// Answered completely.
    Answered,
    /// The client disconnected.
    Left,
    /// Refused by the scheduler.
    Refused,
    /// The answer was cut after its first token.
    Cut,
}

/// Outcome of a request.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Its end.
    pub end: End,
    /// Time from arrival to the first token.
    pub ttft: Option<Duration>,
    /// Engine of the first token.
    pub engine: Option<usize>,
    /// Tokens of the answer that arrived.
    pub tokens: u32,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its prompt found in the engine's prefix cache.
    pub cached_tokens: u32,
    arrived: Duration,
    first: Duration,
    last: Duration,
}

impl Outcome {
    /// A request without an answer yet.
    pub(super) fn open(request: &Request) -> Self {
        Self {
            end: End::Open,
            ttft: None,
            engine: None,
            tokens: 0,
            prompt_tokens: request.job.prompt_tokens,
            cached_tokens: 0,
            arrived: request.at,
            first: Duration::ZERO,
            last: Duration::ZERO,
        }
    }

    /// Records a token from `engine`. Of several attempts, the first one to send a token is the answer.
    pub(super) fn token(&mut self, at: Duration, engine: usize) {
        if self.end != End::Open || self.engine.is_some_and(|first| first != engine) {
            return;
        }
        if self.ttft.is_none() {
            self.ttft = Some(at.saturating_sub(self.arrived));
            self.engine = Some(engine);
            self.first = at;
        }
        self.last = at;
        self.tokens += 1;
    }

    /// Records a complete attempt; true if that completes the request.
    pub(super) fn finish(&mut self, engine: usize, cached_tokens: u32) -> bool {
        if self.end != End::Open || self.engine.is_some_and(|first| first != engine) {
            return false;
        }
        self.cached_tokens = cached_tokens;
        self.end = End::Answered;
        true
    }

    /// Records that the client disconnected; true if the request was open.
    pub(super) fn leave(&mut self) -> bool {
        self.close(End::Left)
    }

    /// Records a refusal; true if the request was open.
    pub(super) fn refuse(&mut self) -> bool {
        self.close(End::Refused)
    }

    /// Records that `engine` died; true if that ends the request. Before its first token the request may be retried elsewhere.
    pub(super) fn cut(&mut self, engine: usize, whole: bool) -> bool {
        if whole && self.engine == Some(engine) && self.end == End::Open {
            (self.ttft, self.engine, self.tokens) = (None, None, 0);
            return false;
        }
        self.engine == Some(engine) && self.close(End::Cut)
    }

    fn close(&mut self, end: End) -> bool {
        let open = self.end == End::Open;
        if open {
            self.end = end;
        }
        open
    }

    /// (last token − first) / (tokens − 1); `None` below five tokens, where it is too noisy.
    pub fn tpot(&self) -> Option<Duration> {
        (self.tokens > 4).then(|| self.last.saturating_sub(self.first) / (self.tokens - 1))
    }

    /// True if it counts: a request whose client left is no measure of the scheduler.
    pub fn counts(&self) -> bool {
        self.end != End::Left
    }
}
