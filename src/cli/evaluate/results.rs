//! What an evaluation found.

use super::learn::Replay;
use crate::prompt::complexity::curve::{Interval, Worth};

/// Bootstrap samples.
pub(super) const DRAWS: usize = 1000;

/// How one ranking did on one set of prompts.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) worth: Worth,
    pub(super) apgr: Interval,
    /// What the first row has over this one, in APGR.
    pub(super) ahead: Interval,
}

/// One set of prompts.
pub(super) struct Set {
    pub(super) name: String,
    pub(super) prompts: usize,
    pub(super) small: f64,
    pub(super) large: f64,
    pub(super) rows: Vec<Row>,
}

/// All that was found.
pub(super) struct Results {
    pub(super) weights: String,
    pub(super) left_out: bool,
    pub(super) sets: Vec<Set>,
    /// Ours for each pair of models: small, large, gap, APGR.
    pub(super) pairs: Vec<(String, String, f64, f64)>,
    pub(super) learned: Vec<Replay>,
}
