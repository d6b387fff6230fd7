//! Log of failing readings: reported at the beginning, at growing intervals while they last, and at the end.

use std::time::Duration;

use signalbox_fleet::Engine;
use signalbox_types::Moment;

/// First and longest interval between reports of a lasting failure; the interval doubles.
const FIRST_REPORT_INTERVAL: Duration = Duration::from_mins(10);
const MAX_REPORT_INTERVAL: Duration = Duration::from_hours(6);

/// State of one engine's readings.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failing: Option<Failing>,
    /// True if a reading has ever succeeded.
    worked: bool,
}

#[derive(Copy, Clone, Debug)]
struct Failing {
    since: Moment,
    count: u64,
    reported_at: Moment,
    pause: Duration,
}

/// A failure to be reported.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Report {
    count: u64,
    lasts: Duration,
}

impl Outage {
    /// Records a failed reading with its reason.
    pub(super) fn fail(&mut self, engine: &Engine, why: &str, now: Moment) {
        let Some(Report { count, lasts }) = self.note(now) else { return };
        let (name, worked) = (&engine.name, self.worked);
        if lasts.is_zero() && !worked {
            tracing::warn!(
                engine = %name, why,
                "scrape: metrics of engine '{name}' cannot be read, its queue and caches are estimated; set 'scrape: false' if it has none"
            );
        } else {
            tracing::warn!(
                engine = %name, why, count, lasts_s = lasts.as_secs(),
                "scrape: metrics of engine '{name}' cannot be read any more, its last reading expires"
            );
        }
    }

    /// Records a successful reading.
    pub(super) fn end(&mut self, engine: &Engine, now: Moment) {
        self.worked = true;
        if let Some(Failing { since, count, .. }) = self.failing.take() {
            let (name, lasted_s) = (&engine.name, now.since(since).as_secs());
            tracing::info!(engine = %name, count, lasted_s, "scrape: metrics of engine '{name}' are readable again");
        }
    }

    fn note(&mut self, now: Moment) -> Option<Report> {
        let Some(failing) = &mut self.failing else {
            self.failing = Some(Failing { since: now, count: 1, reported_at: now, pause: FIRST_REPORT_INTERVAL });
            return Some(Report { count: 1, lasts: Duration::ZERO });
        };
        failing.count += 1;
        if now.since(failing.reported_at) < failing.pause {
            return None;
        }
        failing.reported_at = now;
        failing.pause = (failing.pause * 2).min(MAX_REPORT_INTERVAL);
        Some(Report { count: failing.count, lasts: now.since(failing.since) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_failure_is_reported_at_growing_intervals() {
        let mut outage = Outage::default();
        let at = |seconds| Moment::default().plus(Duration::from_secs(seconds));
        let reports: Vec<_> = (0..86_400).filter_map(|second| Some((second, outage.note(at(second))?.count))).collect();
        assert_eq!(reports[..4], [(0, 1), (600, 601), (1800, 1801), (4200, 4201)]);
        assert!(reports.len() < 10, "{reports:?}");
    }
}
