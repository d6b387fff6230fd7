//! `signalbox key new`: a secret for a caller, and the line that lets it in.

use std::{io, process::ExitCode};

use serde_json::json;

use super::output;
use crate::config::{Scalar, Word};

/// Random bytes in a secret: as many as its hash has.
const BYTES: usize = 32;

pub(super) fn new(id: &str, json: bool) -> io::Result<ExitCode> {
    if Word::read(id).is_err() {
        output::complain("signalbox: an id is visible ASCII characters without spaces, such as `web`\n");
        return Ok(ExitCode::FAILURE);
    }
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| io::Error::other(format!("the system gave no random bytes: {error}")))?;
    // A prefix lets secret scanners and people tell what they have found.
    let secret = format!("sb-{}", blake3::Hash::from_bytes(bytes).to_hex());
    let hash = format!("blake3:{}", blake3::hash(secret.as_bytes()).to_hex());
    if json {
        output::json(&json!({ "id": id, "secret": secret, "hash": hash }))?;
    } else {
        output::print(&format!(
            "The secret, for the caller; it is shown this once:\n\n  {secret}\n\nThe line for the policy, under `keys`:\n\n  - {{ id: {}, hash: \"{hash}\" }}\n",
            yaml(id)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `id` as YAML takes it for text in a flow mapping.
fn yaml(id: &str) -> String {
    let plain = id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if plain { id.to_owned() } else { serde_json::Value::from(id).to_string() }
}
