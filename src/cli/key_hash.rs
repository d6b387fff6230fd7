//! `signalbox key hash`: the lines of a policy for keys that clients have already.

use std::{
    collections::HashSet,
    fs,
    io::{self, IsTerminal, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::json;

use super::output;
use signalbox_config::{Scalar, Token, Word, plain};

/// The most bytes that are read: enough for 50,000 keys.
const MAX_INPUT_BYTES: u64 = 4 << 20;

/// Hash keys that clients have already, and print their lines for the policy
///
/// Reads one key on each line, from a file or from standard input, so that keys appear neither in the shell's history
/// nor in the list of processes. A line may begin with a name: `web sk-…`. Empty lines and lines that begin with `#` are
/// skipped.
///
/// LiteLLM's database has SHA-256 hashes in place of keys (the column `token` of `LiteLLM_VerificationToken`). A line
/// with such a hash, of 64 hex digits, is taken over as `sha256:…`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The file with the keys; standard input if it is missing or `-`
    file: Option<PathBuf>,
    /// Id for keys without a name; further ones get a number
    #[arg(long, default_value = "key")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A key's line.
struct Hashed {
    id: String,
    hash: String,
}

pub(super) fn hash(args: &Args) -> io::Result<ExitCode> {
    let fail = |text: &str| {
        output::complain(&format!("signalbox: {text}\n"));
        Ok(ExitCode::FAILURE)
    };
    if Word::read(&args.id).is_err() {
        return fail("an id is visible ASCII characters without spaces, such as `web`");
    }
    let text = match read(args.file.as_deref()) {
        Ok(text) => text,
        Err(message) => return fail(&message),
    };
    let keys = match hashed(&text, &args.id) {
        Ok(keys) => keys,
        Err(message) => return fail(&message),
    };
    if keys.is_empty() {
        return fail("no keys: write one on each line, `NAME KEY` or `KEY`");
    }
    if args.json {
        let keys: Vec<_> = keys.iter().map(|key| json!({ "id": key.id, "hash": key.hash })).collect();
        return output::json(&json!({ "keys": keys })).map(|()| ExitCode::SUCCESS);
    }
    let lines = keys.iter().map(|key| format!("  - {{ id: {}, hash: \"{}\" }}\n", yaml(&key.id), key.hash));
    output::print(&format!("keys:\n{}", lines.collect::<String>())).map(|()| ExitCode::SUCCESS)
}

/// The text of the file or of standard input.
fn read(file: Option<&Path>) -> Result<String, String> {
    let mut text = String::new();
    let read = if let Some(path) = file.filter(|path| *path != Path::new("-")) {
        let is_key = path.to_str().is_some_and(|name| name.starts_with("sk-") || name.starts_with("sb-"));
        if is_key && !path.exists() {
            return Err("a key on the command line is in the shell's history now, and other users could see it: \
                            write keys to a file or to standard input, and replace this one"
                .to_owned());
        }
        let shown = path.display();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_INPUT_BYTES).read_to_string(&mut text))
            .map_err(|error| format!("{shown}: {}", plain(&error)))
    } else {
        if io::stdin().is_terminal() {
            output::complain("paste the keys, one on each line, then press Ctrl-D:\n");
        }
        io::stdin()
            .take(MAX_INPUT_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| format!("standard input: {}", plain(&error)))
    };
    match read? as u64 {
        MAX_INPUT_BYTES => Err("more than 4 MiB: split the keys into several files".to_owned()),
        _ => Ok(text),
    }
}

/// The keys in `text`. Errors name lines, never keys.
fn hashed(text: &str, usual: &str) -> Result<Vec<Hashed>, String> {
    let (mut keys, mut ids, mut hashes) = (Vec::<Hashed>::new(), HashSet::new(), HashSet::new());
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.trim().trim_start_matches('\u{feff}');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts: Vec<_> = line.split([' ', '\t', ',', ';']).filter(|part| !part.is_empty()).collect();
        let (name, secret) = match parts[..] {
            [secret] => (None, secret),
            [name, secret] => (Some(name.trim_end_matches(':')), secret),
            _ => return Err(format!("line {number}: more than a name and a key")),
        };
        let Token(secret) = Token::read(secret.trim_matches(['"', '\'']))
            .map_err(|mistake| format!("line {number}: {}", mistake.message))?;
        let id = match name {
            Some(name) if Word::read(name).is_err() => {
                return Err(format!("line {number}: a name is visible ASCII characters without spaces"));
            }
            Some(name) if !ids.insert(name.to_owned()) => return Err(format!("line {number}: the name occurs twice")),
            Some(name) => name.to_owned(),
            None => free(usual, &mut ids),
        };
        let is_hash = secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
        let hash = if is_hash {
            format!("sha256:{}", secret.to_ascii_lowercase())
        } else {
            format!("blake3:{}", blake3::hash(secret.as_bytes()).to_hex())
        };
        if !hashes.insert(hash.clone()) {
            return Err(format!("line {number}: the key occurs twice"));
        }
        keys.push(Hashed { id, hash });
    }
    Ok(keys)
}

/// `usual`, or `usual-2` and so on if it is taken.
fn free(usual: &str, ids: &mut HashSet<String>) -> String {
    let mut id = usual.to_owned();
    let mut number = 2;
    while !ids.insert(id.clone()) {
        id = format!("{usual}-{number}");
        number += 1;
    }
    id
}

/// `id` as a YAML scalar in a flow mapping.
pub(super) fn yaml(id: &str) -> String {
    let plain = id.starts_with(|c: char| c.is_ascii_alphabetic())
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if plain { id.to_owned() } else { serde_json::Value::from(id).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_key_with_or_without_a_name() {
        let sha = "AB".repeat(32);
        let text = format!("\u{feff}sk-1\n\n# more\nweb sk-2\nbatch: sk-3\r\n'sk-4'\nold,{sha}\n");
        let keys = hashed(&text, "key").unwrap();
        assert_eq!(keys.iter().map(|key| &*key.id).collect::<Vec<_>>(), ["key", "web", "batch", "key-2", "old"]);
        assert_eq!(keys[0].hash, format!("blake3:{}", blake3::hash(b"sk-1").to_hex()));
        assert_eq!(keys[4].hash, format!("sha256:{}", "ab".repeat(32)));
    }

    #[test]
    fn errors_name_the_line_and_no_key() {
        for text in ["a sk-9 sk-8", "a sk-9\na sk-8", "sk-9\nsk-9", "ü sk-9", "sk-9é"] {
            let error = hashed(text, "key").err().unwrap();
            assert!(error.starts_with("line ") && !error.contains("sk-"), "{error}");
        }
    }
}
