//! Results of an evaluation of the complexity ranking.

use super::learn::Replay;
use crate::prompt::complexity::curve::{Interval, RankingValue};

/// Bootstrap samples.
pub(crate) const DRAWS: usize = 1000;

/// Note if the larger model adds nothing, so that there is no gap to recover.
pub(crate) const NOTHING: &str = "the larger model is not better here: there is nothing to recover";

/// Result of one ranking on one set of prompts.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) worth: RankingValue,
    pub(crate) apgr: Interval,
    /// Lead of the first row over this one, in APGR.
    pub(crate) ahead: Interval,
}

/// One set of prompts.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) prompts: usize,
    pub(crate) small: f64,
    pub(crate) large: f64,
    pub(crate) rows: Vec<Row>,
    /// Why rankings cannot be compared here, if so.
    pub(crate) note: Option<&'static str>,
}

/// All results.
pub(crate) struct Results {
    pub(crate) weights: String,
    pub(crate) left_out: bool,
    pub(crate) sets: Vec<Set>,
    /// Our ranking by pair of models: small, large, gap, APGR.
    pub(crate) pairs: Vec<(String, String, f64, f64)>,
    /// Replays of labels, if requested.
    pub(crate) learned: Option<Vec<Replay>>,
    /// Files without model names, if models were named.
    pub(crate) unnamed: Vec<String>,
}
