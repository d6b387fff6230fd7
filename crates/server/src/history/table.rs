//! Columns of equal length over time, bounded in rows and columns. An unknown value is not a number here, and `null` in JSON.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::interval::{Path, Row};
use signalbox_types::Name;

/// Most columns; more are left out.
pub(super) const MOST_COLUMNS: usize = 4096;
/// Significant digits that are kept.
const DIGITS: i32 = 4;

/// Rows with the Unix time in seconds at which each ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Table {
    step_s: u32,
    rows: usize,
    times: VecDeque<u32>,
    #[serde(with = "columns")]
    columns: BTreeMap<Path, VecDeque<f32>>,
}

impl Table {
    /// A table of at most `rows`, `step_s` seconds apart.
    pub(super) fn new(step_s: u32, rows: usize) -> Self {
        Self { step_s, rows, times: VecDeque::with_capacity(rows), columns: BTreeMap::new() }
    }

    /// Time of the last row.
    pub(super) fn last(&self) -> Option<u32> {
        self.times.back().copied()
    }

    /// Adds a row. Rows at or after its time are replaced: the system's clock was set back.
    pub(super) fn push(&mut self, time: u32, row: Row) {
        while self.last().is_some_and(|last| last >= time) {
            self.times.pop_back();
            for column in self.columns.values_mut() {
                column.pop_back();
            }
        }
        let oldest = time.saturating_sub(self.step_s * self.rows as u32);
        while self.times.len() >= self.rows || self.times.front().is_some_and(|first| *first <= oldest) {
            self.times.pop_front();
            for column in self.columns.values_mut() {
                column.pop_front();
            }
        }
        // Pools that are gone leave no column behind.
        self.columns.retain(|_, column| column.iter().any(|value| value.is_finite()));
        for (path, value) in row {
            let is_full = self.columns.len() >= MOST_COLUMNS;
            if !value.is_finite() || is_full && !self.columns.contains_key(&path) {
                continue;
            }
            let (rows, before) = (self.rows, self.times.len());
            let column = self.columns.entry(path).or_insert_with(|| {
                let mut column = VecDeque::with_capacity(rows);
                column.resize(before, f32::NAN);
                column
            });
            column.truncate(before);
            column.push_back(rounded(value));
        }
        self.times.push_back(time);
        let rows = self.times.len();
        self.columns.values_mut().for_each(|column| column.resize(rows, f32::NAN));
    }

    /// Rows after `since`, as nested objects with a list for each column. A row of nulls stands in each gap, so that a chart is not drawn
    /// across it.
    pub(super) fn json(&self, since: u32) -> Map<String, Value> {
        let first = self.times.partition_point(|time| *time <= since);
        let gap = self.step_s * 5 / 2;
        let mut gaps = Vec::new();
        let mut times = Vec::new();
        for (at, time) in self.times.iter().enumerate().skip(first) {
            if at > first && time - self.times[at - 1] > gap {
                gaps.push(at);
                times.push(Value::from(self.times[at - 1] + self.step_s));
            }
            times.push(Value::from(*time));
        }
        let mut all = Map::from_iter([("times".to_owned(), Value::from(times))]);
        for (path, column) in &self.columns {
            let mut values = Vec::with_capacity(column.len() - first + gaps.len());
            for (at, value) in column.iter().enumerate().skip(first) {
                if gaps.contains(&at) {
                    values.push(Value::Null);
                }
                values.push(json(*value));
            }
            insert(&mut all, path, values.into());
        }
        all
    }

    /// Takes the rows of `stored`, a table that was written by an earlier process; `None` if it is no table of this kind.
    pub(super) fn restored(self, stored: Self) -> Option<Self> {
        let rows = stored.times.len();
        let fits = stored.step_s == self.step_s
            && rows <= self.rows
            && stored.columns.len() <= MOST_COLUMNS
            && stored.columns.iter().all(|(path, column)| column.len() == rows && !path.is_empty())
            && stored.times.iter().zip(stored.times.iter().skip(1)).all(|(one, next)| one < next);
        fits.then(|| {
            let mut restored = Self { rows: self.rows, ..stored };
            restored.times.reserve_exact(self.rows - rows);
            restored.columns.values_mut().for_each(|column| column.reserve_exact(self.rows - rows));
            restored
        })
    }

    /// Memory of the values, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let values: usize = self.columns.values().map(VecDeque::capacity).sum();
        (values + self.times.capacity()) * size_of::<f32>()
    }
}

/// Rounds to [`DIGITS`] significant digits.
fn rounded(value: f64) -> f32 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powi(DIGITS - 1 - value.abs().log10().floor() as i32);
    ((value * scale).round() / scale) as f32
}

fn json(value: f32) -> Value {
    // The shortest decimal of the single precision, not that of the double which it converts to.
    value.is_finite().then(|| value.to_string().parse::<f64>().ok()).flatten().map_or(Value::Null, Value::from)
}

/// Puts `value` at its place in nested objects.
fn insert(all: &mut Map<String, Value>, path: &[Name], value: Value) {
    match path {
        [] => {}
        [last] => drop(all.insert(last.to_string(), value)),
        [first, rest @ ..] => {
            let inner = all.entry(first.to_string()).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Columns as a list of pairs, since a JSON object has text for its keys.
mod columns {
    use std::collections::{BTreeMap, VecDeque};

    use serde::{Deserialize, Deserializer, Serializer};
    use serde_json::Value;

    use super::{super::interval::Path, json};

    pub(super) fn serialize<S: Serializer>(
        columns: &BTreeMap<Path, VecDeque<f32>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(columns.iter().map(|(path, column)| {
            let values: Vec<Value> = column.iter().map(|value| json(*value)).collect();
            (path, values)
        }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Path, VecDeque<f32>>, D::Error> {
        let all = Vec::<(Path, VecDeque<Option<f32>>)>::deserialize(deserializer)?;
        let known = |column: VecDeque<Option<f32>>| column.into_iter().map(|value| value.unwrap_or(f32::NAN)).collect();
        Ok(all.into_iter().map(|(path, column)| (path, known(column))).collect())
    }
}
