//! Results of an evaluation of the complexity ranking.

use super::learn::Replay;
use signalbox_prompt::complexity::curve::{Interval, RankingValue};

/// Bootstrap samples.
pub const DRAWS: usize = 1000;

/// Note if the larger model adds nothing, so that there is no gap to recover.
pub const NOTHING: &str = "the larger model is not better here: there is nothing to recover";

/// Result of one ranking on one set of prompts.
pub struct Row {
    /// Name of the ranking.
    pub name: &'static str,
    /// Value of the ranking by the outcomes.
    pub worth: RankingValue,
    /// Its average performance gap recovered.
    pub apgr: Interval,
    /// Lead of the first row over this one, in APGR.
    pub ahead: Interval,
}

/// One set of prompts.
pub struct Set {
    /// Its name.
    pub name: String,
    /// Number of its prompts.
    pub prompts: usize,
    /// Mean quality of the small model's answers.
    pub small: f64,
    /// Mean quality of the large model's answers.
    pub large: f64,
    /// Results by ranking, ours first.
    pub rows: Vec<Row>,
    /// Why rankings cannot be compared here, if so.
    pub note: Option<&'static str>,
}

/// All results.
pub struct Results {
    /// The weights that were used, in words.
    pub weights: String,
    /// True if each set was judged by weights fitted on the others.
    pub left_out: bool,
    /// Results by set of prompts.
    pub sets: Vec<Set>,
    /// Our ranking by pair of models: small, large, gap, APGR.
    pub pairs: Vec<(String, String, f64, f64)>,
    /// Replays of labels, if requested.
    pub learned: Option<Vec<Replay>>,
    /// Files without model names, if models were named.
    pub unnamed: Vec<String>,
}
