//! A pool's tokenizer: the name of an encoding, a file, or a model on the hub.

use std::path::{Path, PathBuf};

use schemars::{Schema, json_schema};

use super::{
    mistake::{Mistake, nearest},
    patterns::text_schema,
    scalar::Scalar,
};

/// Names of the built-in choices.
const BUILT_IN: [(&str, Tokenizer); 5] = [
    ("learned", Tokenizer::Learned),
    ("o200k", Tokenizer::O200k),
    ("o200k_base", Tokenizer::O200k),
    ("cl100k", Tokenizer::Cl100k),
    ("cl100k_base", Tokenizer::Cl100k),
];
/// The longest part of a hub name.
const MAX_NAME_BYTES: usize = 96;

/// The source of a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tokenizer {
    /// None: bytes per token are learned.
    Learned,
    /// OpenAI's `o200k_base`.
    O200k,
    /// OpenAI's `cl100k_base`.
    Cl100k,
    /// A `tokenizer.json`.
    File(PathBuf),
    /// A model on the Hugging Face hub, as `org/name`.
    Hub(String),
}

impl Scalar for Tokenizer {
    fn read(text: &str) -> Result<Self, Mistake> {
        if let Some((_, built_in)) = BUILT_IN.iter().find(|(name, _)| *name == text) {
            return Ok(built_in.clone());
        }
        if Path::new(text).extension().is_some_and(|extension| extension == "json") {
            return Ok(Self::File(text.into()));
        }
        let unknown = Mistake::new("not a tokenizer");
        if text.starts_with(['/', '.', '~']) || text.contains('\\') {
            return Err(unknown.help("name the file itself: `path/to/tokenizer.json`"));
        }
        match text.split_once('/') {
            Some((org, name)) if part(org) && part(name) => Ok(Self::Hub(text.to_owned())),
            Some(_) => {
                Err(unknown.help("a model on the hub is written `org/name`, a file as `path/to/tokenizer.json`"))
            }
            None => Err(unknown.help(match nearest(text, BUILT_IN.iter().map(|(name, _)| *name)) {
                Some(name) => format!("did you mean `{name}`?"),
                None => "write `o200k`, `cl100k`, `learned`, `path/to/tokenizer.json`, or a model on the hub such as \
                         `Qwen/Qwen2.5-7B-Instruct`"
                    .to_owned(),
            })),
        }
    }

    fn schema() -> Schema {
        let names = BUILT_IN.map(|(name, _)| name);
        let other = text_schema(
            r"[\s\S]*\.json|[A-Za-z0-9_-](?!.*\.\.)[A-Za-z0-9._-]{0,95}/[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}",
            &["models/qwen/tokenizer.json", "Qwen/Qwen2.5-7B-Instruct"],
        );
        json_schema!({ "anyOf": [{ "enum": names }, other] })
    }
}

/// True if `text` is a valid part of a hub name. It becomes part of a path, so anything that leads elsewhere is
/// rejected.
fn part(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && text.chars().all(plain)
        && !text.contains("..")
        && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_recognised() {
        for (text, want) in [
            ("o200k", Tokenizer::O200k),
            ("cl100k_base", Tokenizer::Cl100k),
            ("learned", Tokenizer::Learned),
            ("models/qwen/tokenizer.json", Tokenizer::File("models/qwen/tokenizer.json".into())),
            ("/t.json", Tokenizer::File("/t.json".into())),
            ("Qwen/Qwen2.5-7B-Instruct", Tokenizer::Hub("Qwen/Qwen2.5-7B-Instruct".to_owned())),
        ] {
            assert_eq!(Tokenizer::read(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn errors_suggest_a_remedy() {
        for (text, remedy) in [
            ("o200", "did you mean `o200k`?"),
            ("llama", "`o200k`, `cl100k`"),
            ("./qwen", "name the file itself"),
            ("a/../b", "`org/name`"),
            ("a/b/c", "`org/name`"),
            ("/", "name the file itself"),
            ("", "`o200k`, `cl100k`"),
        ] {
            let help = Tokenizer::read(text).unwrap_err().help.unwrap();
            assert!(help.contains(remedy), "{text}: {help}");
        }
    }
}
