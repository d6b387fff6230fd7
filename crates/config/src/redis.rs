//! The connection to a Redis or Valkey server as written in the file, beside its address.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::{
    key_source::KeySource,
    mistake::Mistake,
    patterns::text_schema,
    scalar::{Field, Scalar},
};

/// Credentials for Sentinels, which have others than the servers that they watch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SentinelLogin {
    /// The user. Default: `default`.
    pub user: Option<Field<String>>,
    /// The password.
    pub password: KeySource,
}

/// The beginning of the names of all keys on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrefix(pub String);

/// Most characters of a prefix.
const LONGEST: usize = 64;

impl Scalar for KeyPrefix {
    fn read(text: &str) -> Result<Self, Mistake> {
        let is_usual = |letter: char| letter.is_ascii_graphic() && !"{}\"'\\*?[]".contains(letter);
        if text.is_empty() || text.len() > LONGEST || !text.chars().all(is_usual) {
            return Err(Mistake::new("not a prefix of keys").help(
                "write a name such as `production` or `team-a:signalbox`: 64 visible ASCII characters at most, without braces, quotes \
                 and the signs of patterns",
            ));
        }
        Ok(Self(text.to_owned()))
    }

    fn schema() -> Schema {
        text_schema(r"[!#-&(-)+->@-Z^-z|~]+", &["production", "team-a:signalbox"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cannot_move_keys_to_other_slots() {
        for good in ["production", "team-a:signalbox", "a/b.c"] {
            assert_eq!(KeyPrefix::read(good), Ok(KeyPrefix(good.to_owned())));
        }
        for bad in ["", "{a}", "a b", "a*", "é", &"a".repeat(65)] {
            assert!(KeyPrefix::read(bad).is_err(), "{bad}");
        }
    }
}
