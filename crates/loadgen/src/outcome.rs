//! Outcome of one request as its caller saw it.

use std::time::Duration;

use tokio::time::Instant;

use signalbox_types::Usage;

/// Kinds of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection failed.
    Connect(String),
    /// The connection ended before the head of the answer.
    Lost(String),
    /// The time limit passed.
    Timeout(Duration),
    /// The server refused the request.
    Status {
        /// HTTP status.
        status: u16,
        /// Error code, or else its type; empty without both.
        code: String,
        /// Error message.
        message: String,
    },
    /// The stream reported an error.
    InStream(String),
    /// The answer was cut.
    Cut(String),
    /// The answer cannot be parsed.
    Invalid(String),
    /// The answer is complete and empty.
    Empty,
}

/// Most bytes of an error code.
const CODE_BYTES: usize = 48;

impl Failure {
    /// Short name for tables and programs.
    pub fn kind(&self) -> String {
        match self {
            Self::Connect(_) => "connect".to_owned(),
            Self::Lost(_) => "lost".to_owned(),
            Self::Timeout(_) => "timeout".to_owned(),
            Self::Status { status, code, .. } if code.is_empty() => format!("http_{status}"),
            Self::Status { status, code, .. } => format!("http_{status}_{code}"),
            Self::InStream(_) => "error_in_stream".to_owned(),
            Self::Cut(_) => "cut".to_owned(),
            Self::Invalid(_) => "invalid".to_owned(),
            Self::Empty => "empty".to_owned(),
        }
    }

    /// Details.
    pub fn message(&self) -> String {
        match self {
            Self::Connect(message)
            | Self::Lost(message)
            | Self::Status { message, .. }
            | Self::InStream(message)
            | Self::Cut(message)
            | Self::Invalid(message) => message.clone(),
            Self::Timeout(limit) => format!("no complete answer after {limit:?}"),
            Self::Empty => "the answer was complete without a token".to_owned(),
        }
    }

    /// Parses an error response, in any of the common shapes.
    pub(super) fn refusal(status: u16, body: &[u8]) -> Self {
        let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &value["error"];
        let code = error["code"].as_str().or(error["type"].as_str()).unwrap_or_default();
        let plain = code.chars().filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.'));
        let said = || String::from_utf8_lossy(body).trim().chars().take(200).collect::<String>();
        let message = error["message"].as_str().or(error.as_str()).map_or_else(said, str::to_owned);
        Self::Status { status, code: plain.take(CODE_BYTES).collect(), message }
    }
}

/// Measurements of one answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Time of sending.
    pub sent: Instant,
    /// Time of the first content, reasoning or tool delta; `None` without streaming or tokens.
    pub first: Option<Instant>,
    /// Time of the last delta.
    pub last: Option<Instant>,
    /// Gaps between deltas, in seconds.
    pub gaps: Vec<f32>,
    /// Time of the end.
    pub end: Instant,
    /// Number of events with tokens.
    pub events: u64,
    /// Usage as the server counted it.
    pub usage: Option<Usage>,
    /// True if the answer has reasoning that was streamed.
    pub reasoning: bool,
    /// True if a cache answered or the request was coalesced: no engine sent a first token for it.
    pub replayed: bool,
    /// True if a simulated engine answered.
    pub simulated: bool,
    /// The failure, if it failed.
    pub failure: Option<Failure>,
}

impl Answer {
    /// A request that was sent at `sent`.
    pub fn new(sent: Instant) -> Self {
        Self {
            sent,
            first: None,
            last: None,
            gaps: Vec::new(),
            end: sent,
            events: 0,
            usage: None,
            reasoning: false,
            replayed: false,
            simulated: false,
            failure: None,
        }
    }

    /// Ends it now, with `failure` if it failed.
    #[must_use]
    pub fn ended(mut self, failure: Option<Failure>) -> Self {
        self.end = Instant::now();
        self.failure = failure;
        self
    }

    /// Records a token at `now`.
    pub fn token(&mut self, now: Instant) {
        if let Some(last) = self.last {
            self.gaps.push(now.duration_since(last).as_secs_f32());
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.events += 1;
    }

    /// Seconds per output token after the first: by the server's count of tokens, or else by events.
    pub fn tpot(&self) -> Option<f64> {
        let (first, last) = (self.first?, self.last?);
        let counted = self.usage.map(|usage| usage.shown_tokens(self.reasoning)).filter(|tokens| *tokens > 0);
        let tokens = counted.unwrap_or(self.events);
        (tokens > 1 && last > first).then(|| last.duration_since(first).as_secs_f64() / (tokens - 1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_classified_by_status_and_code() {
        let kind = |body: &str| Failure::refusal(429, body.as_bytes()).kind();
        assert_eq!(
            kind(r#"{"error":{"message":"slow","type":"requests","code":"rate_limit_exceeded"}}"#),
            "http_429_rate_limit_exceeded"
        );
        assert_eq!(kind(r#"{"error":{"message":"slow","type":"overloaded_error"}}"#), "http_429_overloaded_error");
        assert_eq!(kind("<html>"), "http_429");
        assert_eq!(kind(r#"{"error":{"code":"a b\n!c"}}"#), "http_429_abc");
        assert_eq!(Failure::refusal(502, b" bad gateway\n").message(), "bad gateway");
        assert_eq!(Failure::refusal(400, br#"{"error":"no"}"#).message(), "no");
    }

    #[test]
    fn time_per_token_is_by_the_count_of_tokens() {
        let start = Instant::now();
        let mut answer = Answer::new(start);
        for at in [100, 150, 300] {
            answer.token(start + Duration::from_millis(at));
        }
        assert_eq!(answer.gaps, [0.05, 0.15]);
        assert!((answer.tpot().unwrap() - 0.1).abs() < 1e-9, "by events");
        answer.usage = Some(Usage { completion_tokens: 5, ..Usage::default() });
        assert!((answer.tpot().unwrap() - 0.05).abs() < 1e-9, "an event may hold two tokens");
    }
}
