//! Translates the configuration of another gateway into a policy, and lists what has no counterpart. Pure: files that a
//! configuration includes are read by the caller.

#![forbid(unsafe_code)]

mod litellm;
mod tree;

#[cfg(any(test, feature = "fuzzing"))]
pub use self::litellm::fuzz_litellm;
pub use self::litellm::import as from_litellm;

/// A translated configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The text of the policy.
    pub policy: String,
    /// Remarks on single settings, in the order of the file.
    pub notes: Vec<Note>,
    /// Environment variables that the policy reads.
    pub variables: Vec<Variable>,
    /// Number of deployments in the policy, and in the configuration.
    pub deployments: (usize, usize),
}

impl Imported {
    /// The remarks of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(move |note| note.kind == kind)
    }
}

/// The relation of a setting to the policy.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It has no counterpart.
    Gap,
    /// It was translated, but works differently.
    Differs,
    /// The gateway does this without a setting.
    BuiltIn,
}

/// A remark on a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its relation to the policy.
    pub kind: Kind,
    /// Its line; 0 for the file as a whole.
    pub line: usize,
    /// Its place, such as `router_settings.retry_policy`.
    pub place: String,
    /// The difference, and the alternative.
    pub text: String,
}

/// An environment variable that the policy reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// The line of the value that it stands for, if the configuration contains it in plain text.
    pub plain_at: Option<usize>,
    /// Its purpose, if the configuration does not have it.
    pub purpose: Option<&'static str>,
}
