//! Loads of the policy since the start.

use std::path::PathBuf;

use serde::Serialize;

use super::recent::Recent;
use signalbox_types::wall_clock;

/// Most loads that are kept.
const MOST: usize = 100;
/// Most characters of a remark.
const LONGEST: usize = 200;

/// A load of the policy.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Load {
    /// Seconds since 1970.
    time_s: i64,
    /// The policy's hash; `None` where none was loaded.
    hash: Option<String>,
    /// The result.
    what: String,
}

/// The loads so far.
pub(super) struct PolicyLog {
    /// The policy file, if the gateway has one.
    pub(super) file: Option<PathBuf>,
    loads: Recent<Load, MOST>,
}

impl PolicyLog {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        Self { file, loads: Recent::default() }
    }

    /// Adds a load: the hash and a remark, or the error.
    pub(super) fn note(&self, result: Result<(&str, &str), &str>) {
        let (hash, what) = match result {
            Ok((hash, what)) => (Some(hash.to_owned()), what.to_owned()),
            Err(error) => {
                // A report begins with a mark and the number of problems.
                let first = error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
                (None, format!("not loaded: {}", first.trim_start_matches(['×', ' '])))
            }
        };
        let what = what.chars().take(LONGEST).collect();
        self.loads.add([Load { time_s: wall_clock::seconds(), hash, what }]);
    }

    /// The load that failed, if the last one did: the seconds since the first failure after the last success, and the result.
    pub(super) fn refused(&self) -> Option<(i64, String)> {
        let loads = self.loads.all();
        let failed = || loads.iter().rev().take_while(|load| load.hash.is_none());
        let (last, first) = (failed().next()?, failed().last()?);
        Some((wall_clock::seconds().saturating_sub(first.time_s).max(0), last.what.clone()))
    }

    /// The loads, newest first.
    pub(super) fn loads(&self) -> Vec<Load> {
        let mut all = self.loads.all();
        all.reverse();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_load_stays_until_one_succeeds() {
        let log = PolicyLog::new(None);
        log.note(Ok(("one", "loaded at the start")));
        assert_eq!(log.refused(), None);
        log.note(Err("  × 1 problem\n more"));
        log.note(Err("unknown key 'nonsense'"));
        assert!(log.refused().is_some_and(|(_, what)| what == "not loaded: unknown key 'nonsense'"));
        log.note(Ok(("two", "loaded")));
        assert_eq!(log.refused(), None);
    }
}
