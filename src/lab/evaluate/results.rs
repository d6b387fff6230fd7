//! What an evaluation found.

use super::learn::Replay;
use crate::prompt::complexity::curve::{Interval, Worth};

/// Bootstrap samples.
pub(crate) const DRAWS: usize = 1000;

/// What is said where a larger model adds nothing, so that there are no parts of it.
pub(crate) const NOTHING: &str = "the larger model is not better here: there is nothing to recover";

/// How one ranking did on one set of prompts.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) worth: Worth,
    pub(crate) apgr: Interval,
    /// What the first row has over this one, in APGR.
    pub(crate) ahead: Interval,
}

/// One set of prompts.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) prompts: usize,
    pub(crate) small: f64,
    pub(crate) large: f64,
    pub(crate) rows: Vec<Row>,
    /// Why nothing can be told of rankings here, where that is so.
    pub(crate) note: Option<&'static str>,
}

/// All that was found.
pub(crate) struct Results {
    pub(crate) weights: String,
    pub(crate) left_out: bool,
    pub(crate) sets: Vec<Set>,
    /// Ours for each pair of models: small, large, gap, APGR.
    pub(crate) pairs: Vec<(String, String, f64, f64)>,
    /// Replays of labels, where they were asked for.
    pub(crate) learned: Option<Vec<Replay>>,
    /// Files whose scores are of no named model, where models were named.
    pub(crate) unnamed: Vec<String>,
}
