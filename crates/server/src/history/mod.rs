//! Figures of the gateway over time, for the page: an hour in steps of five seconds and three days in steps of five minutes, with events.
//! Gathered from the counters that `/metrics` reads, beside the requests. Prometheus remains the long-term store.
//!
//! Memory: a column takes 6.3 KB (720 + 864 values of 4 bytes), a pool has 16 columns and two sketches of 4.4 KB. That is 0.5 MB for 3 pools
//! and 6.3 MB for 50 pools with two objectives each; [`table::MOST_COLUMNS`] bounds it at 26 MB. A thousand events of at most 300 bytes add
//! 0.3 MB.

mod events;
mod figures;
mod file;
mod gather;
mod interval;
mod open;
mod table;

use std::{path::PathBuf, time::Duration};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use self::{
    events::Events,
    figures::{COARSE_S, Figures},
    file::Stored,
};
pub(super) use self::{
    events::{Event, Kind, Seen},
    gather::Gatherer,
    interval::FINE,
};
use super::app::App;
use signalbox_policy::{Measure, Policy};
use signalbox_telemetry::StoreWrites;
use signalbox_types::wall_clock;

/// Requested range.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    seconds: u32,
    fine: bool,
}

impl Range {
    /// The range with this name.
    pub(super) fn of(name: &str) -> Option<Self> {
        let (seconds, fine) = match name {
            "15m" => (900, true),
            "1h" => (3600, true),
            "6h" => (6 * 3600, false),
            "3d" => (72 * 3600, false),
            _ => return None,
        };
        Some(Self { seconds, fine })
    }
}

/// The history of a gateway.
pub(super) struct History {
    figures: Mutex<Figures>,
    events: Events,
    /// The file; `None` if the history is lost with the process.
    file: Option<PathBuf>,
    /// Outcome of the writes of the file.
    writes: StoreWrites,
}

impl History {
    /// Opens the history with what the folder of usage has of it.
    pub(super) fn open(policy: &Policy, writes: StoreWrites) -> Self {
        let file = policy.usage.as_ref().map(|usage| usage.path.join(file::NAME));
        let (mut figures, events) = (Figures::new(), Events::default());
        if let Some(stored) = file.as_deref().and_then(Stored::read) {
            stored.restore(&mut figures, &events);
        }
        if file.is_some() {
            writes.wrote();
        }
        Self { figures: Mutex::new(figures), events, file, writes }
    }

    /// Adds the figures of `app` since the last call.
    pub(super) fn gather(&self, app: &App, gatherer: &mut Gatherer) {
        let now = app.parts.clock.now();
        let since_end = Duration::from_nanos(now.nanos() % FINE.as_nanos() as u64);
        let interval = gatherer.interval(app, now);
        let end = wall_clock::since_1970().saturating_sub(since_end).as_secs_f64().round() as u32;
        self.figures.lock().push(end, interval);
    }

    /// Adds an event that happens now.
    pub(super) fn note(&self, event: Event) {
        self.events.add(wall_clock::seconds(), event);
    }

    /// Figures of the last `range`, in the form of `GET /admin/history`.
    pub(super) fn json(&self, range: Range, policy: &Policy) -> Value {
        let since = u32::try_from(wall_clock::seconds()).unwrap_or(u32::MAX).saturating_sub(range.seconds);
        let mut all = {
            let figures = self.figures.lock();
            if range.fine { figures.fine.json(since) } else { figures.coarse().json(since) }
        };
        for section in ["gateway", "pools", "cache", "budgets"] {
            all.entry(section).or_insert_with(|| Value::Object(Map::new()));
        }
        all.insert("step_s".into(), if range.fine { FINE.as_secs().into() } else { COARSE_S.into() });
        all.insert("events".into(), json!(self.events.since(since.into())));
        for pool in &policy.pools {
            let Some(Value::Object(own)) = all["pools"].get_mut(&*pool.name) else { continue };
            let first = pool.objectives.iter().find_map(|objective| match objective.measure {
                Measure::Ttft(limit) => Some((limit, objective.target)),
                _ => None,
            });
            own.insert("objective_ttft_ms".into(), json!(first.map(|(limit, _)| limit.as_secs_f64() * 1e3)));
            own.insert("objective_ttft_target".into(), json!(first.map(|(_, target)| target)));
        }
        Value::Object(all)
    }

    /// Writes the file, if there is one. Blocks on the disk.
    pub(super) fn save(&self) {
        let Some(path) = &self.file else { return };
        let stored = {
            let figures = self.figures.lock();
            Stored::of(figures.fine.clone(), figures.coarse(), self.events.since(0))
        };
        match stored.write(path) {
            Ok(()) if self.writes.wrote() => tracing::info!(file = %path.display(), "history: is written again"),
            Err(error) if self.writes.failed(&error) => {
                tracing::warn!(%error, file = %path.display(), "history: could not be written, will be retried (usage.path)");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
