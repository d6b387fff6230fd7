//! Texts of the policies that were loaded last: while the file is refused, that in force can be loaded again with new secrets.

use std::{
    collections::VecDeque,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use super::{check::exposed, output};
use signalbox_config::Config;
use signalbox_policy::{Policy, compile};
use signalbox_server::PolicyText;

/// Texts that are kept.
const MOST: usize = 8;

/// Texts, each with the hash of its policy.
type Texts = VecDeque<(String, Vec<u8>)>;

/// The texts that were loaded last. Clones share them.
#[derive(Clone, Default)]
pub(super) struct LoadedTexts(Arc<Mutex<Texts>>);

impl LoadedTexts {
    /// Loads and compiles a policy; the error is formatted for people.
    pub(super) fn load(&self, file: &Path, text: PolicyText<'_>) -> Result<Policy, String> {
        let bytes = match text {
            // The error is that of the usual way to load it.
            PolicyText::File => std::fs::read(file),
            PolicyText::Loaded(hash) => {
                let texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let known = texts.iter().find(|(known, _)| known == hash).map(|(_, bytes)| bytes.clone());
                known.ok_or_else(|| io::Error::other("its text is not known any more"))
            }
        };
        let config = match (&bytes, text) {
            (Ok(bytes), _) => Config::load_bytes(file, bytes.clone()),
            (Err(_), PolicyText::File) => Config::load(file),
            (Err(error), PolicyText::Loaded(_)) => return Err(format!("signalbox: {error}\n")),
        };
        let policy = config
            .and_then(|config| {
                if let Some(line) = config.exposed() {
                    tracing::warn!(file = %file.display(), "policy: {}", exposed(line));
                }
                compile(&config)
            })
            .map_err(|problems| output::report(&problems))?;
        if let Ok(bytes) = bytes {
            let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            texts.retain(|(known, _)| *known != policy.hash);
            texts.push_back((policy.hash.clone(), bytes));
            if texts.len() > MOST {
                texts.pop_front();
            }
        }
        Ok(policy)
    }
}
