//! Traffic of the gateway's own making, as it is typed.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    scalar::{Field, Share, Word},
    shape::Located,
};

/// Traffic of the gateway's own making, by which it learns: second answers that are compared with the first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Most that it costs, as a share of what callers' own requests cost, such as `2%`: in US dollars where all pools have prices, else
    /// in tokens.
    pub budget: Field<Share>,
    /// The only pools that it may go to. Default: those of the request that it is about.
    pub pools: Option<Located<Vec<Field<Word>>>>,
    /// The pool that compares answers whose words do not show whether they agree. Without one, such pairs teach nothing.
    pub judge: Option<Field<Word>>,
}
