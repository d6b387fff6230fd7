//! What became of one request, as its caller saw it.

use std::time::Duration;

use tokio::time::Instant;

use crate::types::Usage;

/// Why a request has no answer of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection came about.
    Connect(String),
    /// The connection ended before the head of an answer.
    Lost(String),
    /// It took longer than was allowed.
    Timeout(Duration),
    /// The server refused.
    Status {
        /// The HTTP status.
        status: u16,
        /// The error's code, or else its type; empty where it names neither.
        code: String,
        /// What it said.
        message: String,
    },
    /// The stream told of an error.
    InStream(String),
    /// The answer ended before it was complete.
    Cut(String),
    /// The answer cannot be read.
    Invalid(String),
    /// The answer is complete and has nothing in it.
    Empty,
}

/// Bytes of a code that are kept.
const CODE_BYTES: usize = 48;

impl Failure {
    /// In a word or two, which tables and programs count by.
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

    /// What exactly happened.
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

    /// The refusal that a body of this status says, in whichever shape.
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

/// What was seen of one answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// When the request was handed to the connection.
    pub sent: Instant,
    /// When its first content, reasoning or tool delta was read; `None` where it came whole, or never.
    pub first: Option<Instant>,
    /// When the last one was.
    pub last: Option<Instant>,
    /// The times between two of them, in seconds.
    pub gaps: Vec<f32>,
    /// When it ended.
    pub end: Instant,
    /// Events with tokens.
    pub events: u64,
    /// What the server counted.
    pub usage: Option<Usage>,
    /// Whether some of it is reasoning, shown as it came.
    pub reasoning: bool,
    /// Whether a gateway had it, or shared another's: no engine gave a first token for it.
    pub replayed: bool,
    /// Whether a simulated engine gave it.
    pub simulated: bool,
    /// What is wrong with it.
    pub failure: Option<Failure>,
}

impl Answer {
    /// A request that was sent at `sent` and of which nothing is known yet.
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

    /// One that ends now, in `failure` if in any.
    #[must_use]
    pub fn ended(mut self, failure: Option<Failure>) -> Self {
        self.end = Instant::now();
        self.failure = failure;
        self
    }

    /// A token came at `now`.
    pub fn token(&mut self, now: Instant) {
        if let Some(last) = self.last {
            self.gaps.push(now.duration_since(last).as_secs_f32());
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.events += 1;
    }

    /// Seconds per output token after the first: by the server's count of them, or else by events.
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
    fn refusals_are_told_by_status_and_code() {
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
