//! Values that are a number of tokens or `auto`.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    mistake::Mistake,
    patterns::{self, number_schema},
    scalar::{Field, Scalar, Word},
    units,
};

/// Defines a type of value that is a number of tokens or `auto`.
macro_rules! tokens_or_auto {
    ($(#[$about:meta])* $name:ident, $least:literal, $least_words:literal) => {
        $(#[$about])*
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub struct $name(pub Option<u64>);

        impl Scalar for $name {
            fn read(text: &str) -> Result<Self, Mistake> {
                if text == "auto" {
                    return Ok(Self(None));
                }
                match units::size(text) {
                    Ok(tokens) if tokens < $least => Err(Mistake::new($least_words).help("write it like `8k`, or `auto`")),
                    Ok(tokens) => Ok(Self(Some(tokens))),
                    Err(mistake) => Err(Mistake::new("not a number of tokens, nor `auto`")
                        .help(mistake.help.unwrap_or_else(|| "write it like `8k`, or `auto`".into()))),
                }
            }

            fn schema() -> Schema {
                number_schema("integer", $least, &format!("auto|{}", patterns::SIZE), &["auto", "8k"])
            }
        }
    };
}

tokens_or_auto!(
    /// The context size in tokens, or `auto` for the size that the engine reports.
    Context,
    16,
    "a context too small for any prompt"
);
tokens_or_auto!(
    /// The number of tokens from which a prompt is long, or `auto` for a learned boundary.
    Boundary,
    1,
    "a boundary below which there is nothing"
);

/// Two pools, chosen by the length of the prompt.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// The pool for short prompts.
    pub short: Field<Word>,
    /// The pool for long prompts.
    pub long: Field<Word>,
    /// The number of tokens from which a prompt is long, such as `8k`. Default: `auto`, the length from which the pool
    /// for long prompts serves it sooner and at less cost to others.
    pub boundary: Option<Field<Boundary>>,
}
