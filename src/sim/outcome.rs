//! What became of a request in a simulation, and the figures over many.

use std::time::Duration;

use super::traffic::Request;

/// How a request ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It has not ended; at the end of a run, it never got an answer.
    Open,
    /// Answered whole.
    Answered,
    /// Its client left.
    Left,
    /// Refused by the scheduler.
    Refused,
    /// Its answer broke off after its first token.
    Cut,
}

/// What became of one request.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// From arrival to the first token.
    pub ttft: Option<Duration>,
    /// The engine that gave the first token.
    pub engine: Option<usize>,
    /// Tokens of the answer that came.
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
    /// A request that has not been answered yet.
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

    /// A token came from `engine`. Where several attempts compete, the first to answer is the answer.
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

    /// An attempt is complete; whether the request is, by that.
    pub(super) fn finish(&mut self, engine: usize, cached_tokens: u32) -> bool {
        if self.end != End::Open || self.engine.is_some_and(|first| first != engine) {
            return false;
        }
        self.cached_tokens = cached_tokens;
        self.end = End::Answered;
        true
    }

    /// The client leaves; whether it was still there.
    pub(super) fn leave(&mut self) -> bool {
        self.close(End::Left)
    }

    /// Refused; whether it was open.
    pub(super) fn refuse(&mut self) -> bool {
        self.close(End::Refused)
    }

    /// `engine` is gone; whether that ends it: where its client had seen nothing from there, it may be answered elsewhere.
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

    /// (last token − first) / (tokens − 1); `None` below five tokens, where it means little.
    pub fn tpot(&self) -> Option<Duration> {
        (self.tokens > 4).then(|| self.last.saturating_sub(self.first) / (self.tokens - 1))
    }

    /// Whether it counts: one whose client left by its own will says nothing of the scheduler.
    pub fn counts(&self) -> bool {
        self.end != End::Left
    }
}
