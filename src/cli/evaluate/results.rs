//! What an evaluation found.

use super::learn::Replay;
use crate::prompt::complexity::curve::{Interval, RankingValue};

/// Bootstrap samples.
pub(super) const DRAWS: usize = 1000;

/// What is said where a larger model adds nothing, so that there are no parts of it.
pub(super) const NOTHING: &str = "the larger model is not better here: there is nothing to recover";

/// How one ranking did on one set of prompts.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) worth: RankingValue,
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
    /// Why nothing can be told of rankings here, where that is so.
    pub(super) note: Option<&'static str>,
}

/// All that was found.
pub(super) struct Results {
    pub(super) weights: String,
    pub(super) left_out: bool,
    pub(super) sets: Vec<Set>,
    /// Ours for each pair of models: small, large, gap, APGR.
    pub(super) pairs: Vec<(String, String, f64, f64)>,
    /// Replays of labels, where they were asked for.
    pub(super) learned: Option<Vec<Replay>>,
    /// Files whose scores are of no named model, where models were named.
    pub(super) unnamed: Vec<String>,
}
