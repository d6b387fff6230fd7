//! Identity of an engine: its address and the account that pays for it.

use super::Name;

/// Identity of an engine across policies. Requests to one address through two accounts have limits, keys, breakers and
/// learned state of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EngineId {
    /// Base address, without a trailing slash.
    pub url: String,
    /// The owner of the keys that it is called with.
    pub payer: Payer,
}

/// The owner of the keys that an engine is called with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Payer {
    /// The engine's own key, or none.
    #[default]
    Own,
    /// A named account.
    Account(Name),
    /// A further key for the same address. The name is that of its engine.
    Key(Name),
}

impl EngineId {
    /// Name of the account, for objects that are stored there: providers keep them by account, whatever the address.
    pub fn account(&self) -> Name {
        match &self.payer {
            Payer::Own => self.url.as_str().into(),
            Payer::Account(name) => format!("account {name}").into(),
            Payer::Key(name) => format!("{} {name}", self.url).into(),
        }
    }
}

impl From<&str> for EngineId {
    fn from(url: &str) -> Self {
        Self { url: url.to_owned(), payer: Payer::Own }
    }
}
