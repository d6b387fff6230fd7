//! Usage by day, key, requested model and served model. Bounded: beyond the limit, further model names share one row.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

use serde::{Deserialize, Serialize};

use super::calendar;
use signalbox_types::{Name, Usage};

/// The most rows that are kept; one takes about 300 bytes.
const MAX_ROWS: usize = 20_000;
/// The name that replaces model names beyond that.
const OTHER: &str = "other";

/// The dimensions of a row of usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    /// The day in UTC: `2026-11-21`.
    pub day: Name,
    /// The key's id; empty if keys are not required.
    pub key: Name,
    /// The key's team; empty where it has none.
    pub team: Name,
    /// The requested model; empty if the request names none.
    pub model: Name,
    /// The served model; empty if no engine answered.
    pub served: Name,
}

/// Usage counts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Requests that ended.
    pub requests: u64,
    /// Requests without a complete answer.
    pub failed: u64,
    /// Requests answered from the cache or by another request's answer.
    pub reused: u64,
    /// Prompt tokens, as engines counted them.
    pub prompt_tokens: u64,
    /// Prompt tokens found in the engines' prefix caches.
    pub cached_tokens: u64,
    /// Answer tokens, as engines counted them.
    pub completion_tokens: u64,
    /// Estimated tokens of answers that ended before their engines reported usage; in none of the counts above.
    pub estimated_tokens: u64,
    /// Total cost in US dollars, where prices are known.
    pub cost_usd: f64,
}

impl Used {
    /// The tokens of one answer, and their cost.
    pub fn answer(usage: &Usage, usd: Option<f64>) -> Self {
        Self {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.cached_tokens.unwrap_or(0),
            completion_tokens: usage.completion_tokens,
            cost_usd: usd.unwrap_or(0.0),
            ..Self::default()
        }
    }

    fn add(&mut self, more: &Self) {
        let Self {
            requests,
            failed,
            reused,
            prompt_tokens,
            cached_tokens,
            completion_tokens,
            estimated_tokens,
            cost_usd,
        } = *more;
        let counts = [
            (&mut self.requests, requests),
            (&mut self.failed, failed),
            (&mut self.reused, reused),
            (&mut self.prompt_tokens, prompt_tokens),
            (&mut self.cached_tokens, cached_tokens),
            (&mut self.completion_tokens, completion_tokens),
            (&mut self.estimated_tokens, estimated_tokens),
        ];
        for (count, more) in counts {
            *count = count.saturating_add(more);
        }
        // JSON has no infinity: a file with one could not be read back.
        self.cost_usd = (self.cost_usd + cost_usd).clamp(f64::MIN, f64::MAX);
    }
}

/// A row of usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The dimensions.
    #[serde(flatten)]
    pub entry: Entry,
    /// The counts.
    #[serde(flatten)]
    pub used: Used,
}

/// The usage of all days that are kept.
#[derive(Debug, Default)]
pub struct UsageLedger(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    rows: BTreeMap<Entry, Used>,
    /// Days that changed since they were last taken.
    changed: BTreeSet<Name>,
}

impl UsageLedger {
    /// Adds usage to a row.
    pub fn add(&self, entry: Entry, used: &Used) {
        let mut state = self.0.lock();
        state.changed.insert(entry.day.clone());
        let full = state.rows.len() >= MAX_ROWS && !state.rows.contains_key(&entry);
        let entry = if full { Entry { model: OTHER.into(), served: OTHER.into(), ..entry } } else { entry };
        state.rows.entry(entry).or_default().add(used);
    }

    /// Adds rows that were stored earlier.
    pub fn restore(&self, rows: impl IntoIterator<Item = Row>) {
        let mut state = self.0.lock();
        for Row { entry, used } in rows {
            state.rows.entry(entry).or_default().add(&used);
        }
    }

    /// Deletes the days before the day of `unix`.
    pub fn forget_before(&self, unix: i64) {
        let first = Entry { day: calendar::date(unix).to_string().into(), ..Entry::default() };
        let mut state = self.0.lock();
        state.rows = state.rows.split_off(&first);
        state.changed = state.changed.split_off(&first.day);
    }

    /// The rows whose entry satisfies `wanted`, by day and key.
    pub fn rows(&self, wanted: impl Fn(&Entry) -> bool) -> Vec<Row> {
        let state = self.0.lock();
        let rows = state.rows.iter().filter(|(entry, _)| wanted(entry));
        rows.map(|(entry, used)| Row { entry: entry.clone(), used: *used }).collect()
    }

    /// The rows of one day, by key.
    pub fn day(&self, day: &Name) -> Vec<Row> {
        let state = self.0.lock();
        let rows = state.rows.range(Entry { day: day.clone(), ..Entry::default() }..);
        let rows = rows.take_while(|(entry, _)| entry.day == *day);
        rows.map(|(entry, used)| Row { entry: entry.clone(), used: *used }).collect()
    }

    /// Takes the set of days that changed since the last call.
    pub fn take_changed(&self) -> BTreeSet<Name> {
        std::mem::take(&mut self.0.lock().changed)
    }

    /// Marks days as changed again after they could not be stored.
    pub fn put_back(&self, days: BTreeSet<Name>) {
        self.0.lock().changed.extend(days);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(day: &str, model: &str) -> Entry {
        Entry { day: day.into(), key: "web".into(), team: "".into(), model: model.into(), served: "m".into() }
    }

    fn one(prompt: u64) -> Used {
        let usage = Usage {
            prompt_tokens: prompt,
            cached_tokens: Some(1),
            completion_tokens: 2,
            reasoning_tokens: None,
            ..Usage::default()
        };
        Used { requests: 1, ..Used::answer(&usage, Some(0.5)) }
    }

    #[test]
    fn rows_add_up_and_days_are_forgotten() {
        let ledger = UsageLedger::default();
        ledger.add(entry("2026-11-20", "a"), &one(5));
        ledger.add(entry("2026-11-21", "a"), &one(7));
        ledger.add(entry("2026-11-21", "a"), &one(9));
        assert_eq!(ledger.take_changed().len(), 2);
        assert!(ledger.take_changed().is_empty());
        let rows = ledger.day(&"2026-11-21".into());
        assert_eq!((rows.len(), rows[0].used.requests, rows[0].used.prompt_tokens), (1, 2, 16));
        assert!((rows[0].used.cost_usd - 1.0).abs() < 1e-9);
        ledger.forget_before(1_795_219_200);
        assert_eq!(ledger.rows(|_| true).len(), 1);
    }

    #[test]
    fn callers_cannot_grow_it_without_end() {
        let ledger = UsageLedger::default();
        for number in 0..MAX_ROWS + 50 {
            ledger.add(entry("2026-11-21", &number.to_string()), &one(1));
        }
        let rows = ledger.rows(|_| true);
        assert_eq!(rows.len(), MAX_ROWS + 1);
        assert_eq!(rows.iter().map(|row| row.used.requests).sum::<u64>(), MAX_ROWS as u64 + 50);
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let ledger = UsageLedger::default();
        ledger.add(entry("2026-11-21", "a"), &one(5));
        let text = serde_json::to_string(&ledger.rows(|_| true)[0]).unwrap();
        let other = UsageLedger::default();
        other.restore([serde_json::from_str(&text).unwrap()]);
        assert_eq!(other.rows(|_| true), ledger.rows(|_| true));
        assert!(other.take_changed().is_empty(), "what was read need not be written");
    }
}
