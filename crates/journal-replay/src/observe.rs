//! Observations of each backend in a journal: every attempt with its size, times and outcome.

use std::collections::BTreeMap;

use super::read::Journal;
use signalbox_journal::recorded::{Attempt, Line};

/// Outcomes that do not show whether a backend fails.
const NO_VERDICT: [&str; 5] = ["client_gone", "escalated", "outrun", "stopped", "deadline"];

/// An attempt at a backend. Times are in seconds after the journal's first line.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Seen {
    /// Time of dispatch.
    pub at: f64,
    /// Time of its end.
    pub end: f64,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Prompt tokens that were cached.
    pub cached_tokens: u32,
    /// Tokens of its answer; `None` if it did not complete.
    pub output_tokens: Option<u32>,
    /// TTFT from dispatch; `None` if not observed, as without streaming.
    pub ttft: Option<f64>,
    /// TPOT.
    pub tpot: Option<f64>,
}

/// All attempts at one backend.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// In order of dispatch.
    pub seen: Vec<Seen>,
    /// Attempts that succeeded, and attempts that failed.
    pub ended: u64,
    /// See [`ended`](Self::ended).
    pub failed: u64,
}

/// Collects the observations of every backend in `journal`, by name.
pub fn watch(journal: &Journal) -> BTreeMap<String, Watched> {
    let mut all: BTreeMap<String, Watched> = BTreeMap::new();
    let start = journal.lines.first().map_or(0, |line| line.time_ms);
    for line in &journal.lines {
        let arrived = (line.time_ms - start) as f64 / 1e3;
        for (place, attempt) in line.attempts.iter().enumerate() {
            let watched = all.entry(attempt.backend.clone()).or_default();
            match attempt.outcome.as_deref() {
                Some("ok") => watched.ended += 1,
                Some(outcome) if !NO_VERDICT.contains(&outcome) => {
                    watched.failed += 1;
                    continue;
                }
                _ => {}
            }
            watched.seen.push(seen(line, attempt, line.answered == Some(place), arrived));
        }
    }
    for watched in all.values_mut() {
        watched.seen.sort_by(|one, other| one.at.total_cmp(&other.at));
    }
    all
}

fn seen(line: &Line, attempt: &Attempt, answered: bool, arrived: f64) -> Seen {
    let streamed = line.stream && answered;
    let ttft = attempt.ttft_ms.filter(|_| streamed).map(|ms| ms / 1e3);
    // The client's TTFT less the backend's is the time before the dispatch.
    let before = line.ttft_ms.filter(|_| streamed).zip(ttft).map(|(all, own)| all / 1e3 - own);
    let waited = line.admission.as_ref().map_or(0.0, |admission| admission.waited_ms / 1e3);
    let usage = attempt.usage.filter(|_| !attempt.usage_estimated).or(line.usage.filter(|_| answered));
    let prompt = usage.map_or(attempt.predicted.prompt_tokens, |usage| usage.prompt_tokens).clamp(1, u32::MAX.into());
    let cached = usage.and_then(|usage| usage.cached_tokens).or(attempt.reported_cached_tokens);
    let cached = cached.unwrap_or(attempt.predicted.cached_tokens).min(prompt - 1);
    let complete = attempt.outcome.as_deref() == Some("ok");
    // Older journals lack the attempts' own times and have only the request's.
    let at = arrived + attempt.began_ms.map_or_else(|| before.unwrap_or(waited), |ms| ms / 1e3).max(0.0);
    let end = arrived + attempt.ended_ms.unwrap_or(line.e2e_ms) / 1e3;
    Seen {
        at,
        end: end.max(at),
        prompt_tokens: prompt as u32,
        cached_tokens: cached as u32,
        output_tokens: usage.filter(|_| complete).map(|usage| usage.completion_tokens.min(u32::MAX.into()) as u32),
        ttft: ttft.filter(|_| complete),
        tpot: line.tpot_ms.filter(|_| streamed && complete).map(|ms| ms / 1e3),
    }
}

impl Watched {
    /// Share of attempts that failed.
    pub fn failing(&self) -> f64 {
        self.failed as f64 / (self.ended + self.failed).max(1) as f64
    }

    /// Most concurrent requests.
    pub fn most_at_once(&self) -> usize {
        let mut changes: Vec<(f64, i64)> = self.seen.iter().flat_map(|seen| [(seen.at, 1), (seen.end, -1)]).collect();
        changes.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let (mut now, mut most) = (0_i64, 0);
        for (_, change) in changes {
            now += change;
            most = most.max(now);
        }
        most as usize
    }
}
