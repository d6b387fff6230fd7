//! The access log: one line for each finished request, as text or as JSON. It contains no prompt, no answer, no header and no query string.

use std::{fmt::Write as _, io::Write as _, sync::Arc};

use serde::Serialize;

use super::JournalEntry;
use signalbox_policy::AccessFormat;
use signalbox_telemetry::{Entry, Journal};
use signalbox_types::Name;

/// Characters of a path that are logged.
const LONGEST_PATH: usize = 256;

/// An open access log.
pub struct AccessLog {
    journal: Journal,
    format: AccessFormat,
}

impl AccessLog {
    /// Writes to `journal`.
    pub fn new(journal: Journal, format: AccessFormat) -> Self {
        Self { journal, format }
    }

    /// Queues the line of a finished request. Never waits.
    pub(crate) fn write(&self, entry: Arc<JournalEntry>) {
        self.journal.write(Arc::new(Line { entry, format: self.format }));
    }

    /// Opens the file again by its name, for programs that rotate it.
    pub fn reopen(&self) {
        self.journal.reopen();
    }

    /// Writes the queued lines and stops. Blocks.
    pub fn close(&self) {
        self.journal.close();
    }
}

/// Returns the method and the path of a request, as the access log shows them.
pub fn request_line(method: &http::Method, uri: &http::Uri) -> (http::Method, String) {
    (method.clone(), uri.path().chars().take(LONGEST_PATH).collect())
}

/// One line, before it is formatted.
struct Line {
    entry: Arc<JournalEntry>,
    format: AccessFormat,
}

/// The fields of a line.
#[derive(Serialize)]
struct Fields<'a> {
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

impl<'a> Fields<'a> {
    fn of(entry: &'a JournalEntry) -> Self {
        let last = entry.last();
        let request_line = entry.request_line.as_deref();
        let cache = entry.cache.as_ref();
        let time = jiff::Timestamp::from_millisecond(entry.time_ms.cast_signed()).unwrap_or_default();
        // A client that left before the answer never saw a status: 499, as nginx logs it.
        let unseen = match entry.outcome {
            "client_gone" => 499,
            "stopped" => 503,
            _ => 500,
        };
        Self {
            time: format!("{time:.3}"),
            id: &entry.id,
            key: entry.key.as_ref(),
            method: request_line.map(|(method, _)| method.as_str()),
            path: request_line.map(|(_, path)| &**path),
            endpoint: entry.endpoint,
            model: entry.model.as_deref(),
            route: entry.route.as_ref(),
            pool: last.map(|attempt| &attempt.pool).or_else(|| cache?.pool.as_ref()),
            backend: last.map(|attempt| &attempt.backend),
            cache: cache.map(|cache| cache.result),
            stream: entry.stream,
            status: if entry.status == 0 { unseen } else { entry.status },
            outcome: entry.outcome,
            attempts: entry.attempts.len(),
            prompt_tokens: entry.usage.map(|usage| usage.prompt_tokens),
            cached_tokens: entry.usage.and_then(|usage| usage.cached_tokens),
            completion_tokens: entry.usage.map(|usage| usage.completion_tokens),
            ttft_ms: entry.ttft_ms.map(rounded),
            duration_ms: rounded(entry.e2e_ms),
        }
    }

    /// `2026-11-24T08:00:00.000Z POST /v1/chat/completions 200 ok id=… model="auto" …`
    fn text(&self) -> String {
        let (method, path) = (self.method.unwrap_or("-"), self.path.unwrap_or(self.endpoint));
        let mut text = format!("{} {method} {} {} {}", self.time, quoted(path), self.status, self.outcome);
        let names = [
            ("id", Some(self.id)),
            ("key", self.key.map(|key| &**key)),
            ("model", self.model),
            ("route", self.route.map(|route| &**route)),
            ("pool", self.pool.map(|pool| &**pool)),
            ("backend", self.backend.map(|backend| &**backend)),
            ("cache", self.cache),
        ];
        for (name, value) in names {
            if let Some(value) = value {
                let _ = write!(text, " {name}={}", quoted(value));
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

impl Entry for Line {
    fn write(&self, buffer: &mut Vec<u8>) -> serde_json::Result<()> {
        let fields = Fields::of(&self.entry);
        match self.format {
            AccessFormat::Json => serde_json::to_writer(buffer, &fields),
            AccessFormat::Text => buffer.write_all(fields.text().as_bytes()).map_err(serde_json::Error::io),
        }
    }

    fn weight(&self) -> usize {
        self.entry.weight()
    }
}

/// Quotes and escapes a value that contains anything but graphic ASCII, so that a client cannot forge a field or a entry.
fn quoted(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\');
    if !value.is_empty() && value.bytes().all(is_plain) {
        return value.to_owned();
    }
    // Escapes line breaks and the like.
    format!("{value:?}")
}

/// Rounds to a thousandth.
fn rounded(millis: f64) -> f64 {
    (millis * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_chosen_by_a_client_cannot_forge_a_line() {
        assert_eq!(quoted("gpt-4o"), "gpt-4o");
        assert_eq!(quoted("a b\n2026 POST /x 200"), "\"a b\\n2026 POST /x 200\"");
        assert_eq!((quoted(""), quoted("a=\"b")), ("\"\"".to_owned(), "\"a=\\\"b\"".to_owned()));
    }
}
