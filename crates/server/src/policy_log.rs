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

    /// The loads, newest first.
    pub(super) fn loads(&self) -> Vec<Load> {
        let mut all = self.loads.all();
        all.reverse();
        all
    }
}
