//! The file of the keys that are created on the running gateway: a policy file with nothing but `keys`, as JSON. It is replaced
//! whole.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use signalbox_config::Problems;
use signalbox_policy::{Policy, compile_managed_keys};

/// Random bytes in a secret: as many as in its hash.
const SECRET_BYTES: usize = 32;
/// The settings of a key, as in the policy's `keys`.
pub(super) type Settings = Map<String, Value>;

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) keys: Vec<Settings>,
}

/// The file of managed keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManagedKeysError {
    /// An I/O error.
    #[error("managed keys: '{path}': {error} (managed_keys.path in the policy)")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file has lost its content, as after a crash or a failed copy.
    #[error(
        "managed keys: '{0}' has no `keys`: restore it, or write `{{\"keys\": []}}` to begin without any (managed_keys.path in the policy)"
    )]
    Empty(PathBuf),
    /// The file's text is invalid.
    #[error("managed keys: {} (managed_keys.path in the policy)", lines(.0))]
    Invalid(Problems),
}

/// A new secret and its hash.
#[derive(Debug)]
pub struct NewKey {
    /// The secret, for the caller.
    pub secret: String,
    /// `blake3:` and 64 hex digits, for the policy.
    pub hash: String,
}

impl NewKey {
    /// Generates a secret.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes)
            .map_err(|error| io::Error::other(format!("the system provides no random bytes: {error}")))?;
        // A prefix lets secret scanners recognise a leaked key.
        let secret = format!("sb-{}", blake3::Hash::from_bytes(bytes).to_hex());
        let hash = format!("blake3:{}", blake3::hash(secret.as_bytes()).to_hex());
        Ok(Self { secret, hash })
    }
}

/// Adds the managed keys to `policy`, if it has a file of them. Blocks on the disk.
pub(super) fn load(policy: &mut Policy) -> Result<(), ManagedKeysError> {
    policy.keys.retain(|key| !key.managed);
    let Some(path) = policy.managed_keys.as_ref().map(|managed| managed.path.clone()) else { return Ok(()) };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ManagedKeysError::Io { path, error }),
    };
    // Otherwise every caller would lose access without a word.
    if !text.contains("keys") {
        return Err(ManagedKeysError::Empty(path));
    }
    add(policy, &path, &text).map_err(ManagedKeysError::Invalid)
}

/// Makes the keys in `text`, the content of the file at `path`, the managed keys of `policy`.
pub(super) fn add(policy: &mut Policy, path: &Path, text: &str) -> Result<(), Problems> {
    let keys = compile_managed_keys(&path.display().to_string(), text, policy, false)?;
    policy.keys.retain(|key| !key.managed);
    policy.keys.extend(keys);
    Ok(())
}

/// The messages of `problems` on one line.
pub(super) fn lines(problems: &Problems) -> String {
    let line = |(_, _, problem): (usize, usize, &signalbox_config::Problem)| match &problem.help {
        Some(help) => format!("{problem}: {help}"),
        None => problem.to_string(),
    };
    problems.iter().map(line).collect::<Vec<_>>().join("; ")
}

pub(super) fn read(path: &Path) -> io::Result<Stored> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Stored::default()),
        Err(error) => Err(error),
    }
}
