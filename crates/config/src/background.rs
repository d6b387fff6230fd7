//! Background traffic as written in the file.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    scalar::{Field, Share, Word},
    shape::Located,
};

/// Requests that the gateway sends by itself in order to learn: second answers that are compared with the first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// The most that background requests may cost, as a share of the cost of callers' requests, such as `2%`: in US
    /// dollars if all pools have prices, otherwise in tokens.
    pub budget: Field<Share>,
    /// The only pools that may receive them. Default: the pools of the original request.
    pub pools: Option<Located<Vec<Field<Word>>>>,
    /// The pool whose model compares two answers if their words do not show whether they agree. Without it, such pairs
    /// are not used.
    pub judge: Option<Field<Word>>,
}
