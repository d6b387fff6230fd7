//! The access log: a line for each request that is over, for people or for machines. No text of a prompt or an answer is in it, no header, and
//! no query.

use std::{fmt::Write as _, io::Write as _, sync::Arc};

use serde::Serialize;

use super::JournalEntry;
use crate::{
    policy::AccessFormat,
    telemetry::{Entry, Journal},
    types::Name,
};

/// Longest path that is told, in bytes.
const LONGEST_PATH: usize = 256;

/// An access log that is being written.
pub struct AccessLog {
    journal: Journal,
    format: AccessFormat,
}

impl AccessLog {
    /// Writes to `journal`.
    pub fn new(journal: Journal, format: AccessFormat) -> Self {
        Self { journal, format }
    }

    /// Queues a request that is over. Never waits.
    pub(crate) fn write(&self, line: Arc<JournalEntry>) {
        self.journal.write(Arc::new(Access { line, format: self.format }));
    }

    /// Writes what is queued and stops. It blocks.
    pub fn close(&self) {
        self.journal.close();
    }
}

/// What a request asked for, as far as it is told.
pub(crate) fn request_line(method: &http::Method, uri: &http::Uri) -> (http::Method, String) {
    (method.clone(), uri.path().chars().take(LONGEST_PATH).collect())
}

/// A line of it.
struct Access {
    line: Arc<JournalEntry>,
    format: AccessFormat,
}

/// What a line says.
#[derive(Serialize)]
struct Told<'a> {
    time: String,
    id: &'a str,
    key: Option<&'a Name>,
    method: Option<&'a str>,
    path: Option<&'a str>,
    endpoint: &'static str,
    model: Option<&'a str>,
    route: Option<&'a Name>,
    pool: Option<&'a Name>,
    backend: Option<&'a Name>,
    cache: Option<&'static str>,
    stream: bool,
    status: u16,
    outcome: &'static str,
    attempts: usize,
    prompt_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    ttft_ms: Option<f64>,
    duration_ms: f64,
}

impl<'a> Told<'a> {
    fn of(line: &'a JournalEntry) -> Self {
        let last = line.last();
        let asked = line.asked.as_deref();
        let reused = line.reused.as_ref();
        let time = jiff::Timestamp::from_millisecond(line.time_ms.cast_signed()).unwrap_or_default();
        // A client that left before there was an answer never saw a status: 499, as nginx notes it.
        let unseen = match line.outcome {
            "client_gone" => 499,
            "stopped" => 503,
            _ => 500,
        };
        Self {
            time: format!("{time:.3}"),
            id: &line.id,
            key: line.key.as_ref(),
            method: asked.map(|(method, _)| method.as_str()),
            path: asked.map(|(_, path)| &**path),
            endpoint: line.endpoint,
            model: line.model.as_deref(),
            route: line.route.as_ref(),
            pool: last.map(|attempt| &attempt.pool).or_else(|| reused?.pool.as_ref()),
            backend: last.map(|attempt| &attempt.backend),
            cache: reused.map(|reused| reused.result),
            stream: line.stream,
            status: if line.status == 0 { unseen } else { line.status },
            outcome: line.outcome,
            attempts: line.attempts.len(),
            prompt_tokens: line.usage.map(|usage| usage.prompt_tokens),
            cached_tokens: line.usage.and_then(|usage| usage.cached_tokens),
            completion_tokens: line.usage.map(|usage| usage.completion_tokens),
            ttft_ms: line.ttft_ms.map(thousandth),
            duration_ms: thousandth(line.e2e_ms),
        }
    }

    /// `2026-11-24T08:00:00.000Z POST /v1/chat/completions 200 ok id=… model="auto" …`
    fn text(&self) -> String {
        let (method, path) = (self.method.unwrap_or("-"), self.path.unwrap_or(self.endpoint));
        let mut text = format!("{} {method} {} {} {}", self.time, plain(path), self.status, self.outcome);
        let words = [
            ("id", Some(self.id)),
            ("key", self.key.map(|key| &**key)),
            ("model", self.model),
            ("route", self.route.map(|route| &**route)),
            ("pool", self.pool.map(|pool| &**pool)),
            ("backend", self.backend.map(|backend| &**backend)),
            ("cache", self.cache),
        ];
        for (name, word) in words {
            if let Some(word) = word {
                let _ = write!(text, " {name}={}", plain(word));
            }
        }
        let _ = write!(text, " stream={} attempts={}", self.stream, self.attempts);
        let counts = [
            ("prompt_tokens", self.prompt_tokens),
            ("cached_tokens", self.cached_tokens),
            ("completion_tokens", self.completion_tokens),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                let _ = write!(text, " {name}={count}");
            }
        }
        if let Some(ttft) = self.ttft_ms {
            let _ = write!(text, " ttft_ms={ttft}");
        }
        let _ = write!(text, " duration_ms={}", self.duration_ms);
        text
    }
}

impl Entry for Access {
    fn write(&self, line: &mut Vec<u8>) -> serde_json::Result<()> {
        let told = Told::of(&self.line);
        match self.format {
            AccessFormat::Json => serde_json::to_writer(line, &told),
            AccessFormat::Text => line.write_all(told.text().as_bytes()).map_err(serde_json::Error::io),
        }
    }

    fn weight(&self) -> usize {
        self.line.weight()
    }
}

/// A word that cannot be taken for another: as it is, or in quotes where a client put anything odd into it.
fn plain(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\');
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    // Escapes line breaks and the like.
    format!("{word:?}")
}

fn thousandth(millis: f64) -> f64 {
    (millis * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_chose_cannot_forge_a_line() {
        assert_eq!(plain("gpt-4o"), "gpt-4o");
        assert_eq!(plain("a b\n2026 POST /x 200"), "\"a b\\n2026 POST /x 200\"");
        assert_eq!((plain(""), plain("a=\"b")), ("\"\"".to_owned(), "\"a=\\\"b\"".to_owned()));
    }
}
